"""Cumulative synthesis as in the paper: running counts with the promised noise, and clamping that keeps people possible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.offline import tallies_of
from streamproc.privacy.adjacency import CLOSED_ADJACENCIES, Adjacency
from streamproc.privacy.counters import Counter
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.cumulative_paper import CumulativePaperContract
from streamproc.releases.cumulative_paper_synthesis import CumulativeState, estimates, step_cumulative
from streamproc.releases.step import Step
from streamproc.storage.entropy import SeededEntropy, SystemEntropy
from streamproc.study import CumulativeRelease, Study
from tests.releases.random_studies import Filled, sticky_panel, true_at_least
from tests.releases.statistical_checks import assert_covariance
from tests.studies import build_study


def study_with(horizon: int, rho: float, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> Study:
    return build_study(CumulativeRelease("c", ("1",), measure="paper"), horizon=horizon, rho=rho, adjacency=adjacency)


def contract_of(study: Study, n: int) -> CumulativePaperContract:
    [contract] = stated_contracts(study, n, insecure=True).values()
    assert isinstance(contract, CumulativePaperContract)
    return contract


def tallies_over(study: Study, filled: Filled) -> list[IntArray]:
    return [tally["c"] for tally in tallies_of(study, filled)]


def truth_over(study: Study, filled: Filled) -> list[IntArray]:
    """For each period, the true number of people with at least 1, 2, ... ones."""
    [release] = study.releases
    assert isinstance(release, CumulativeRelease)
    return [np.array(true_at_least(study, release, filled, t)) for t in range(1, study.last_period + 1)]


def one_run(
    contract: CumulativePaperContract, tallies: list[IntArray], draw: NoiseSource
) -> list[tuple[CumulativeState, Step]]:
    state, run = CumulativeState.initial(contract), []
    for tally in tallies:
        state, step = step_cumulative(contract, state, tally, draw)
        run.append((state, step))
    return run


def gains(counter: Counter, length: int) -> FloatArray:
    """`|(A C^-1)_t|^2` by least squares: at time `t`, all rows measured by then, and the running sum wanted."""
    squares = []
    for time in range(1, length + 1):
        rows = counter.matrix[counter.ends <= time, :time].astype(float)
        answer, *_ = np.linalg.lstsq(rows.T, np.ones(time), rcond=None)
        squares.append(float(answer @ answer))
    return np.array(squares)


@pytest.mark.usefixtures("no_rows")
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_unclamped_estimates_err_as_promised(adjacency: Adjacency) -> None:
    """Variance `sigma_b^2 |(A C_b^-1)_t|^2`, weights independent of each other, at every period.

    Chi-square with 400 runs, which see a variance to within 7 percent; false alarm 1e-6 for each period at a random seed,
    which is fixed. The number of people is smaller than the noise, so that most of these estimates are then clamped.
    """
    horizon = 6
    study = study_with(horizon, 0.05, adjacency)
    filled = sticky_panel(20, horizon, seed=41)
    contract, tallies, truth = contract_of(study, 20), tallies_over(study, filled), truth_over(study, filled)
    draw = SeededEntropy(42).draw("c", Period(1))
    errors: list[list[FloatArray]] = [[] for _ in range(horizon)]
    for _ in range(400):
        for at, (state, _) in enumerate(one_run(contract, tallies, draw)):
            errors[at].append(estimates(contract.mechanism, state.measured, state.period) - truth[at])
    gain = gains(contract.mechanism.counter, horizon)
    for at in range(horizon):
        expected = [contract.mechanism.sigmas[b] ** 2 * gain[at - b] for b in range(at + 1)]
        assert_covariance(np.array(errors[at]), np.diag(expected))


def test_real_noise_errs_as_promised_too() -> None:
    """From the operating system's entropy, synthetic people included; false alarm 1e-6 for each of three periods."""
    study = study_with(3, 0.05)
    filled = sticky_panel(20, 3, seed=43)
    contract, tallies, truth = contract_of(study, 20), tallies_over(study, filled), truth_over(study, filled)
    runs = [one_run(contract, tallies, SystemEntropy().draw("c", Period(1))) for _ in range(200)]
    gain = gains(contract.mechanism.counter, 3)
    for at in range(3):
        errors = [estimates(contract.mechanism, run[at][0].measured, Period(at + 1)) - truth[at] for run in runs]
        expected = [contract.mechanism.sigmas[b] ** 2 * gain[at - b] for b in range(at + 1)]
        assert_covariance(np.array(errors), np.diag(expected))


@given(st.integers(0, 2**32), st.floats(-3, 2))
def test_sums_are_the_estimates_moved_to_what_people_can_have_done(seed: int, power: float) -> None:
    """Nobody loses a one, and nobody gets a `b`-th one without having had `b - 1` before."""
    horizon, n = 5, 15
    study = study_with(horizon, 10**power)
    contract = contract_of(study, n)
    before = [n] + [0] * horizon
    for state, step in one_run(
        contract, tallies_over(study, sticky_panel(n, horizon, seed)), SeededEntropy(seed).draw("c", Period(1))
    ):
        wanted = [round(estimate) for estimate in estimates(contract.mechanism, state.measured, state.period).tolist()]
        clamped = [min(max(want, before[b]), before[b - 1]) for b, want in enumerate(wanted, start=1)]
        assert step.counts.tolist() == clamped
        assert step.clamped == sum(a != b for a, b in zip(clamped, wanted, strict=True))
        before = [n, *clamped, *[0] * (horizon - len(clamped))]
        assert state.sums.tolist() == before


class Scripted:
    """Noise as written, for each stream in turn."""

    def __init__(self, *noise: int) -> None:
        self.noise = list(noise)

    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        noisy: IntArray = exact + self.noise.pop(0)
        return noisy

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(0)


def test_clamping_works_in_both_directions() -> None:
    """Ten people, all with a one at first and none later; `tree` measures 10 + noise, then the sum of both + noise."""
    contract = contract_of(study_with(2, 1.0), 10)
    start = CumulativeState.initial(contract)
    first, step = step_cumulative(contract, start, np.array([10, 0]), Scripted(-4))
    assert (step.counts.tolist(), step.clamped) == ([6], 0)
    _, step = step_cumulative(contract, first, np.array([0, 0]), Scripted(-7, 9))
    assert (step.counts.tolist(), step.clamped) == ([6, 6], 2)
    _, step = step_cumulative(contract, first, np.array([0, 0]), Scripted(5, -1))
    assert (step.counts.tolist(), step.clamped) == ([10, 0], 2)


@pytest.mark.parametrize("tally", [[1, 0], [1, 0, 0, 0], [4, -1, 0], [3, 2, 0]])
def test_a_tally_that_n_people_cannot_have_made_is_refused(tally: list[int]) -> None:
    contract = contract_of(study_with(3, 1.0), 4)
    with pytest.raises(ValueError, match="release c needs 3 counts"):
        step_cumulative(contract, CumulativeState.initial(contract), np.array(tally), Scripted(0))
