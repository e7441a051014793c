"""The command line with a bug in it that quotes somebody's report: `python -m tests.secrets.faulty COMMAND STUDY ...`.

A stranger's exception is raised because of another, inside a group of tasks: everything that a traceback shows.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamproc.cli import main as app
from streamproc.gatherer.logic import GathererLogic
from streamproc.log.port import Record


def ingest(self: GathererLogic, records: Sequence[Record]) -> None:
    quoted = repr(records[0].key)
    try:
        raise KeyError(quoted)
    except KeyError as error:
        error.add_note(f"while looking at {quoted}")
        raise ValueError(f"cannot use {quoted}") from error


def main() -> None:
    GathererLogic.ingest = ingest  # type: ignore[method-assign, assignment]
    app.main()


if __name__ == "__main__":
    main()
