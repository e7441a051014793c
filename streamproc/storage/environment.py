"""Settings from the environment: the names of all variables, and secrets in the files that some of them name.

Unknown names with the program's prefix are refused: a misspelt `STREAMPROC_BROKER` would run a study on the embedded log,
and a misspelt `STREAMPROC_KAFKA_SECURITY` would connect without TLS.
"""

from __future__ import annotations

import difflib
import functools
import logging
import stat
from collections.abc import Collection
from pathlib import Path

from streamproc.errors import InvalidInput
from streamproc.storage.filesystem import display_path

PREFIX = "STREAMPROC_"

KNOWN = (
    "STREAMPROC_BROKER",
    "STREAMPROC_STATE",
    "STREAMPROC_REGISTRY",
    "STREAMPROC_OPERATOR_TOKEN_FILE",
    "STREAMPROC_ALLOW_INSECURE",
    "STREAMPROC_DEBUG",
    "STREAMPROC_KAFKA_SECURITY",
    "STREAMPROC_KAFKA_MECHANISM",
    "STREAMPROC_KAFKA_USER",
    "STREAMPROC_KAFKA_PASSWORD_FILE",
    "STREAMPROC_KAFKA_CA",
    "STREAMPROC_KAFKA_CERT",
    "STREAMPROC_KAFKA_KEY",
    "STREAMPROC_KAFKA_INSTANCE",
    "STREAMPROC_KAFKA_SESSION_TIMEOUT",
    "STREAMPROC_KAFKA_TRANSACTION_TIMEOUT",
)
"""Every variable, in the order in which docs/operations.md lists them."""

_HOST = "_SERVICE_HOST"
"""Suffix of a variable that Kubernetes sets for each service, in every container of a namespace."""


def check_environment(names: Collection[str]) -> None:
    """Raise InvalidInput if one of `names` begins with `STREAMPROC_` and is not a name that the program reads.

    Variables that Kubernetes sets for a service named `streamproc` or `streamproc-...` are accepted.
    """
    services = [name.removesuffix(_HOST) for name in names if name.endswith(_HOST)]
    for name in sorted(names):
        if name.startswith(PREFIX) and name not in KNOWN and not _belongs_to_one(name, services):
            raise InvalidInput(f"environment variable {name}: no such setting; {_advice(name)}")


def _belongs_to_one(name: str, services: Collection[str]) -> bool:
    return any(name == f"{each}_PORT" or name.startswith((f"{each}_PORT_", f"{each}_SERVICE_")) for each in services)


def _advice(name: str) -> str:
    # The prefix is common to all, and would make every name resemble every other.
    nearest = difflib.get_close_matches(name.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in KNOWN], n=1)
    if nearest:
        return f"did you mean {PREFIX}{nearest[0]}? Unset it or correct its name"
    return f"there are {', '.join(KNOWN)}"


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
