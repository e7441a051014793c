"""Where a study's topics are."""

from __future__ import annotations

import re
from dataclasses import dataclass

from streamproc.errors import StudyError
from streamproc.study.checks import check_whole, is_path, shown

_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


@dataclass(frozen=True)
class Broker:
    """Where the topics are."""

    url: str
    """`embedded:FOLDER`, or `kafka://host:port,host:port`."""
    partitions: int = 4
    """Of the reports topic; fixed for the study."""

    def __post_init__(self) -> None:
        if not (is_path(self.url) and (self.folder is not None or self.servers)):
            # A URL with a '@' may carry a password.
            got = "a URL with '@'" if "@" in str(self.url) else shown(self.url)
            raise StudyError("broker.url", got, "embedded:FOLDER, or kafka://host:port[,host:port...]")
        check_whole("broker.partitions", self.partitions, 1, 1024)

    @property
    def folder(self) -> str | None:
        """Where an embedded broker keeps its files, as written; None for Kafka."""
        folder = self.url.removeprefix("embedded:")
        return folder if folder != self.url and is_path(folder) else None

    @property
    def servers(self) -> tuple[str, ...]:
        """Kafka's bootstrap servers, `host:port` each; empty for an embedded broker."""
        servers = tuple(self.url.removeprefix("kafka://").split(","))
        ports = [_SERVER.fullmatch(server) for server in servers]
        valid = all(port is not None and 1 <= int(port[1]) <= 65_535 for port in ports)
        return servers if self.url.startswith("kafka://") and valid else ()
