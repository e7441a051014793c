"""Log lines as text or, with `--log-json`, as JSON. They name periods and partitions, but never an id or a symbol."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

log = logging.getLogger("streamproc")
"""The logger of all log lines; `event` writes to it."""

LIBRARIES = ("aiokafka", "aiohttp", "asyncio", "kafka")
"""Libraries whose log lines could contain the key of a record."""


class _Json(logging.Formatter):
    def __init__(self, study: str) -> None:
        super().__init__()
        self._study = study

    def format(self, record: logging.LogRecord) -> str:
        level = record.levelname.lower()
        line = {"at": _when(record), "level": level, "study": self._study, "event": record.getMessage()}
        return json.dumps(line | getattr(record, "fields", {}))


class _Plain(logging.Formatter):
    def __init__(self, study: str) -> None:
        super().__init__()
        self._study = study

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={value}" for name, value in getattr(record, "fields", {}).items())
        start = f"{_when(record)} {record.levelname.lower():7} study={self._study}"
        return f"{start} {record.getMessage()} {fields}".rstrip()


def _when(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def set_up_logs(study: str, *, as_json: bool, level: str = "INFO") -> None:
    """Send the log lines of a process, each with the name of its study, to standard error.

    Libraries log critical errors only.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json(study) if as_json else _Plain(study))
    log.handlers[:] = [handler]
    log.setLevel(level)
    log.propagate = False
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(logging.CRITICAL)


def event(message: str, level: int = logging.INFO, **fields: object) -> None:
    """Write one log line. Fields must be public or operational values."""
    log.log(level, message, extra={"fields": fields})
