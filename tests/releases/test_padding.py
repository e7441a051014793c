"""Padding: the promised number of people per bin, and that it is enough."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest

from streamproc.privacy.adjacency import CLOSED_ADJACENCIES, Adjacency
from streamproc.privacy.types import Period, Rho
from streamproc.privacy.window import WindowPaperMechanism
from streamproc.privacy.window_flow import WindowFlowMechanism
from streamproc.releases.window_flow import WindowFlowContract
from streamproc.releases.window_paper import WindowPaperContract
from streamproc.releases.window_synthesis import padding_of
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import WindowRelease
from tests.releases.statistical_checks import assert_share_at_most
from tests.studies import build_study

Measure = Literal["flow", "paper"]


@pytest.mark.parametrize("mechanism", [WindowFlowMechanism, WindowPaperMechanism])
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
@pytest.mark.parametrize(
    ("q", "k", "horizon", "rho", "beta"),
    [(2, 3, 12, 0.005, 0.05), (4, 2, 12, 0.05, 0.05), (6, 1, 1, 1.0, 0.5), (2, 4, 4, 0.1, 1e-6), (64, 2, 5, 0.01, 0.9)],
)
def test_padding_follows_its_formula(
    mechanism: type[WindowFlowMechanism | WindowPaperMechanism],
    adjacency: Adjacency,
    q: int,
    k: int,
    horizon: int,
    rho: float,
    beta: float,
) -> None:
    made = mechanism.calibrated(q=q, k=k, horizon=horizon, adjacency=adjacency, rho=rho)
    m, steps = q**k, horizon - k + 1
    if isinstance(made, WindowFlowMechanism):
        noise = max(made.variance(np.eye(1, m).ravel(), Period(t)) for t in range(k, horizon + 1))
    else:
        noise = made.sigma**2
    rounding = (1 - q**-k) / (2 * (1 - 1 / q))
    exact = (math.sqrt(2 * noise) + math.sqrt(rounding)) * math.sqrt(math.log(m * steps / beta))
    assert padding_of(made, beta) == math.ceil(exact)


@pytest.mark.usefixtures("no_rows")
@pytest.mark.parametrize("measure", ["flow", "paper"])
@pytest.mark.parametrize(("q", "k", "horizon", "rho"), [(2, 3, 8, 0.05), (3, 2, 5, 5.0), (2, 2, 6, 200.0), (2, 4, 4, 0.05)])
def test_no_bin_is_ever_clamped_but_in_a_share_beta_of_runs(
    measure: Measure, q: int, k: int, horizon: int, rho: float
) -> None:
    """The worst panel: everyone in one bin, the others empty. False alarm at most 1e-6 at a random seed, which is fixed."""
    beta, runs = 0.05, 300
    release = WindowRelease("w", k, measure=measure, beta=beta)
    study = build_study(release, alphabet="abc"[:q], horizon=horizon)
    kind = WindowFlowContract if measure == "flow" else WindowPaperContract
    contract = kind.make(study, study.releases[0], 10, Rho(rho), insecure=True)
    tally = np.zeros(q**k, dtype=np.int64)
    tally[0] = contract.n
    draw = SeededEntropy(21).draw("w", Period(1))
    spoiled = 0
    for _ in range(runs):
        state, changed = contract.initial_state(), 0
        for period in range(1, horizon + 1):
            state, step = contract.step(state, tally if period >= contract.first_column else 0 * tally, draw)
            changed += step.clamped
        spoiled += changed > 0
    assert_share_at_most(spoiled, runs, beta)


def test_padding_is_spread_over_the_bins_of_every_period() -> None:
    study = build_study(WindowRelease("w", 3), horizon=6)
    contract = WindowFlowContract.make(study, study.releases[0], 10, Rho(1.0), insecure=True)
    assert [contract.padding(Period(t)) for t in range(1, 7)] == [contract.n_pad * more for more in (4, 2, 1, 1, 1, 1)]
    for t in range(1, 7):
        assert contract.n + contract.padding(Period(t)) * contract.bins_at(Period(t)) == contract.n_star
