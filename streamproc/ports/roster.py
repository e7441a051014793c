"""The roster: who takes part, fixed before period 1."""

from __future__ import annotations

from pathlib import Path

from streamproc.errors import InvalidInput
from streamproc.wire.reports import MAX_ID


class NoRoster(InvalidInput):
    """The file is not here, or not for us to read: who only reports need not have it."""


def read_roster(path: Path) -> tuple[str, ...]:
    """The ids in a roster file, one a line; empty lines are skipped. A message names the line, never the id."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise InvalidInput(f"roster {path}: is not UTF-8 text") from None
    except OSError as error:
        raise NoRoster(f"roster {path}: cannot be read: {error.strerror}") from None
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        individual = line.removesuffix("\r")
        if not individual.strip():
            continue
        if len(individual) > MAX_ID:
            raise InvalidInput(f"roster {path}: line {number}: an id has at most {MAX_ID} characters")
        if individual in seen:
            raise InvalidInput(f"roster {path}: line {number}: an id that stands in line {seen[individual]} already")
        seen[individual] = number
    if not seen:
        raise InvalidInput(f"roster {path}: holds no id")
    return tuple(seen)
