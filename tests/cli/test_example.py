"""The built-in example ends by itself, shows answers beside the truth, and what it tells a newcomer to type works."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from streamproc.cli.ending import run_to_its_end
from streamproc.cli.example import MONTHS, PEOPLE, example, simulated_poverty


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["example", "--out", str(tmp_path)])
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as ended:
        run_to_its_end(example, "example")
    assert ended.value.code in (0, None)
    out, complaint = capsys.readouterr()
    assert complaint == ""
    return out


def test_it_shows_every_month_and_what_the_year_cost(shown: str) -> None:
    months = [line.split()[0] for line in shown.splitlines() if "%" in line and line.split()[0].isdigit()]
    assert months == [str(month) for month in range(1, MONTHS + 1)]
    assert "simulated" in shown
    assert "The year cost rho 0.005 of 0.005: epsilon 0.43 at delta 1e-06 (replace-one)." in shown


def test_it_leaves_a_secure_release_in_the_folder(shown: str, tmp_path: Path) -> None:
    assert f"Files in {tmp_path}" in shown
    told = json.loads((tmp_path / "released" / "summary.json").read_text())
    assert told["insecure"] is False
    assert told["n"] == PEOPLE
    assert (tmp_path / "released" / "quarterly.csv").exists()


def test_the_commands_it_suggests_work(shown: str) -> None:
    commands = [shlex.split(line) for line in shown.splitlines() if line.startswith("    ") and "/streamproc " in line]
    assert [command[1] for command in commands] == ["plan", "replay"]
    for command in commands:
        if "--repeat" in command:
            command[command.index("--repeat") + 1] = "2"
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")


def test_without_a_folder_it_takes_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["example"])
    with pytest.raises(SystemExit):
        run_to_its_end(example, "example")
    (folder,) = tmp_path.iterdir()
    assert str(folder) in "".join(capsys.readouterr().out.splitlines())


def test_simulated_poverty_is_sticky() -> None:
    poor = simulated_poverty(PEOPLE, MONTHS)
    assert poor.shape == (PEOPLE, MONTHS)
    stay = poor[:, 1:][poor[:, :-1] == 1].mean()
    enter = poor[:, 1:][poor[:, :-1] == 0].mean()
    assert (round(float(stay), 2), round(float(enter), 2)) == (0.85, 0.02)
