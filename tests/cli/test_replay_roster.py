"""`streamproc replay` of a study with a roster: everybody on it is in the study, and nobody else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.studies import study_toml, window_table

STUDY = study_toml(
    window_table("now", 1), name="work", alphabet="ab", population={"roster": "people.txt", "initial": "b"}, rho=1000
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "people.txt").write_text("ann\nbob\n\ncleo\n")
    return tmp_path


def test_people_on_the_roster_but_not_in_the_panel_never_reported(folder: Path, streamproc: Command) -> None:
    (folder / "panel.csv").write_text("individual,1,2,3\ncleo,a,a,a\nann,,a,\n")

    ended = streamproc("replay", folder / "study.toml", folder / "panel.csv", "--out", folder / "out")

    summary = json.loads((folder / "out" / "summary.json").read_text())
    release = summary["releases"]["now"]
    pad = release["n_pad"]
    people = {p["period"]: {label: count - pad for label, count in p["bins"].items()} for p in release["periods"]}
    assert ended.code == 0
    assert summary["n"] == 3
    # With a budget of 1000 the noise is practically always zero; a false alarm has a probability below 1e-9.
    assert people == {1: {"a": 1, "b": 2}, 2: {"a": 2, "b": 1}, 3: {"a": 2, "b": 1}}


def test_somebody_who_is_not_on_the_roster_is_refused_without_a_name(folder: Path, streamproc: Command) -> None:
    (folder / "panel.csv").write_text("individual,1,2,3\nann,a,a,a\nzoe,a,a,a\n")

    ended = streamproc("replay", folder / "study.toml", folder / "panel.csv", "--out", folder / "out")

    assert ended.code == 2
    assert len(ended.complaint.splitlines()) == 1
    assert "roster" in ended.complaint
    assert "zoe" not in ended.complaint


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"", "holds no id"), (b"ann\nann\n", "line 2"), (b"\xff\n", "UTF-8"), (b"x" * 2000, "at most")],
)
def test_a_roster_that_cannot_be_used_is_refused_in_one_line(
    folder: Path, streamproc: Command, content: bytes, problem: str
) -> None:
    (folder / "people.txt").write_bytes(content)
    (folder / "panel.csv").write_text("individual,1,2,3\nann,a,a,a\n")

    ended = streamproc("replay", folder / "study.toml", folder / "panel.csv", "--out", folder / "out")

    assert ended.code == 2
    assert problem in ended.complaint
    assert len(ended.complaint.splitlines()) == 1
