"""Window synthesis: the noise that is released has the covariance that was promised, at every period."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from streamproc.offline import tallies_of
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.privacy.window import Measure
from streamproc.releases.window import WindowContract
from streamproc.releases.window_synthesis import WindowState, contrasts, step_window
from streamproc.storage.entropy import SeededEntropy, SystemEntropy
from streamproc.study import Study, WindowRelease
from streamproc.testing import SilentEntropy
from tests.releases.expected_noise import expected_covariance, expected_variance
from tests.releases.random_studies import MEASURES, window_contract
from tests.releases.statistical_checks import FALSE_ALARM, assert_covariance
from tests.studies import build_study


def study_with(q: int, k: int, horizon: int, measure: Measure, adjacency: Adjacency, rho: float) -> Study:
    """One window release, padded so much that no run clamps anything."""
    release = WindowRelease("w", k, measure=measure, beta=1e-9)
    return build_study(release, alphabet="abcdef"[:q], horizon=horizon, adjacency=adjacency, rho=rho)


def exact_tallies(study: Study, people: int) -> list[IntArray]:
    symbols = np.random.default_rng(31).integers(0, study.q, (people, study.horizon))
    return [tally["w"] for tally in tallies_of(study, symbols.astype(np.uint8))]


def released_errors(contract: WindowContract, tallies: list[IntArray], draw: NoiseSource, runs: int) -> FloatArray:
    """(runs, steps, bins): released counts less padding less exact counts."""
    errors = []
    for _ in range(runs):
        state = WindowState.initial(contract.mechanism)
        steps = []
        for tally in tallies:
            state, step = step_window(contract, state, tally, draw)
            assert step.clamped == 0
            if len(step.counts):
                steps.append(step.counts - contract.n_pad - tally)
        errors.append(steps)
    return np.array(errors, dtype=float)


@pytest.mark.usefixtures("no_rows")
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("q", "k", "horizon", "adjacency", "v"),
    [
        (2, 3, 6, Adjacency.REPLACE_ONE, 400.0),
        (2, 3, 6, Adjacency.ZERO_OUT, 400.0),
        (3, 2, 5, Adjacency.REPLACE_ONE, 400.0),
        (3, 2, 5, Adjacency.ZERO_OUT, 400.0),
        (3, 1, 2, Adjacency.REPLACE_ONE, 400.0),
        (2, 3, 6, Adjacency.REPLACE_ONE, 0.5),
        (3, 2, 5, Adjacency.ZERO_OUT, 0.5),
    ],
)
def test_released_counts_err_as_promised(
    q: int, k: int, horizon: int, measure: Measure, adjacency: Adjacency, v: float
) -> None:
    """Chi-square for each direction, at every period; false alarm 1e-6 for each period at a random seed, which is fixed.

    500 runs see a variance to within 6 percent: half the noise, zero-out noise under replace-one (half as much) and
    rounding left out (a third of the error where there is little noise) are far outside.
    """
    rho = expected_variance(q, k, horizon, measure, adjacency, rho=1.0) / v
    study = study_with(q, k, horizon, measure, adjacency, rho)
    contract = window_contract(study, n=30)
    errors = released_errors(contract, exact_tallies(study, 30), SeededEntropy(32).draw("w", Period(1)), runs=500)
    assert errors.shape[1] == horizon - k + 1
    for step in range(errors.shape[1]):
        assert_covariance(errors[:, step], expected_covariance(q, k, measure, v, k + step))


@pytest.mark.parametrize("measure", MEASURES)
def test_real_noise_errs_as_promised_too(measure: Measure) -> None:
    """From the operating system's entropy, synthetic people included; false alarm 1e-6 for each of two periods."""
    rho = expected_variance(2, 2, 3, measure, Adjacency.REPLACE_ONE, rho=1.0) / 50
    study = study_with(2, 2, 3, measure, Adjacency.REPLACE_ONE, rho)
    contract = window_contract(study, n=12)
    errors = released_errors(contract, exact_tallies(study, 12), SystemEntropy().draw("w", Period(1)), runs=300)
    for step in range(2):
        assert_covariance(errors[:, step], expected_covariance(2, 2, measure, 50, 2 + step))


@pytest.mark.usefixtures("no_rows")
def test_the_steps_of_a_run_are_as_noisy_together_as_apart() -> None:
    """An error is inherited through overlaps only: with k = 1 there are none, so steps are uncorrelated.

    False alarm 1e-6 at a random seed, which is fixed.
    """
    study = study_with(2, 1, 4, "contrast", Adjacency.REPLACE_ONE, rho=0.05)
    draw = SeededEntropy(33).draw("w", Period(1))
    errors = released_errors(window_contract(study, n=10), exact_tallies(study, 10), draw, runs=400)[:, :, 0]
    v = expected_variance(2, 1, 4, "contrast", Adjacency.REPLACE_ONE, 0.05)
    assert_covariance(errors, (v / 2 + (1 - 2**-4) / 6) * np.eye(4))


