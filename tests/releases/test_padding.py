"""Padding: the promised number of people per bin, and that it is enough."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Period
from streamproc.privacy.window import Measure, WindowMechanism
from streamproc.releases.window_synthesis import WindowState, padding_of, step_window
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import WindowRelease
from tests.releases.random_studies import window_contract
from tests.releases.statistical_checks import assert_share_at_most
from tests.studies import build_study


@pytest.mark.parametrize("measure", ["contrast", "histogram"])
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("q", "k", "horizon", "rho", "beta"),
    [(2, 3, 12, 0.005, 0.05), (4, 2, 12, 0.05, 0.05), (6, 1, 1, 1.0, 0.5), (2, 4, 4, 0.1, 1e-6), (64, 2, 5, 0.01, 0.9)],
)
def test_padding_follows_its_formula(
    measure: Measure, adjacency: Adjacency, q: int, k: int, horizon: int, rho: float, beta: float
) -> None:
    mechanism = WindowMechanism.calibrated(q=q, k=k, horizon=horizon, measure=measure, adjacency=adjacency, rho=rho)
    m, steps = q**k, horizon - k + 1
    noise = mechanism.variance * ((1 - 1 / m) if measure == "contrast" else 1)
    rounding = (1 - q**-k) / (2 * (1 - 1 / q))
    exact = (math.sqrt(2 * noise) + math.sqrt(rounding)) * math.sqrt(math.log(m * steps / beta))
    assert padding_of(mechanism, beta) == math.ceil(exact)


@pytest.mark.usefixtures("no_rows")
@pytest.mark.parametrize("measure", ["contrast", "histogram"])
@pytest.mark.parametrize(("q", "k", "horizon", "rho"), [(2, 3, 8, 0.05), (3, 2, 5, 5.0), (2, 2, 6, 200.0)])
def test_no_bin_is_ever_clamped_but_in_a_share_beta_of_runs(
    measure: Measure, q: int, k: int, horizon: int, rho: float
) -> None:
    """The worst panel: everyone in one bin, the others empty. False alarm at most 1e-6 at a random seed, which is fixed."""
    beta, runs = 0.05, 300
    release = WindowRelease("w", k, measure=measure, beta=beta)
    contract = window_contract(build_study(release, alphabet="abc"[:q], horizon=horizon, rho=rho), n=10)
    tally = np.zeros(q**k, dtype=np.int64)
    tally[0] = contract.n
    draw = SeededEntropy(21).draw("w", Period(1))
    spoiled = 0
    for _ in range(runs):
        state, changed = WindowState.initial(contract.mechanism), 0
        for period in range(1, horizon + 1):
            state, step = step_window(contract, state, tally if period >= k else 0 * tally, draw)
            changed += step.clamped
        spoiled += changed > 0
    assert_share_at_most(spoiled, runs, beta)
