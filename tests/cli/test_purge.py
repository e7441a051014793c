"""`purge` asks first on a terminal, and needs `--yes` without one."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.bad_input import PANEL_STUDY
from tests.cli.conftest import Command


class Terminal(io.StringIO):
    """Somebody who types this."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "code", "says"),
    [
        ("\n", 2, "nothing deleted, as it was not confirmed"),
        ("n\n", 2, "nothing deleted, as it was not confirmed"),
        ("", 130, "interrupted"),
        ("y\n", 3, "only a study that is over can be purged"),
    ],
    ids=["only Enter", "no", "Ctrl-D", "yes"],
)
def test_without_a_yes_it_says_that_nothing_is_deleted_and_does_not_end_with_0(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, streamproc: Command, typed: str, code: int, says: str
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(PANEL_STUDY)
    monkeypatch.setattr(sys, "stdin", Terminal(typed))

    ended = streamproc("purge", study)

    asked, _, said = ended.complaint.partition("[y/N]: ")
    assert asked == "Delete everything private of study small forever? "
    assert (ended.code, ended.out) == (code, "")
    assert says in said


@pytest.mark.parametrize("stdin", [io.StringIO("y\n"), None], ids=["a pipe", "closed"])
def test_without_a_terminal_it_needs_yes(
    monkeypatch: pytest.MonkeyPatch, small_study: Path, streamproc: Command, stdin: io.StringIO | None
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)

    ended = streamproc("purge", small_study)

    assert (ended.code, ended.out) == (2, "")
    assert ended.complaint == (
        "streamproc: purge deletes everything private of study small, and there is no terminal to confirm this: give --yes\n"
    )


def test_with_yes_it_does_not_ask(monkeypatch: pytest.MonkeyPatch, small_study: Path, streamproc: Command) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    ended = streamproc("purge", small_study, "--yes")

    assert ended.code == 3
    assert "only a study that is over can be purged" in ended.complaint
