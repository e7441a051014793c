"""Secrets: read from files, and never shown."""

from __future__ import annotations

import functools
import logging
import stat
from pathlib import Path

from streamproc.errors import InvalidInput
from streamproc.storage.filesystem import display_path


def read_secret(variable: str, path: Path) -> str:
    """The text of the file that an environment variable names, without the end of its last line.

    Raises InvalidInput, which names the variable and the file. A file that everybody may read is taken, because container
    engines mount secrets like that, but said.
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
    """Say that a file with a secret is readable by every user of the machine, if it is."""
    if path.stat().st_mode & stat.S_IROTH:
        warn_once(f"{variable}: everybody on this machine can read {display_path(path)}: chmod o-r it")


@functools.cache
def warn_once(message: str) -> None:
    """A log line, or one on standard error where nothing is logged; a process that connects often says it once."""
    logging.getLogger("streamproc").warning("%s", message)
