"""Experiments in miniature: repetitions in this process, from a seed, so that no test depends on luck or starts a pool."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from io import StringIO
from typing import TypeVar

import numpy as np
import pytest
from rich.console import Console

from experiments.report import Settings
from experiments.trials import Symbols
from streamproc.offline import ReplayResult, replay_study
from streamproc.offline.replay import Tallies
from streamproc.releases.kind import Contract
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import Study

Outcome = TypeVar("Outcome")


def repeat_here(
    study: Study, contracts: Mapping[str, Contract], tallies: Tallies, ask: Callable[[int, ReplayResult], Outcome], runs: int
) -> Iterator[Outcome]:
    """As `repeat_study`; `ask` goes through a pickle, as it would on its way to another process."""
    sent = pickle.loads(pickle.dumps(ask))
    seeded = {name: replace(contract, insecure=True) for name, contract in contracts.items()}
    for run in range(runs):
        yield sent(run, replay_study(study, seeded, tallies, SeededEntropy(run)))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.trials.repeat_study", repeat_here)
        out = tmp_path_factory.mktemp("experiment") / "out"
        yield Settings(out, runs=5, console=Console(file=StringIO(), width=200))


@pytest.fixture(scope="module")
def printed(settings: Settings) -> Callable[[], str]:
    """What the experiment has printed so far."""

    def text() -> str:
        assert isinstance(settings.console.file, StringIO)
        return settings.console.file.getvalue()

    return text


@pytest.fixture
def levels() -> Symbols:
    """A small panel like actcal: 120 people, 12 months, levels A to D that mostly stay."""
    rng = np.random.default_rng(1)
    start = rng.integers(0, 4, (120, 1))
    moved = rng.random((120, 12)) < 0.1
    return np.where(np.cumsum(moved, axis=1) > 0, 3 - start, start).astype(np.uint8)
