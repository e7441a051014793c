"""How long it takes to release a study a thousand times, with secure noise, on all cores."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from bench.result import Result
from streamproc.offline import ReplayResult, tallies_of
from streamproc.releases.contracts import make_contracts
from streamproc.service.monte_carlo import repeat_study
from streamproc.storage.entropy import SystemEntropy
from streamproc.study import parse_study

_STUDY = """
[study]
name = "paper"
alphabet = ["0", "1"]
horizon = 12

[privacy]
rho = 0.005

[[release]]
name = "quarterly"
kind = "window"
k = 3
"""


def measure(quick: bool = False) -> Iterator[Result]:
    """The paper's simulated study, in which every report is a one."""
    people, runs = (100, 2) if quick else (25_000, 1000)
    study = parse_study(_STUDY)
    tallies = tallies_of(study, np.ones((people, study.last_period), dtype=np.uint8))
    start = perf_counter()
    finished = sum(repeat_study(study, make_contracts(study, people, SystemEntropy()), tallies, periods_released, runs))
    seconds = perf_counter() - start
    if finished != runs * study.last_period:
        raise RuntimeError(f"{runs} runs of {study.last_period} periods released {finished}")
    yield Result(name=f"{runs} repetitions, n={people} T=12 k=3", value=seconds, unit="s")


def periods_released(run: int, replayed: ReplayResult) -> int:
    """Little to send back: the runs themselves are what takes time."""
    return replayed.panels["quarterly"].period
