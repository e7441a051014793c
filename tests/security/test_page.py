"""docs/security.md shows what the command shows, and who does what with which topic."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.security.principals import PRINCIPALS, rights
from tests.stream.programs import ROOT, call
from tests.studies import StudyParameters

PAGE = (ROOT / "docs" / "security.md").read_text()
WORDS = {"Write": "writes", "Read": "reads", "Describe": "sees"}
SCHEDULE = '[schedule]\nstart = 2026-01-01T00:00:00Z\nevery = "month"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    text = StudyParameters("poverty").text("kafka://localhost:9092")
    path = tmp_path / "poverty.toml"
    path.write_text(text.replace('"recent"', '"quarterly"').replace('"ever"', '"months-poor"'))
    return path


def printed(file: Path) -> str:
    ended = call("init", file, "--print")
    assert ended.code == 0, ended.complaint
    return ended.out


def test_the_acls_are_those_that_init_prints(file: Path) -> None:
    (shown,) = re.findall(r"<!-- what `init --print` shows -->\n```sh\n(.*?)```", PAGE, re.DOTALL)

    assert shown == printed(file)


def test_the_table_says_who_does_what(file: Path) -> None:
    allowed = [right for right in rights(printed(file)) if right.resource[0] == "--topic" and not right.to_purge]
    rows = re.findall(r"^\| `S\.([a-z.R]+)`: [^|]*\|(.*)\|$", PAGE, re.MULTILINE)
    assert [topic for topic, _ in rows] == ["reports", "control", "tallies", "rejects", "ledger", "synthetic.R"]
    order = ("reporter", "gatherer", "synthesizer", "steward", "operator", "analyst")
    assert set(order) == set(PRINCIPALS)
    for topic, cells in rows:
        name = f"poverty.{topic.replace('.R', '.quarterly')}"
        for principal, cell in zip(order, cells.split("|"), strict=True):
            found = [WORDS[each.operation] for each in allowed
                     if (each.principal, each.resource[1]) == (principal, name) and each.operation in WORDS]  # fmt: skip
            assert cell.strip() == (", ".join(found) or "-"), (topic, principal)


def test_a_schedule_lets_the_synthesizer_make_cuts(file: Path) -> None:
    before = set(rights(printed(file)))
    file.write_text(file.read_text() + SCHEDULE)
    more = set(rights(printed(file))) - before

    assert {(each.principal, each.operation, each.resource[1]) for each in more} == {
        ("synthesizer", "Write", "poverty.control"),
        ("synthesizer", "Describe", "poverty.reports"),
        ("synthesizer", "DescribeConfigs", "poverty.reports"),
    }


def test_every_file_it_names_is_there() -> None:
    names = re.findall(r"`((?:tests/[a-z_]+/)?test_[a-z_]+\.py)`", PAGE)
    assert len(names) >= 6
    for name in names:
        assert (ROOT / (name if "/" in name else f"tests/security/{name}")).exists(), name
