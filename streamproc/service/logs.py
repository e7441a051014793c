"""Log lines for people or, with `--log-json`, for machines. They name periods and partitions; never an id or a symbol."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

log = logging.getLogger("streamproc")
"""`log.info("what happened", extra={"fields": {...}})`: fields are public or operational numbers."""

LIBRARIES = ("aiokafka", "aiohttp", "asyncio", "kafka")
"""Whose log lines could carry a record's key."""


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"at": _when(record), "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps(line | getattr(record, "fields", {}))


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={value}" for name, value in getattr(record, "fields", {}).items())
        return f"{_when(record)} {record.levelname.lower():7} {record.getMessage()} {fields}".rstrip()


def _when(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def set_up_logs(*, as_json: bool, level: str = "INFO") -> None:
    """Send our log lines to standard error. Libraries stay silent below critical errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if as_json else _Plain())
    log.handlers[:] = [handler]
    log.setLevel(level)
    log.propagate = False
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(logging.CRITICAL)


def event(message: str, level: int = logging.INFO, **fields: object) -> None:
    """One log line."""
    log.log(level, message, extra={"fields": fields})
