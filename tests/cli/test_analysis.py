"""The analyst's page: its lines run as they stand there, and the ways it shows agree."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamproc import AtLeast, Panel, count_of
from tests.cli.conftest import Command

PAGE = Path(__file__).parents[2] / "docs" / "analysis.md"


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert found
    return found


@pytest.fixture
def analysed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamproc: Command) -> dict[str, Any]:
    """What an analyst has after following the page, beside a study that is over."""
    streamproc("demo", "--people", 300, "--out", tmp_path / "demo", "--seed", 7)
    shutil.copy(tmp_path / "demo" / "study.toml", tmp_path / "demo" / "poverty.toml")
    monkeypatch.chdir(tmp_path / "demo")
    for line in "".join(blocks("sh")).splitlines():
        program, *arguments = shlex.split(line)
        assert program == "streamproc"
        assert streamproc(*arguments).code == 0
    write_visits(Path("visits.csv"))
    names: dict[str, Any] = {}
    exec("".join(blocks("python")), names)
    return names


def write_visits(path: Path) -> None:
    """Twenty people enter in each of 24 periods, and are silent from some period on."""
    lines = [",".join(["individual", *map(str, range(1, 25))])]
    for person in range(480):
        first, stays = person // 20, 3 + person % 11
        cells = [str((person + t) % 3 % 2) if first <= t < first + stays else "" for t in range(24)]
        lines.append(",".join([f"id-{person}", *cells]))
    path.write_text("\n".join(lines) + "\n")


def test_pulled_files_become_panels_as_shown_and_only_parquet_has_measurements(
    analysed: dict[str, Any],
) -> None:
    panels: list[Panel] = [analysed[name] for name in ("quarterly", "from_ledger", "from_csv", "from_pandas")]
    asked = count_of(["1"], at_least=2, of=3)
    answers = [panel.fraction(asked, 6) for panel in panels]
    assert [answer.clamped for answer in answers] == [False, False, None, None]
    assert len({replace(answer, clamped=None) for answer in answers}) == 1
    assert analysed["answer"] == panels[0].fraction(asked, 6)

    shares = analysed["shares"]
    by_hand = sum(share for symbols, share in shares.items() if symbols.count("1") >= 2)
    assert np.isclose(by_hand, analysed["answer"].value)

    from_csv = Panel.load("csv-only/months-poor.csv", analysed["months"].contract)
    narrow, wide = analysed["months"].fraction(AtLeast(1)), from_csv.fraction(AtLeast(1))
    assert narrow.value == wide.value
    assert wide.high - wide.low > 1.2 * (narrow.high - narrow.low)


def test_answers_of_an_open_study_are_shares_and_numbers(analysed: dict[str, Any]) -> None:
    assert [analysed[name].unit for name in ("came", "often", "kept", "gained")] == ["share"] * 3 + ["people"]
    assert all(analysed[name].low <= analysed[name].value <= analysed[name].high for name in ("came", "often", "kept"))
    frame = analysed["recent"].to_pandas()
    assert frame["12"].notna().sum() == analysed["recent"].bins(12)["#present"]
