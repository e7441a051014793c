"""The log that a broker URL names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from streamproc.log.port import Log
from streamproc.study.study import Broker


def connect(
    url: str,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    timeout: float = 30.0,
    on_slow: Callable[[], None] | None = None,
) -> Log:
    """Return a connection to `embedded:FOLDER` or `kafka://host:port,host:port`. Entering it connects.

    A relative FOLDER is relative to `folder` (default: the working directory). `environ` (default: the process's) holds
    Kafka's security settings. No call takes longer than about `timeout` seconds. `on_slow` is called once if connecting to
    Kafka takes more than 2 seconds. Raises InvalidInput.
    """
    broker = Broker(url)
    if broker.folder is not None:
        from streamproc.log.embedded import EmbeddedLog

        return EmbeddedLog((folder or Path()) / broker.folder, timeout=timeout)
    from streamproc.log.kafka import KafkaLog, KafkaSettings

    settings = KafkaSettings.parse(broker.servers, os.environ if environ is None else environ)
    return KafkaLog(settings, timeout=timeout, on_slow=on_slow)
