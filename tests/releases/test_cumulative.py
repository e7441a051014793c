"""Cumulative synthesis by flow: running counts with the promised noise, and clamping that keeps people possible."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.offline import replay_study, tallies_of
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.cumulative import CumulativeContract
from streamproc.releases.flow import FlowState
from streamproc.releases.step import Step
from streamproc.storage.entropy import SeededEntropy, SystemEntropy
from streamproc.study import CumulativeRelease, Study
from streamproc.study.releases import Measure
from tests.releases.random_studies import MEASURES, Filled, sticky_panel, true_at_least
from tests.releases.statistical_checks import assert_covariance
from tests.studies import build_study

TUNED, RULE, UP_TO_3 = (
    CumulativeRelease("c", ("1",), weights="tuned"),
    CumulativeRelease("c", ("1",), weights="rule"),
    CumulativeRelease("c", ("1",), weights="rule", most=3),
)


def contract_of(study: Study, n: int) -> CumulativeContract:
    [contract] = stated_contracts(study, n, insecure=True).values()
    assert isinstance(contract, CumulativeContract)
    return contract


def tallies_over(study: Study, filled: Filled) -> list[IntArray]:
    return [tally["c"] for tally in tallies_of(study, filled)]


def truth_over(study: Study, filled: Filled) -> list[IntArray]:
    """For each period, the true number of people with at least 1, 2, ... ones, up to `most`."""
    [release] = study.releases
    assert isinstance(release, CumulativeRelease)
    return [np.array(true_at_least(study, release, filled, t)) for t in range(1, study.last_period + 1)]


def one_run(contract: CumulativeContract, tallies: Sequence[IntArray], draw: NoiseSource) -> list[tuple[FlowState, Step]]:
    state, run = contract.initial_state(), []
    for tally in tallies:
        state, step = contract.step(state, tally, draw)
        run.append((state, step))
    return run


def expected_covariances(contract: CumulativeContract) -> list[FloatArray]:
    """Of the errors of "at least 1, 2, ..." in each period, from one system of equations for all transitions of the study.

    The measurements and the conservation of flow determine every transition: people leave a state as they have entered it.
    """
    horizon, most, sigma = contract.horizon, contract.most, contract.mechanism.sigma
    moves = [[(a, b) for a in range(min(t, most) + 1) for b in ([a, a + 1] if a < most else [a])] for t in range(horizon)]
    unknown = {(t, move): place for place, (t, move) in enumerate((t, m) for t in range(horizon) for m in moves[t])}
    rows, noisy = [], []
    for t in range(horizon):
        for state in range(min(t, most) + 1):
            row = np.zeros(len(unknown))
            row[[unknown[t, move] for move in moves[t] if move[0] == state]] = 1
            if t:
                row[[unknown[t - 1, move] for move in moves[t - 1] if move[1] == state]] = -1
            rows.append(row)
            noisy.append(False)
        for measured in contract.mechanism.matrices[t]:
            row = np.zeros(len(unknown))
            row[[unknown[t, move] for move in moves[t]]] = measured
            rows.append(row)
            noisy.append(True)
    solution = np.linalg.inv(np.array(rows))[:, noisy]
    found = []
    for t in range(horizon):
        at_least = np.zeros((min(t + 1, most), len(unknown)))
        for move in moves[t]:
            at_least[: move[1], unknown[t, move]] = 1
        errors = sigma * at_least @ solution
        found.append(errors @ errors.T)
    return found


@pytest.mark.parametrize(
    ("release", "adjacency"),
    [
        (TUNED, Adjacency.REPLACE_ONE),
        (RULE, Adjacency.REPLACE_ONE),
        (RULE, Adjacency.ZERO_OUT),
        (UP_TO_3, Adjacency.REPLACE_ONE),
    ],
    ids=["tuned", "rule", "zero-out", "up to 3"],
)
def test_unclamped_estimates_err_as_promised(release: CumulativeRelease, adjacency: Adjacency) -> None:
    """The covariance that follows from the matrices, at every period.

    Chi-square with 400 runs, which see a variance to within 7 percent; false alarm 1e-6 for each period at a random seed,
    which is fixed. The number of people is smaller than the noise, so that most of these estimates are then clamped.
    """
    horizon = 6
    study = build_study(release, horizon=horizon, rho=0.05, adjacency=adjacency)
    filled = sticky_panel(20, horizon, seed=41)
    contract, tallies, truth = contract_of(study, 20), tallies_over(study, filled), truth_over(study, filled)
    draw = SeededEntropy(42).draw("c", Period(1))
    errors: list[list[FloatArray]] = [[] for _ in range(horizon)]
    for _ in range(400):
        for at, (_, step) in enumerate(one_run(contract, tallies, draw)):
            assert step.estimates is not None
            errors[at].append(step.estimates - truth[at])
    for at, expected in enumerate(expected_covariances(contract)):
        assert contract.count_stderrs(Period(at + 1)) ** 2 == pytest.approx(np.diagonal(expected), rel=1e-9)
        assert_covariance(np.array(errors[at]), expected)


def test_real_noise_errs_as_promised_too() -> None:
    """From the operating system's entropy; false alarm 1e-6 for each of three periods."""
    study = build_study(RULE, horizon=3, rho=0.05)
    filled = sticky_panel(20, 3, seed=43)
    contract, tallies, truth = contract_of(study, 20), tallies_over(study, filled), truth_over(study, filled)
    runs = [one_run(contract, tallies, SystemEntropy().draw("c", Period(1))) for _ in range(200)]
    for at, expected in enumerate(expected_covariances(contract)):
        errors = [np.asarray(run[at][1].estimates) - truth[at] for run in runs]
        assert_covariance(np.array(errors), expected)


