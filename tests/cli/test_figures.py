"""Costs as people read them: never smaller than they are, and the same everywhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamproc.status_page
from streamproc.cli.commands import status as status_module
from streamproc.cli.commands.status import status_to_dict
from streamproc.cli.demo.screen import Screen
from streamproc.cli.demo.simulated_study import study_text
from streamproc.cli.formatting import format_count, format_delta, format_epsilon, format_people
from streamproc.cli.plan.plot import _title
from streamproc.planning import plan_study
from streamproc.privacy.types import Rho
from streamproc.study import parse_study
from tests.cli.conftest import Command

WORDS = Path(streamproc.status_page.__file__).parent / "static" / "words.js"

EPSILONS = [
    0,
    1e-7,
    0.000123,
    0.4299414688369493,
    0.43,
    0.43000000000000005,
    0.6216926545596025,
    0.9991,
    1.2341,
    99.91,
    1001.0,
]


@given(st.floats(1e-9, 1e6))
def test_an_epsilon_is_shown_to_three_digits_and_never_smaller_than_it_is(epsilon: float) -> None:
    shown = Decimal(format_epsilon(epsilon))

    assert len(shown.normalize().as_tuple().digits) <= 3
    assert Decimal(repr(epsilon)) <= shown <= Decimal(repr(epsilon)) * Decimal("1.01")


def test_the_page_shows_an_epsilon_as_the_commands_do() -> None:
    if shutil.which("node") is None:
        pytest.skip("running the page's own code needs Node 18 or newer: apt-get install nodejs")
    program = f"{WORDS.read_text()}\nconsole.log(JSON.stringify({json.dumps(EPSILONS)}.map(formatEpsilon)))"
    command = ["node", "--input-type=module", "-e", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert json.loads(done.stdout) == [format_epsilon(epsilon) for epsilon in EPSILONS]


def test_plan_picture_replay_and_demo_show_the_same_epsilon(tmp_path: Path, streamproc: Command) -> None:
    study = tmp_path / "study.toml"
    study.write_text(study_text(200).replace("rho = 0.01 ", "rho = 0.011 "))
    panel = tmp_path / "panel.csv"
    panel.write_text(
        "\n".join([",".join(["individual", *map(str, range(1, 13))]), *(f"p{i}" + ",0" * 12 for i in range(200))])
    )
    parsed = parse_study(study.read_text())

    # It is 0.65407...: the nearest to three digits would be less.
    assert _epsilon(_title(plan_study(parsed, 200))) == "0.655"
    assert _epsilon(streamproc("plan", study).out) == "0.655"
    assert _epsilon(streamproc("replay", study, panel, "--out", tmp_path / "out").out) == "0.655"
    assert _epsilon(Screen(parsed)._epsilon_at_delta(Rho(0.011))) == "0.655"


@pytest.mark.parametrize(
    ("delta", "shown"), [(1e-6, "1e-6"), (2.5e-7, "2.5e-7"), (1e-10, "1e-10"), (0.0001, "0.0001"), (0.01, "0.01")]
)
def test_a_delta_is_shown_as_a_study_file_writes_it(delta: float, shown: str) -> None:
    assert format_delta(delta) == shown
    assert float(shown) == delta


def test_status_puts_thousands_apart_as_the_other_commands_do(
    tmp_path: Path, streamproc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(study_text(200))

    def grown(*arguments: Any) -> dict[str, Any]:
        found = status_to_dict(*arguments)
        found["releases"]["quarterly"] |= {"n_star": 24_918, "n_pad": 1_193, "clamped": 1_000}
        return found

    monkeypatch.setattr(status_module, "status_to_dict", grown)
    shown = " ".join(streamproc("status", study).out.split())

    assert "quarterly 24,918 1,193 0 0.005 1,000" in shown
    assert "months-poor - - 0 0.005 0" in shown


def _epsilon(text: str) -> str:
    found = re.search(r"epsilon (?:= )?([0-9.]*[0-9])", " ".join(text.split()))
    assert found is not None
    return found[1]


def test_a_narrow_terminal_loses_nothing_of_a_table(
    tmp_path: Path, streamproc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(study_text(200))
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "40")
    for command in ("status", "plan"):
        shown = streamproc(command, study).out
        assert "…" not in shown
        assert "months-poor " in shown


def test_a_plan_fits_a_terminal_of_the_usual_width(
    tmp_path: Path, streamproc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(study_text(23_374))
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", streamproc("plan", study).out).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith(("quarterly ", "months-poor ")) for line in lines) == 4  # two tables have both in front


def test_where_output_is_ascii_signs_are_spelt_out(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(study_text(200))
    command = [sys.executable, "-m", "streamproc", "plan", str(study)]
    ended = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"95% +/-" in ended.stdout
    assert b"?" not in ended.stdout


@pytest.mark.parametrize(("count", "shown"), [(0, "0 periods"), (1, "1 period"), (2_000, "2,000 periods")])
def test_one_of_something_is_one(count: int, shown: str) -> None:
    assert format_count(count, "period") == shown


@pytest.mark.parametrize(("count", "shown"), [(0, "0 people"), (1, "1 person"), (2_000, "2,000 people")])
def test_one_of_the_people_is_a_person(count: int, shown: str) -> None:
    assert format_people(count) == shown


@pytest.mark.parametrize(
    ("n", "shown"), [(1, "1 person takes part; the study expected 2\n"), (3, "3 people take part; the study expected 2\n")]
)
def test_status_says_how_many_take_part(
    n: int, shown: str, streamproc: Command, small_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_module, "status_to_dict", lambda *read: status_to_dict(*read) | {"n": n})
    assert shown in streamproc("status", small_study).out


def test_a_plan_for_one_person_says_so(plan: Any) -> None:
    code, out, _ = plan(change=("size = 23374", "size = 1"))
    assert code == 0
    assert "poverty: 1 person, 12 periods, " in out