@pytest.mark.usefixtures("no_rows")
@pytest.mark.parametrize(
    ("q", "k", "adjacency", "ratio"),
    [
        (2, 3, Adjacency.REPLACE_ONE, 0.61),
        (2, 3, Adjacency.ZERO_OUT, 0.47),
        (4, 2, Adjacency.REPLACE_ONE, 0.83),
        (4, 2, Adjacency.ZERO_OUT, 0.72),
    ],
)
def test_contrast_needs_the_promised_part_of_the_variance_of_histogram(
    q: int, k: int, adjacency: Adjacency, ratio: float
) -> None:
    """Mean square over bins and periods, T = 12, the same budget: the measured ratio meets the formulas' within its noise.

    The mean square of a run is one number, runs are independent, so the ratio of means is normal with a standard error found
    by the delta method: about 3 percent with 120 runs. False alarm 1e-6 at a random seed, which is fixed.
    """
    runs, rho = 120, 0.02
    squares = {}
    for measure in MEASURES:
        study = study_with(q, k, 12, measure, adjacency, rho)
        draw = SeededEntropy(34).draw(measure, Period(1))
        errors = released_errors(window_contract(study, n=40), exact_tallies(study, 40), draw, runs)
        squares[measure] = (errors**2).mean(axis=(1, 2))
    ours, theirs = squares["contrast"], squares["histogram"]
    measured = ours.mean() / theirs.mean()
    stderr = np.std(ours - measured * theirs, ddof=1) / theirs.mean() / np.sqrt(runs)
    assert stderr < 0.04 * ratio
    # The ratios are given to two digits, and rounding adds a thousandth to both variances.
    assert abs(measured - ratio) < stats.norm.isf(FALSE_ALARM / 2) * stderr + 0.006


@pytest.mark.parametrize("measure", MEASURES)
def test_before_a_window_is_full_nothing_comes_out_and_nothing_is_measured(measure: Measure) -> None:
    contract = window_contract(study_with(2, 3, 5, measure, Adjacency.REPLACE_ONE, 1.0), n=4)
    state = WindowState.initial(contract.mechanism)
    for period in (1, 2):
        state, step = step_window(contract, state, np.zeros(8, dtype=np.int64), SeededEntropy(1).draw("w", Period(period)))
        assert (step.period, list(step.columns), list(step.measurements), step.counts.tolist()) == (period, [], [], [])
    state, step = step_window(contract, state, np.array([4, 0, 0, 0, 0, 0, 0, 0]), SeededEntropy(1).draw("w", Period(3)))
    assert len(step.columns) == 3
    assert len(step.measurements) == 1


def test_measurements_are_what_the_released_counts_follow_from() -> None:
    """An analyst can check: `(total + y_a - mean y) / g`, up to rounding."""
    study = study_with(3, 2, 4, "contrast", Adjacency.REPLACE_ONE, 0.5)
    contract, tallies = window_contract(study, n=20), exact_tallies(study, 20)
    state = WindowState.initial(contract.mechanism)
    totals = np.array([contract.expected_rows])
    for period, tally in enumerate(tallies, start=1):
        state, step = step_window(contract, state, tally, SeededEntropy(2).draw("w", Period(period)))
        if not len(step.counts):
            continue
        [noisy] = step.measurements
        by_group = noisy.reshape(len(totals), -1)
        follows = (totals[:, None] + by_group - by_group.mean(axis=1, keepdims=True)) / by_group.shape[1]
        assert np.abs(step.counts - follows.ravel()).max() < 1
        totals = step.counts.reshape(3, 3).sum(axis=0)


@pytest.mark.parametrize("tally", [[1, 1, 1], [4, 0, 0, 1], [5, -1, 0, 0], [0, 0, 0, 0]])
def test_a_tally_that_is_not_of_n_people_is_refused(tally: list[int]) -> None:
    contract = window_contract(study_with(2, 2, 3, "contrast", Adjacency.REPLACE_ONE, 1.0), n=4)
    state = replace(WindowState.initial(contract.mechanism), period=Period(1))
    with pytest.raises(ValueError, match="release w needs 4 counts"):
        step_window(contract, state, np.array(tally), SilentEntropy(1).draw("w", Period(2)))


class Drowning:
    """Noise that takes all people and more."""

    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        return exact - 1000

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(0)


def test_a_histogram_that_noise_leaves_without_anyone_is_an_empty_panel() -> None:
    contract = replace(window_contract(study_with(2, 2, 4, "histogram", Adjacency.REPLACE_ONE, 1.0), n=3), n_pad=0)
    state = WindowState.initial(contract.mechanism)
    tallies = np.array([[0, 0, 0, 0], [3, 0, 0, 0], [2, 1, 0, 0]])
    steps = []
    for tally in tallies:
        state, step = step_window(contract, state, tally, Drowning())
        steps.append(step)
    assert [step.counts.tolist() for step in steps] == [[], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert [[len(column) for column in step.columns] for step in steps] == [[], [0, 0], [0]]


def test_a_contrast_says_how_far_each_bin_is_from_the_mean_of_its_group() -> None:
    assert contrasts(np.array([[5, 1, 0], [2, 2, 2]])).tolist() == [[9, -3, -6], [0, 0, 0]]
