"""`python -m experiments`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from experiments.__main__ import EXPERIMENTS, main
from experiments.report import Settings

ROOT = Path(__file__).parents[2]


def test_an_unknown_experiment_is_refused_with_those_there_are() -> None:
    outcome = CliRunner().invoke(main, ["weather"])

    assert outcome.exit_code == 2
    assert all(name in outcome.output for name in EXPERIMENTS)


def test_one_that_fails_does_not_stop_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[int] = []
    monkeypatch.setattr("experiments.constant.run", lambda settings: ran.append(settings.runs))

    arguments = ["actcal", "constant", "--runs", "3", "--out", str(tmp_path), "--actcal", str(tmp_path / "none.csv")]
    outcome = CliRunner().invoke(main, arguments)

    assert outcome.exit_code == 2
    assert ran == [3]
    assert outcome.output.startswith("actcal: ")
    assert outcome.output.count("\n") == 1


def test_all_are_run_if_none_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[str] = []
    for name in EXPERIMENTS:
        monkeypatch.setattr(f"experiments.{name}.run", lambda settings, name=name: ran.append(name))

    outcome = CliRunner().invoke(main, ["--out", str(tmp_path)])

    assert outcome.exit_code == 0
    assert ran == list(EXPERIMENTS)


def test_numbers_are_written_with_six_digits_and_words_as_they_are(tmp_path: Path) -> None:
    Settings(tmp_path / "new").csv("a.csv", ("word", "number", "share"), [("x, y", 3, 1 / 3)])

    assert (tmp_path / "new" / "a.csv").read_text() == 'word,number,share\n"x, y",3,0.333333\n'


@pytest.mark.slow
def test_an_experiment_repeats_in_other_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments", "constant", "--runs", "3", "--out", str(tmp_path)]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert outcome.returncode == 0, outcome.stderr
    assert "Width 4 is refused" in outcome.stdout
    assert (tmp_path / "constant.png").exists()
