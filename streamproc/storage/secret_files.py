"""Secrets, which are read from files and never shown."""

from __future__ import annotations

import functools
import logging
import stat
from pathlib import Path

from streamproc.errors import InvalidInput
from streamproc.storage.filesystem import display_path


def read_secret(variable: str, path: Path) -> str:
    """Return the text of the file that an environment variable names, without the last line ending.

    Raises InvalidInput, which names the variable and the file. Logs a warning if every user may read the file. It is still
    accepted, because container engines mount secrets with that mode.
    """
    try:
        secret = path.read_text(encoding="utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise InvalidInput(f"{variable}: {display_path(path)}: expected text in UTF-8") from None
    except OSError as error:
        raise InvalidInput(f"{variable}: {display_path(path)}: cannot be read: {error.strerror}") from None
    if not secret:
        raise InvalidInput(f"{variable}: {display_path(path)}: is empty")
    warn_if_open(variable, path)
    return secret


def warn_if_open(variable: str, path: Path) -> None:
    """Log a warning if every user of the machine may read a file with a secret."""
    if path.stat().st_mode & stat.S_IROTH:
        warn_once(f"{variable}: everybody on this machine can read {display_path(path)}; run chmod o-r on it")


@functools.cache
def warn_once(message: str) -> None:
    """Log a warning once per process. Without logging configuration it goes to standard error."""
    logging.getLogger("streamproc").warning("%s", message)
