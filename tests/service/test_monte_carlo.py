"""A study released many times: in order, each run its own, and nothing left behind when it goes wrong."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time

import numpy as np
import pytest

from streamproc.errors import BudgetExceeded, InvalidInput, StreamprocError, StudyError
from streamproc.offline import ReplayResult, replay_study, tallies_of
from streamproc.releases.contracts import stated_contracts
from streamproc.service.monte_carlo import repeat_study
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import parse_study
from tests.bad_input import PANEL_STUDY

STUDY = parse_study(PANEL_STUDY)
TALLIES = tallies_of(STUDY, np.array([[0, 1, 1], [1, 0, 1]], dtype=np.uint8))
CONTRACTS = stated_contracts(STUDY, 2, insecure=True)


def counts(run: int, replayed: ReplayResult) -> tuple[int, int, list[int]]:
    return run, os.getpid(), replayed.steps[-1]["pairs"].counts.tolist()


def fails_in_run_3(run: int, replayed: ReplayResult) -> int:
    if run == 3:
        raise BudgetExceeded("pairs", 2, 0.2, 0.1)
    return run


def dies_in_run_3(run: int, replayed: ReplayResult) -> int:
    if run == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return run


def nobody_left() -> bool:
    deadline = time.monotonic() + 120
    while multiprocessing.active_children():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_run_i_is_the_study_of_seed_plus_i_made_in_another_process() -> None:
    outcomes = list(repeat_study(STUDY, CONTRACTS, TALLIES, counts, 9, seed=70))

    assert [run for run, _, _ in outcomes] == list(range(9))
    assert os.getpid() not in {process for _, process, _ in outcomes}
    alone = [replay_study(STUDY, CONTRACTS, TALLIES, SeededEntropy(70 + run)) for run in range(9)]
    assert [bins for _, _, bins in outcomes] == [replayed.steps[-1]["pairs"].counts.tolist() for replayed in alone]
    assert nobody_left()


def test_the_error_of_a_worker_arrives_whole() -> None:
    with pytest.raises(BudgetExceeded, match="period 2") as caught:
        list(repeat_study(STUDY, CONTRACTS, TALLIES, fails_in_run_3, 50, seed=1))
    assert (caught.value.release, caught.value.spent) == ("pairs", 0.2)
    assert nobody_left()


def test_a_worker_that_is_killed_is_one_error_and_no_wait() -> None:
    with pytest.raises(StreamprocError, match="worker process was ended from outside"):
        list(repeat_study(STUDY, CONTRACTS, TALLIES, dies_in_run_3, 50, seed=1))
    assert nobody_left()


def test_who_stops_asking_leaves_no_process_behind() -> None:
    outcomes = repeat_study(STUDY, CONTRACTS, TALLIES, counts, 5000, seed=1)
    assert next(iter(outcomes))[0] == 0
    outcomes.close()  # type: ignore[attr-defined]
    assert nobody_left()


@pytest.mark.parametrize(
    "error", [StudyError("privacy.rho", 0, "above 0"), BudgetExceeded("pairs", 2, 0.2, 0.1), InvalidInput("no")]
)
def test_an_error_survives_the_way_between_processes(error: StreamprocError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))