@given(st.sampled_from([RULE, UP_TO_3]), st.integers(0, 2**32), st.floats(-3, 2))
def test_sums_are_the_estimates_moved_to_what_people_can_have_done_and_rounded(
    release: CumulativeRelease, seed: int, power: float
) -> None:
    """Nobody loses a one, and nobody gets a `b`-th one without having had `b - 1` before."""
    horizon, n = 5, 15
    study = build_study(release, horizon=horizon, rho=10**power)
    contract = contract_of(study, n)
    before = [n] + [0] * horizon
    for _, step in one_run(
        contract, tallies_over(study, sticky_panel(n, horizon, seed)), SeededEntropy(seed).draw("c", Period(1))
    ):
        assert step.estimates is not None
        wanted = step.estimates.tolist()
        clamped = [min(max(want, before[b]), before[b - 1]) for b, want in enumerate(wanted, start=1)]
        for count, real in zip(step.counts.tolist(), clamped, strict=True):
            assert math.floor(real + 1e-5) <= count <= math.ceil(real - 1e-5) or abs(count - real) < 1e-5
        assert step.clamped == sum(abs(a - b) > 1e-4 for a, b in zip(clamped, wanted, strict=True))
        before = [n, *step.counts.tolist(), *[0] * (horizon - len(clamped))]


class Scripted:
    """Noise with which the measurements say that people made these transitions."""

    def __init__(self, contract: CumulativeContract, period: int, exact: list[int], wanted: list[int]) -> None:
        self.noise: IntArray = contract.mechanism.matrices[period - 1] @ (np.array(wanted) - np.array(exact))

    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        noisy: IntArray = exact + self.noise
        return noisy

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(0)


