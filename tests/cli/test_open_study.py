"""The commands of an open study without a horizon: it ends with a period that is closed as the last."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

OPEN = """
[study]
name = "rides"
alphabet = ["0", "1"]

[population]
open = true
tenure = 4
absent_after = 2

[privacy]
rho = 1.0

[[release]]
name = "recent"
kind = "window"
k = 2
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "rides.toml"
    path.write_text(OPEN)
    return path


def test_a_study_is_ended_by_its_steward(study: Path, streamproc: Command) -> None:
    assert streamproc("close", study, "--period", 1).out == "period 1 closed\n"
    ended = streamproc("close", study, "--period", 2, "--last")
    assert (ended.code, ended.out) == (0, "period 2 closed\nthe study ends with period 2\n")
    again = streamproc("close", study, "--period", 2, "--last")
    assert (again.code, again.out) == (0, "period 2 was closed already\nthe study ends with period 2\n")
    after = streamproc("close", study, "--period", 3)
    assert (after.code, after.out) == (2, "")
    assert after.complaint == "streamproc: period 3: the study ended with period 2\n"


def test_a_study_with_a_fixed_horizon_is_not_ended_early(study: Path, streamproc: Command) -> None:
    closed = OPEN.replace("open = true\ntenure = 4\nabsent_after = 2\n", "").replace('"1"]\n', '"1"]\nhorizon = 4\n')
    study.write_text(closed)
    ended = streamproc("close", study, "--period", 1, "--last")
    assert (ended.code, ended.out, ended.complaint.count("\n")) == (2, "", 1)
    assert "it is not open, so it ends with period 4, its horizon" in ended.complaint


@pytest.mark.parametrize("command", ["close", "send"])
def test_a_period_beyond_any_study_is_refused(study: Path, command: str, streamproc: Command) -> None:
    arguments = [study, "people.csv"] if command == "send" else [study]
    ended = streamproc(command, *arguments, "--period", 1_000_001)
    assert ended.code == 2
    assert "--period 1000001: a study without a horizon has at most periods 1..1000000" in ended.complaint


def test_nothing_is_purged_before_the_last_period_is_released(study: Path, streamproc: Command) -> None:
    streamproc("close", study, "--period", 1)
    ended = streamproc("purge", study, "--yes")
    assert ended.code == 3
    assert "it has no horizon, 0 periods are released and none is closed as the last (close --last)" in ended.complaint


def test_status_of_a_study_that_has_not_begun_has_no_horizon(study: Path, streamproc: Command) -> None:
    found = json.loads(streamproc("status", study, "--json").out)
    assert (found["horizon"], found["n"], found["released"], found["over"]) == (None, None, 0, False)
    assert (found["open"], found["tenure"], found["absent_after"]) == (True, 4, 2)
    assert found["releases"]["recent"]["present"] is None
    shown = " ".join(streamproc("status", study).out.split())
    assert "rides: 0 periods released, no horizon, rho 0 of 1 spent per person (replace-one)" in shown
    assert "present entered left rows so far" in shown


@pytest.mark.parametrize("command", ["pull", "verify"])
def test_readers_of_a_study_that_has_not_begun_behave_as_ever(
    study: Path, tmp_path: Path, command: str, streamproc: Command
) -> None:
    arguments = ["--out", tmp_path / "out"] if command == "pull" else []
    assert streamproc(command, study, *arguments).code == (6 if command == "verify" else 0)
