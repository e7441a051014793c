"""The whole system under a few hundred seeds: promises hold, every kind of fault happens, and a seed can be repeated."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from streamproc.log.port import Log
from streamproc.privacy.types import Period
from streamproc.protocol.control import Cut
from streamproc.protocol.topics import Topics
from streamproc.service.logging_setup import log, set_up_logs
from streamproc.study import Study
from streamproc.synthesizer import scheduler as schedule
from tests.simulation import __main__ as command
from tests.simulation.history import Violation
from tests.simulation.run import Outcome, run_seed

SEEDS = range(1, 251)

KINDS = {
    "append cut short",
    "bit flip",
    "broker away",
    "call fails",
    "catch-up",
    "client sends again",
    "client transaction aborted",
    "client transaction committed",
    "client transaction left open",
    "clock jumps back",
    "clock jumps forward",
    "cloned disk",
    "crash after a call",
    "crash before a call",
    "crash inside a transaction",
    "crash inside a write",
    "crash inside an append",
    "disk copied",
    "disk full",
    "disk lost",
    "disk lost with the process",
    "disk rolled back",
    "disk rolled back with the process",
    "effect lands later",
    "fenced",
    "ignored sync",
    "kill",
    "late acknowledgement",
    "lost acknowledgement",
    "old state put back",
    "pause",
    "power cut",
    "power cut after ignored syncs",
    "read error",
    "rebalance",
    "restore",
    "restore that accepts the cost",
    "second synthesizer",
    "slow call",
    "torn write",
    "transaction timed out",
    "zombie",
}


@pytest.mark.timeout(1200)
def test_every_promise_holds_while_every_kind_of_fault_happens_and_no_other() -> None:
    outcomes = {seed: run_seed(seed) for seed in SEEDS}
    broken = {seed: [str(violation) for violation in run.violations] for seed, run in outcomes.items() if run.violations}
    assert broken == {}
    seen = sum((outcome.faults for outcome in outcomes.values()), Counter[str]())
    assert set(seen) == KINDS


@pytest.mark.parametrize("seed", [3, 7, 19])
def test_two_runs_of_one_seed_are_the_same(seed: int) -> None:
    one, other = run_seed(seed, trace=True), run_seed(seed, trace=True)
    assert one == other
    assert one.trace


def test_another_process_runs_a_seed_in_the_same_way() -> None:
    """Whatever Python makes of the order of a set of texts."""
    program = "from tests.simulation import run_seed; print('\\n'.join(run_seed(7, trace=True).trace))"
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    root = Path(__file__).parents[2]
    python = [sys.executable, "-c", program]
    done = subprocess.run(python, cwd=root, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == list(run_seed(7, trace=True).trace)


def test_who_listened_before_a_run_hears_nothing_of_it_and_cannot_disturb_it(capsys: pytest.CaptureFixture[str]) -> None:
    alone = run_seed(7, trace=True)
    before = io.StringIO()
    set_up_logs("poverty", as_json=False)
    log.handlers[0].setStream(before)  # type: ignore[attr-defined]
    assert run_seed(7, trace=True) == alone
    assert before.getvalue() == ""
    before.close()
    assert run_seed(7, trace=True) == alone
    assert capsys.readouterr().err == ""


def test_a_schedule_that_leaves_out_what_was_acknowledged_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def closed_too_early(log: Log, study: Study, period: Period) -> None:
        topics, partitions = Topics(study.name), range(study.broker.partitions)
        ends = [max(await log.high_watermark(topics.reports, partition) - 1, 0) for partition in partitions]
        await log.append(topics.control, 0, Cut(period, tuple(ends)).encode())

    monkeypatch.setattr(schedule, "append_cut", closed_too_early)
    assert any(violation.invariant == 6 for seed in SEEDS for violation in run_seed(seed).violations)


def test_the_last_line_counts_seeds_faults_and_violations(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seeds", "2", "--first-seed", "5", "--processes", "1"]) == 0
    total = run_seed(5).faults.total() + run_seed(6).faults.total()
    assert capsys.readouterr().out.splitlines()[-1] == f"2 seeds, {total} faults, 0 violations"


def test_a_broken_promise_is_shown_with_the_one_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(seed: int, *, trace: bool = False) -> Outcome:
        return Outcome(Counter(), [Violation(3, "two draws left")], ["    1.000  synthesizer#1  commit"] if trace else [])

    monkeypatch.setattr(command, "run_seed", broken)
    assert command.main(["--seeds", "1", "--first-seed", "4711", "--processes", "1"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out == [
        "seed 4711: invariant 3: two draws left",
        "    1.000  synthesizer#1  commit",
        "again: make simulate SEEDS=1 FIRST_SEED=4711 ARGS=--trace",
        "1 seeds, 0 faults, 1 violations",
    ]