def test_clamping_works_in_both_directions() -> None:
    """Ten people, all with a one at first and none later. Transitions: without a one, with a one, for each state."""
    contract = contract_of(build_study(RULE, horizon=2), 10)
    start, everybody, nobody = contract.initial_state(), np.array([0, 10, 0, 0, 0, 0]), np.array([0, 0, 10, 0, 0, 0])
    first, step = contract.step(start, everybody, Scripted(contract, 1, [0, 10], [4, 6]))
    assert (step.counts.tolist(), step.clamped) == ([6], 0)
    _, step = contract.step(first, nobody, Scripted(contract, 2, [0, 0, 10, 0], [5, -1, -3, 9]))
    assert np.asarray(step.estimates) == pytest.approx([5, 9])
    assert (step.counts.tolist(), step.clamped) == ([6, 6], 2)
    _, step = contract.step(first, nobody, Scripted(contract, 2, [0, 0, 10, 0], [-1, 5, 7, -1]))
    assert np.asarray(step.estimates) == pytest.approx([11, -1])
    assert (step.counts.tolist(), step.clamped) == ([10, 0], 2)


@pytest.mark.parametrize(
    "tally",
    [[4] + [0] * 6, [4] + [0] * 8, [5, -1] + [0] * 6, [3, 2] + [0] * 6, [3] + [0] * 7, [3, 0, 1] + [0] * 5],
    ids=["short", "long", "negative", "too many", "too few", "a state that nobody can be in"],
)
def test_a_tally_that_n_people_cannot_have_made_is_refused(tally: list[int]) -> None:
    contract = contract_of(build_study(RULE, horizon=3), 4)
    with pytest.raises(ValueError, match="release c needs 8 counts"):
        contract.step(contract.initial_state(), np.array(tally), SeededEntropy(1).draw("c", Period(1)))


def test_events_beyond_most_are_not_told_apart() -> None:
    """Once a synthetic person has had `most` events, their symbols are drawn evenly; false alarm 1e-6, the seed is fixed."""
    study = build_study(UP_TO_3, horizon=8, rho=1000.0)
    filled = np.ones((2000, 8), dtype=np.uint8)
    contract = contract_of(study, 2000)
    steps = [step for _, step in one_run(contract, tallies_over(study, filled), SeededEntropy(47).draw("c", Period(1)))]
    assert [len(step.counts) for step in steps] == [1, 2, 3, 3, 3, 3, 3, 3]
    assert contract.labels(Period(8)) == ["1", "2", "3"]
    later = np.concatenate([step.columns[0] for step in steps[4:]])
    assert abs(later.mean() - 0.5) < 5 * 0.5 / math.sqrt(len(later))


def root_mean_square(measure: Measure, filled: Filled, rho: float, runs: int) -> float:
    """Of the released counts' errors, in people, over all periods and weights."""
    release = CumulativeRelease("c", ("1",), measure=measure)
    study = build_study(release, horizon=filled.shape[1], rho=rho)
    made, tallies = stated_contracts(study, len(filled), insecure=True), tallies_of(study, filled)
    truth = truth_over(study, filled)
    squares = []
    for seed in range(runs):
        steps = replay_study(study, made, tallies, SeededEntropy(seed)).steps
        squares.append(np.concatenate([step["c"].counts - true for step, true in zip(steps, truth, strict=True)]) ** 2)
    return float(np.sqrt(np.mean(squares)))


def test_after_clamping_flow_errs_at_most_half_of_the_paper() -> None:
    """Sticky binary panel, T = 12, same budget, replace-one; 60 runs each, the seeds are fixed."""
    filled = sticky_panel(5000, 12, seed=45)
    flow, paper = (root_mean_square(measure, filled, 0.005, 60) for measure in MEASURES)
    assert flow <= 0.5 * paper


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.001, 0.005, 0.05])
def test_after_clamping_flow_errs_at_most_half_of_the_paper_in_whole_panels(rho: float) -> None:
    """23,374 people and their synthetic panel, 200 runs each, the seeds are fixed."""
    filled = sticky_panel(23374, 12, seed=46)
    flow, paper = (root_mean_square(measure, filled, rho, 200) for measure in MEASURES)
    assert flow <= 0.5 * paper
