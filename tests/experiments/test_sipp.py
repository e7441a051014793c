"""The preparation of the SIPP file, on a small file of its layout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from experiments import sipp
from experiments.report import Settings
from streamproc.errors import InvalidInput

ROOT = Path(__file__).parents[2]

Line = tuple[str, int, int, float | str]
"""SSUID, PNUM, MONTHCODE, THINCPOVT2."""


def year(household: str, person: int, ratio: Callable[[int], float | str]) -> list[Line]:
    return [(household, person, month, ratio(month)) for month in range(1, 13)]


def write(path: Path, lines: Iterable[Line]) -> Path:
    """As the Census Bureau lays it out: more columns than are needed, in an order of their own."""
    rows = ["SHHADID|SSUID|SPANEL|MONTHCODE|ERESIDENCEID|PNUM|THTOTINC|THINCPOVT2|WPFINWGT"]
    rows += [f"11|{house}|2021|{month}|100011|{person}||{ratio}|2931.07" for house, person, month, ratio in lines]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines = [
        *year("000114", 101, lambda month: 0.5 if month <= 3 else 2.5),
        *year("000114", 102, lambda month: 0.5 if month <= 3 else 2.5),
        # Person 102 lived elsewhere: only the first person counts, who comes later in the file.
        *year("000228", 102, lambda month: 0.1),
        *year("000228", 101, lambda month: 1.0),
        *year("000331", 101, lambda month: 0.99 if month % 2 else 1.01),
        *[line for line in year("000449", 101, lambda month: 0.3) if line[2] != 7],
        *year("000557", 101, lambda month: "" if month == 12 else 0.3),
        # Its second person has every month, the first has not.
        *[line for line in year("000662", 101, lambda month: 0.3) if line[2] < 6],
        *year("000662", 103, lambda month: 0.3),
        *year("000775", 103, lambda month: -0.2),
    ]
    return write(tmp_path / "pu2021.csv", lines)


def test_a_household_is_its_first_person_and_poor_below_1(file: Path) -> None:
    households = sipp.prepare(file)

    assert dict(zip(households.ids, households.poor.tolist(), strict=True)) == {
        "000114": [1] * 3 + [0] * 9,
        "000228": [0] * 12,
        "000331": [1, 0] * 6,
        "000775": [1] * 12,
    }


def test_households_with_a_missing_month_are_dropped_and_counted(file: Path) -> None:
    assert sipp.prepare(file).dropped == 3


def test_the_order_of_the_lines_does_not_matter(file: Path, tmp_path: Path) -> None:
    header, *lines = file.read_text().splitlines()
    (tmp_path / "shuffled.csv").write_text("\n".join([header, *reversed(lines)]) + "\n")

    before, after = sipp.prepare(file), sipp.prepare(tmp_path / "shuffled.csv")

    assert (before.ids, before.poor.tolist()) == (after.ids, after.poor.tolist())


def test_a_panel_file_and_the_poverty_experiment_come_of_it(
    file: Path, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = CliRunner().invoke(sipp.main, [str(file), "--runs", "2", "--out", str(tmp_path / "out")])

    assert outcome.exit_code == 0, outcome.output
    assert "4 households; 3 dropped for a missing month" in outcome.output
    panel = (tmp_path / "out" / "sipp.csv").read_text().splitlines()
    assert panel[:2] == ["individual,1,2,3,4,5,6,7,8,9,10,11,12", "000114,1,1,1,0,0,0,0,0,0,0,0,0"]
    assert (tmp_path / "out" / "sipp-poverty.csv").exists()
    assert (tmp_path / "out" / "sipp-poverty.png").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SSUID|PNUM|MONTHCODE\n1|101|1\n", "with SSUID, PNUM, MONTHCODE, THINCPOVT2"),
        ("SSUID,PNUM,MONTHCODE,THINCPOVT2\n1,101,1,0.5\n", "separated by |"),
        ("SSUID|PNUM|MONTHCODE|THINCPOVT2\n1|101|1|poor\n", "expected a SIPP file"),
        ("SSUID|PNUM|MONTHCODE|THINCPOVT2\n1|101|13|0.5\n", "expected MONTHCODE 1 to 12"),
        ("SSUID|PNUM|MONTHCODE|THINCPOVT2\n1||1|0.5\n", "expected SSUID, PNUM and MONTHCODE in every line"),
        ("SSUID|PNUM|MONTHCODE|THINCPOVT2\n|101|1|0.5\n", "expected SSUID, PNUM and MONTHCODE in every line"),
        ("SSUID|PNUM|MONTHCODE|THINCPOVT2\n1|101|1|0.5\n1|101|1|0.5\n", "one line for each person and month"),
        ("SSUID|PNUM|MONTHCODE|THINCPOVT2\n1|101|1|0.5\n", "all 12 months, but there are none"),
        ("SSUID|PNUM|MONTHCODE|THINCPOVT2\n", "all 12 months, but there are none"),
        ("", "expected a SIPP file"),
    ],
)
def test_another_file_is_refused_on_one_line(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "other.csv").write_text(text)

    with pytest.raises(InvalidInput) as refused:
        sipp.prepare(tmp_path / "other.csv")

    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_exit_2(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(sipp.main, [str(tmp_path / "none.csv")])

    assert outcome.exit_code == 2


@pytest.mark.parametrize("command", [["experiments/sipp.py"], ["-m", "experiments.sipp"]])
def test_it_starts_as_a_file_and_as_a_module(command: list[str]) -> None:
    outcome = subprocess.run([sys.executable, *command, "--help"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert outcome.returncode == 0, outcome.stderr
    assert "SIPP 2021" in outcome.stdout


@pytest.mark.slow
def test_started_as_a_file_it_repeats_in_other_processes(file: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "experiments" / "sipp.py"), str(file), "--runs", "2", "--out", str(tmp_path)]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert outcome.returncode == 0, outcome.stderr
    assert (tmp_path / "sipp-poverty-cumulative.png").exists()
