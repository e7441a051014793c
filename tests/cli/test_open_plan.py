"""`streamproc plan` of an open study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

STUDY = """
[study]
name = "app"
alphabet = ["0", "1"]

[population]
open = true
tenure = 12
size = 5000

[privacy]
rho = 0.01

[[release]]
name = "quarterly"
kind = "window"
k = 3

[[release]]
name = "active"
kind = "spell"
length = 4
event = ["1"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.toml").write_text(STUDY)
    return tmp_path


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_tables_show_what_a_steward_needs(folder: Path, streamproc: Command) -> None:
    ended = streamproc("plan", "app.toml")
    assert ended.code == 0
    said, lines = words(ended.out), [words(line) for line in ended.out.splitlines()]
    assert said.startswith(
        "Replacing any one person's whole participation (whether, when and how long they take part, and what they report) "
        "by any other (replace-one) changes the distribution of everything this study releases by at most rho = 0.01"
    )
    assert "app: open study, 5,000 people present, no last period, each person at most 12 periods, symbols 0, 1." in said
    assert "people present 197 214 218 111 218 -" in lines
    assert "“1” in the newest period 159 164 165 84.5 166 3.31" in lines
    assert "1 3 6 9 12 13 26 on" in lines
    assert any(line.startswith("study: rho ") and line.endswith(" 0.01 0.01") for line in lines)
    assert "The same noise under add-remove instead of replace-one" in said
    assert "Note: whether, when and for how long somebody takes part is protected like their reports" in said


def test_no_number_of_people_is_needed(folder: Path, streamproc: Command) -> None:
    (folder / "app.toml").write_text(STUDY.replace("size = 5000\n", ""))
    ended = streamproc("plan", "app.toml")
    assert ended.code == 0
    assert "app: open study, any number of people, no last period" in words(ended.out)
    assert "people present 197 214 218 111 218 -" in [words(line) for line in ended.out.splitlines()]
    planned = json.loads(streamproc("plan", "app.toml", "--json").out)
    assert (planned["n"], planned["horizon"], planned["tenure"]) == (None, None, 12)
    assert planned["other_adjacency"]["adjacency"] == "add-remove"


def test_add_and_remove_has_its_own_promise(folder: Path, streamproc: Command) -> None:
    (folder / "app.toml").write_text(STUDY.replace("rho = 0.01", 'rho = 0.01\nadjacency = "add-remove"'))
    said = words(streamproc("plan", "app.toml").out)
    assert said.startswith("Adding or removing any one person, with everything they ever report, (add-remove) changes")
    assert "The same noise under replace-one instead of add-remove" in said


def test_a_plan_is_drawn(folder: Path, streamproc: Command) -> None:
    ended = streamproc("plan", "app.toml", "--plot", "plan.svg")
    assert ended.code == 0
    drawn = (folder / "plan.svg").read_text()
    assert drawn.startswith("<?xml")


def test_the_study_on_the_page_is_one(folder: Path, streamproc: Command) -> None:
    page = (Path(__file__).parents[2] / "docs" / "study.md").read_text().partition("## Open studies")[2]
    (folder / "page.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    planned = json.loads(streamproc("plan", "page.toml", "--json").out)
    assert planned["horizon"] is None
    assert list(planned["releases"]) == ["recent", "active", "visits"]
