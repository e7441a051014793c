"""Window synthesis: a column in every period, counts that follow from measurements, and errors as promised."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

from streamproc.errors import Refused, StudyError, UnsupportedQuery
from streamproc.privacy.adjacency import CLOSED_ADJACENCIES, Adjacency
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period, Rho
from streamproc.releases.contracts import contract_from_values
from streamproc.releases.query import AtLeast, count_of, exactly, quantile
from streamproc.releases.row_assignment import narrowest_dtype
from streamproc.releases.step import ReleasedPeriod, Step
from streamproc.releases.window import WindowContract
from streamproc.releases.window_flow import WindowFlowContract, WindowFlowTallier
from streamproc.releases.window_measurements import fresh_counts, layout_of, measure_window, measurement_count
from streamproc.releases.window_paper import WindowPaperContract, WindowPaperTallier
from streamproc.releases.window_synthesis import WindowState
from streamproc.storage.entropy import SeededEntropy, SystemEntropy
from streamproc.study import Question, Study, WindowRelease, parse_study
from streamproc.testing import SilentEntropy
from tests.releases.statistical_checks import assert_covariance, assert_share_is
from tests.studies import build_study

Filled = npt.NDArray[np.uint8]
Measure = Literal["flow", "paper"]
MEASURES: list[Measure] = ["flow", "paper"]
SHAPES = [(2, 1, 3), (2, 2, 5), (2, 3, 7), (3, 1, 3), (3, 2, 5), (4, 2, 4), (2, 4, 4), (3, 3, 5)]


def study_with(
    q: int, k: int, horizon: int, measure: Measure = "flow", adjacency: Adjacency = Adjacency.REPLACE_ONE
) -> Study:
    """One window release, padded so much that no run clamps anything."""
    release = WindowRelease("w", k, measure=measure, beta=1e-9)
    return build_study(release, alphabet="abcdef"[:q], horizon=horizon, adjacency=adjacency)


def contract_of(study: Study, n: int, rho: float) -> WindowContract:
    [release] = study.releases
    kind = WindowFlowContract if release.measure == "flow" else WindowPaperContract
    return kind.make(study, release, n, Rho(rho), insecure=True)


def flow(q: int, k: int, horizon: int, n: int = 30, rho: float = 0.5) -> WindowFlowContract:
    contract = contract_of(study_with(q, k, horizon), n, rho)
    assert isinstance(contract, WindowFlowContract)
    return contract


def people(q: int, horizon: int, n: int) -> Filled:
    return np.random.default_rng(31).integers(0, q, (n, horizon)).astype(np.uint8)


def counts_of(filled: Filled, q: int, length: int, period: int) -> list[int]:
    """People with each window of the last `length` symbols, by plain counting."""
    seen = [tuple(row[period - length : period]) for row in filled.tolist()]
    return [seen.count(window) for window in product(range(q), repeat=length)]


def tallies(contract: WindowContract, filled: Filled) -> list[IntArray]:
    q, k = contract.mechanism.q, contract.mechanism.k
    found = []
    for period in range(1, contract.horizon + 1):
        length = min(period, k) if period >= contract.first_column else 0
        counted = counts_of(filled, q, length, period) if length else []
        found.append(np.array(counted + [0] * (q**k - len(counted))))
    return found


def run(contract: WindowContract, exact: list[IntArray], draw: NoiseSource) -> tuple[list[Step], list[WindowState]]:
    state, steps, states = contract.initial_state(), [], []
    for tally in exact:
        state, step = contract.step(state, tally, draw)
        steps.append(step)
        states.append(state)
    return steps, states


# What is expected, from the definitions


def spread(q: int, k: int, period: int) -> FloatArray:
    """From errors of the windows of the period before to those of `period`: overlaps, spread evenly."""
    new, old = min(period, k), min(period - 1, k)
    return np.array(
        [
            [1 / q if before[old - new + 1 :] == after[:-1] else 0.0 for before in product(range(q), repeat=old)]
            for after in product(range(q), repeat=new)
        ]
    )


def within_groups(q: int, bins: int) -> FloatArray:
    """`I - J/q` in each group of `q` bins."""
    blocks: FloatArray = np.kron(np.eye(bins // q), np.eye(q) - 1 / q).astype(np.float64)
    return blocks


def even_fractions(denominator: int) -> float:
    """Mean of `f (1 - f)` over the fractions with this denominator."""
    fractions = np.arange(denominator) / denominator
    return float((fractions * (1 - fractions)).mean())


def fresh_noise(contract: WindowFlowContract, period: int) -> FloatArray:
    """Covariance of what the noise of one period adds to its counts: the sum over the sets that end in it."""
    q, length = contract.mechanism.q, min(period, contract.mechanism.k)
    windows = list(product(range(q), repeat=length))
    covariance = np.zeros((q**length, q**length))
    for size in range(length):
        for older in combinations(range(length - 1), size):
            places = (*older, length - 1)
            symbols = [(0,) * len(places)] if q == 2 else list(product(range(q), repeat=len(places)))
            effect = np.array(
                [[prod(q * (c[i] == s) - 1 for i, s in zip(places, a, strict=True)) for a in symbols] for c in windows]
            ) / q ** (length + (0 if q == 2 else len(places)))
            sigma = contract.mechanism.sigma(Period(period), length - places[0], len(places))
            covariance += sigma**2 * effect @ effect.T
    return covariance


def expected_covariances(contract: WindowContract) -> dict[tuple[int, int], FloatArray]:
    """Of released counts, noise and rounding: `Cov(p_t, p_s)` for `s <= t`, from the first column on."""
    q, k, first = contract.mechanism.q, contract.mechanism.k, contract.first_column
    found: dict[tuple[int, int], FloatArray] = {}
    for t in range(first, contract.horizon + 1):
        bins, length = q ** min(t, k), min(t, k)
        if isinstance(contract, WindowFlowContract):
            added = fresh_noise(contract, t)
            added += even_fractions(q**length if q == 2 else q ** (2 * length)) * q / (q - 1) * within_groups(q, bins)
        else:
            v = contract.mechanism.bin_variance
            grouped = (v + even_fractions(q) * q / (q - 1)) * within_groups(q, bins)
            added = v * np.eye(bins) if t == first else grouped
        carry = spread(q, k, t) if t > first else np.zeros((bins, 0))
        found[t, t] = added + (carry @ found[t - 1, t - 1] @ carry.T if t > first else 0)
        for s in range(first, t):
            found[t, s] = carry @ found[t - 1, s]
    return found


# Errors


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
@pytest.mark.parametrize(("q", "k", "horizon"), SHAPES)
def test_stated_errors_are_those_of_the_recursion(
    q: int, k: int, horizon: int, adjacency: Adjacency, measure: Measure
) -> None:
    contract = contract_of(study_with(q, k, horizon, measure, adjacency), 30, 0.7)
    for (t, s), expected in expected_covariances(contract).items():
        later, earlier = np.eye(q ** min(t, k)), np.eye(q ** min(s, k))
        ours = [[contract.covariance(f, Period(t), g, Period(s)) for g in earlier] for f in later]
        assert np.array(ours) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        if t == s:
            assert contract.count_stderrs(Period(t)) == pytest.approx(np.sqrt(np.diagonal(expected)), rel=1e-9)


@pytest.mark.usefixtures("no_rows")
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("rho", [0.01, 4.0])
@pytest.mark.parametrize(
    ("q", "k", "horizon", "adjacency"),
    [
        (2, 3, 5, Adjacency.REPLACE_ONE),
        (2, 2, 4, Adjacency.ZERO_OUT),
        (3, 2, 4, Adjacency.REPLACE_ONE),
        (3, 1, 2, Adjacency.ZERO_OUT),
    ],
)
def test_released_counts_err_as_promised(
    q: int, k: int, horizon: int, adjacency: Adjacency, rho: float, measure: Measure
) -> None:
    """Chi-square for each direction, within each period and across each two; false alarm 1e-6 for each at a random seed.

    The seed is fixed. 500 runs see a variance to within 6 percent: half the noise, and rounding left out where there is
    little noise, are far outside.
    """
    contract = contract_of(study_with(q, k, horizon, measure, adjacency), 30, rho)
    exact, draw = tallies(contract, people(q, horizon, 30)), SeededEntropy(32).draw("w", Period(1))
    errors: list[list[IntArray]] = []
    for _ in range(500):
        steps, _ = run(contract, exact, draw)
        assert all(step.clamped == 0 for step in steps)
        released = [(step.period, step.counts) for step in steps if len(step.counts)]
        errors.append([counts - contract.padding(t) - exact[t - 1][: len(counts)] for t, counts in released])
    expected, first = expected_covariances(contract), contract.first_column
    by_period = {t: np.array([each[t - first] for each in errors], dtype=float) for t in range(first, horizon + 1)}
    for t, s in combinations(range(horizon, first - 1, -1), 2):
        together = np.hstack([by_period[t], by_period[s]])
        assert_covariance(together, np.block([[expected[t, t], expected[t, s]], [expected[t, s].T, expected[s, s]]]))


@pytest.mark.parametrize("measure", MEASURES)
def test_real_noise_errs_as_promised_too(measure: Measure) -> None:
    """From the operating system's entropy, synthetic people included; false alarm 1e-6 for each of two periods."""
    contract = contract_of(study_with(2, 2, 3, measure), 12, 0.05)
    exact, draw = tallies(contract, people(2, 3, 12)), SystemEntropy().draw("w", Period(1))
    runs = [run(contract, exact, draw)[0] for _ in range(200)]
    expected = expected_covariances(contract)
    for t in (2, 3):
        errors = np.array([steps[t - 1].counts - contract.padding(Period(t)) - exact[t - 1] for steps in runs], dtype=float)
        assert_covariance(errors, expected[t, t])


@pytest.mark.usefixtures("no_rows")
@pytest.mark.parametrize(("q", "k", "horizon"), [(2, 3, 5), (3, 2, 4)])
def test_intervals_cover_the_truth_as_often_as_they_say(q: int, k: int, horizon: int) -> None:
    """95% intervals of one bin and of the newest symbol in every period; false alarm 1e-6 for each at a fixed seed."""
    contract, runs = flow(q, k, horizon, rho=0.002), 1000
    exact, draw = tallies(contract, people(q, horizon, 30)), SeededEntropy(35).draw("w", Period(1))
    counts = [[step.counts for step in run(contract, exact, draw)[0]] for _ in range(runs)]
    for t in range(1, horizon + 1):
        bins = contract.bins_at(Period(t))
        errors = np.array([each[t - 1] for each in counts]) - contract.padding(Period(t)) - exact[t - 1][:bins]
        for weights in (np.eye(1, bins).ravel(), contract.query_weights(exactly("b"), Period(t))):
            half = quantile(0.95) * contract.stderr(weights, Period(t))
            assert_share_is(int((np.abs(errors @ weights) <= half).sum()), runs, 0.95)


# Steps by flow


@pytest.mark.parametrize(("q", "k", "horizon"), SHAPES)
def test_without_noise_every_period_has_the_exact_counts(q: int, k: int, horizon: int) -> None:
    contract = flow(q, k, horizon)
    filled = people(q, horizon, 30)
    for t, tally in enumerate(tallies(contract, filled), start=1):
        measured = measure_window(tally[: q ** min(t, k)], q, min(t, k))
        before = None if t == 1 else np.array(counts_of(filled, q, min(t - 1, k), t - 1)) + contract.padding(Period(t - 1))
        numerators, denominator = contract.estimated_counts(Period(t), measured, before)
        counts = np.array(counts_of(filled, q, min(t, k), t)) + contract.padding(Period(t))
        assert (numerators.ravel() == denominator * counts).all()


@pytest.mark.parametrize(("q", "k", "horizon"), SHAPES)
def test_a_column_comes_out_in_every_period_and_all_sums_hold(q: int, k: int, horizon: int) -> None:
    contract = flow(q, k, horizon)
    exact = tallies(contract, people(q, horizon, 30))
    steps, states = run(contract, exact, SeededEntropy(7).draw("w", Period(1)))
    assert contract.first_column == 1
    columns, before = [], np.array([contract.n_star])
    for t, (step, state) in enumerate(zip(steps, states, strict=True), start=1):
        [column] = step.columns
        columns.append(column)
        length = min(t, k)
        assert contract.columns_in(Period(t)) == 1
        assert len(column) == contract.n_star == contract.n + q**k * contract.n_pad
        assert len(step.counts) == len(contract.labels(Period(t))) == contract.bins_at(Period(t)) == q**length
        # The columns released so far are what the counts count: none of them changed.
        assert step.counts.tolist() == counts_of(np.array(columns).T, q, length, t)
        overlaps = before.reshape(-1, q ** (length - 1)).sum(axis=0)
        assert (step.counts.reshape(-1, q).sum(axis=1) == overlaps).all()
        before = step.counts
        rebuilt = contract.rebuild_state(columns, exact[:t], [earlier.measurements for earlier in steps[:t]])
        stored = contract.state_from_arrays(Period(t), contract.state_arrays(state))
        for again in (rebuilt, stored):
            assert again.period == t
            assert again.windows.dtype == np.dtype(narrowest_dtype(q**k))
            assert (again.windows == state.windows).all()
            assert (again.counts == state.counts).all()


@pytest.mark.parametrize(("q", "k", "horizon"), SHAPES)
@pytest.mark.parametrize("n_pad", [0, None])
def test_a_reader_finds_that_counts_follow_from_measurements(q: int, k: int, horizon: int, n_pad: int | None) -> None:
    contract = flow(q, k, horizon, rho=0.05)
    contract = contract if n_pad is None else replace(contract, n_pad=n_pad)
    steps, _ = run(contract, tallies(contract, people(q, horizon, 30)), SeededEntropy(8).draw("w", Period(1)))
    counter, before = contract.new_counter(), None
    for step in steps:
        codes = counter.codes
        counts = counter.add(step.columns[0])
        assert counts is not None
        flat = np.concatenate(step.measurements)
        measured = contract.split_measurements(flat, step.period)
        assert [len(array) for array in measured] == [len(array) for array in step.measurements]
        seen = ReleasedPeriod(step.period, step.columns[0], codes, counts, before, measured, None)
        comparison = contract.compare(seen)
        assert comparison.impossible == 0
        assert (comparison.different == 0) == (step.clamped == 0) or step.clamped
        forged = counts.copy()
        forged[0], forged[-1] = forged[0] + 3, forged[-1] - 3
        if n_pad is None:
            assert contract.compare(replace(seen, counts=forged)).impossible > 0
        before = counts


@pytest.mark.parametrize("n_pad", [0, None])
def test_clamped_counts_are_those_that_rounding_cannot_explain(n_pad: int | None) -> None:
    contract = flow(2, 3, 7, rho=0.005)
    contract = contract if n_pad is None else replace(contract, n_pad=n_pad)
    steps, _ = run(contract, tallies(contract, people(2, 7, 30)), SeededEntropy(8).draw("w", Period(1)))
    measurements = [step.measurements for step in steps]
    flags = [contract.clamped_counts(lambda t: steps[t - 1].counts, measurements, None, Period(t)) for t in range(1, 8)]
    assert [len(each) for each in flags] == [2, 4, 8, 8, 8, 8, 8]
    assert any(each.any() for each in flags) == (n_pad == 0)
    assert any(step.clamped for step in steps) == (n_pad == 0)


# Measurements


def listed_measurements(filled: Filled, q: int, length: int) -> list[list[int]]:
    """All `u_B(a)` in the documented order, by going through them one by one."""
    absent = -1
    axes = [[absent, 0] if q == 2 else [absent, *range(q)]] * (length - 1) + [[0] if q == 2 else list(range(q))]
    groups: dict[tuple[int, int], list[int]] = {}
    for a in product(*axes):
        places = [i for i in range(length) if a[i] != absent]
        value = sum(prod(q * (row[i] == a[i]) - 1 for i in places) for row in filled[:, -length:].tolist())
        groups.setdefault((length - places[0], len(places)), []).append(value)
    return [groups[key] for key in sorted(groups)]


@pytest.mark.parametrize(("q", "length"), [(2, 1), (2, 2), (2, 3), (2, 5), (3, 1), (3, 2), (3, 3), (4, 2), (5, 3)])
def test_measurements_stand_in_the_documented_order(q: int, length: int) -> None:
    filled = people(q, length, 40)
    measured = measure_window(np.array(counts_of(filled, q, length, length)), q, length)
    assert [array.tolist() for array in measured] == listed_measurements(filled, q, length)
    layout = layout_of(q, length)
    assert [len(array) for array in measured] == [group.entries for group in layout.groups]
    assert sum(map(len, measured)) == measurement_count(q, length) == len(layout.order)
    spans = [(group.span, group.size) for group in layout.groups]
    assert spans == [(1, 1)] + [(span, size) for span in range(2, length + 1) for size in range(2, span + 1)]


@pytest.mark.parametrize(("q", "length"), [(2, 3), (3, 2), (4, 3)])
def test_huge_measurements_are_computed_exactly(q: int, length: int) -> None:
    rng = np.random.default_rng(5)
    sizes = [group.entries for group in layout_of(q, length).groups]
    small = [rng.integers(-1000, 1000, size) for size in sizes]
    factor = 2**50 + 1
    numerators, denominator = fresh_counts(small, q, length)
    huge, same = fresh_counts([factor * array for array in small], q, length)
    assert [str(numerators.dtype), str(huge.dtype)] == ["int64", "object"]
    assert denominator == same
    assert huge.tolist() == [factor * numerator for numerator in numerators.tolist()]
    assert (numerators.reshape(-1, q).sum(axis=1) == 0).all()


# Tallies


@pytest.mark.parametrize("tally", [[1, 1, 1], [4, 0, 0, 1], [5, -1, 0, 0], [0, 0, 0, 0]])
@pytest.mark.parametrize("measure", MEASURES)
def test_a_tally_that_is_not_of_n_people_is_refused(tally: list[int], measure: Measure) -> None:
    contract = contract_of(study_with(2, 2, 3, measure), 4, 1.0)
    state = replace(contract.initial_state(), period=Period(1), counts=np.array([2, 2]))
    with pytest.raises(ValueError, match="release w needs 4 counts"):
        contract.step(state, np.array(tally), SilentEntropy(1).draw("w", Period(2)))


def test_a_window_that_is_too_long_for_its_period_is_refused() -> None:
    contract = flow(2, 2, 3, n=4)
    with pytest.raises(ValueError, match="release w needs 4 counts"):
        contract.step(contract.initial_state(), np.array([2, 1, 1, 0]), SilentEntropy(1).draw("w", Period(1)))


@pytest.mark.parametrize("measure", MEASURES)
def test_talliers_count_windows_from_the_first_column_on(measure: Measure) -> None:
    study = study_with(3, 2, 4, measure)
    [release] = study.releases
    assert isinstance(release, WindowRelease)
    tallier = (WindowFlowTallier if measure == "flow" else WindowPaperTallier)(study, release)
    contract, filled = contract_of(study, 30, 1.0), people(3, 4, 30)
    codes = np.zeros(30, dtype=np.uint8)
    for t, expected in enumerate(tallies(contract, filled), start=1):
        codes = codes % 3 * 3 + filled[:, t - 1]
        _, counts = tallier.tally(Period(t), codes.astype(np.uint8), filled[:, t - 1], None)
        assert counts.tolist() == expected.tolist()
        assert tallier.is_possible(counts, 30, Period(t))
        assert not tallier.is_possible(counts + np.eye(1, 9, 8, dtype=np.int64)[0], 30, Period(t))
    assert tallier.is_possible(np.array([0, 0, 3, 0, 0, 0, 0, 0, 0]), 3, Period(1)) == (measure == "flow")
    assert not tallier.is_possible(np.array([0, 0, 2, 1, 0, 0, 0, 0, 0]), 3, Period(1))


# Queries


def test_a_query_is_answered_from_the_period_on_that_fills_it() -> None:
    contract = flow(2, 3, 6)
    twice = count_of("b", at_least=2, of=2)
    assert contract.first_period(twice) == 2
    assert contract.query_weights(twice, Period(2)).tolist() == [0, 0, 0, 1]
    assert contract.query_weights(twice, Period(3)).tolist() == [0, 0, 0, 1] * 2
    assert contract.query_weights(exactly("b"), Period(1)).tolist() == [0, 1]
    for query, period in ((twice, 1), (count_of("b", at_least=1, of=4), 6), (AtLeast(1), 6), (exactly("z"), 6)):
        with pytest.raises(UnsupportedQuery):
            contract.query_weights(query, Period(period))


def test_a_predicate_without_a_hash_is_asked_too() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, window: tuple[str, ...]) -> bool:
            return window == ("b",)

    query = replace(exactly("b"), predicate=Unhashable())
    assert flow(2, 2, 4).query_weights(query, Period(1)).tolist() == [0, 1]


def test_every_label_of_every_period_is_a_query() -> None:
    contract = flow(2, 3, 5)
    for t in range(1, 6):
        for place, label in enumerate(contract.labels(Period(t))):
            query = contract.parse_query(contract.query_of(label)).query
            assert (
                contract.query_weights(query, Period(t)).tolist() == np.eye(len(contract.labels(Period(t))))[place].tolist()
            )
    assert contract.steady_period(Period(5)) == 5


# Contracts


def refuse(key: str, got: object, allowed: str) -> Refused:
    return Refused(f"{key}: {allowed}")


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_a_contract_survives_being_written_and_read(measure: Measure, adjacency: Adjacency) -> None:
    contract = contract_of(study_with(3, 2, 5, measure, adjacency), 30, 0.1)
    values = contract.to_dict()
    assert (values["measure"], values["k"], values["n_pad"]) == (measure, 2, contract.n_pad)
    assert contract_from_values(values, refuse) == contract


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("weights", None),
        ("weights", [1.0] * 3),
        ("weights", [1.0] * 5),
        ("weights", [1.0, 1.0, 1.0, 0.0]),
        ("weights", [1.0, 1.0, 1.0, 1]),
        ("weights", [1.0, 1.0, 1.0, float("nan")]),
        ("weights", [1.0, 1.0, 1.0, 1e-300]),
        ("weights", [1.0, 1.0, 1.0, 1e300]),
        ("k", 0),
        ("k", 6),
        ("k", True),
        ("n_pad", -1),
        ("n_pad", 2**31),
    ],
)
def test_a_stored_contract_with_impossible_values_is_refused(key: str, value: Any) -> None:
    with pytest.raises(Refused, match=f"^{key}: "):
        contract_from_values({**flow(3, 2, 5).to_dict(), key: value}, refuse)


def test_any_weights_within_the_budget_are_implied_by_the_study() -> None:
    study = study_with(2, 3, 8)
    [release] = study.releases
    contract = flow(2, 3, 8)
    mechanism = contract.mechanism
    assert contract.is_implied_by(study, release)
    lower = replace(contract, mechanism=replace(mechanism, weights=tuple(w * (1 - 1e-12) for w in mechanism.weights)))
    assert lower.is_implied_by(study, release)
    higher = replace(contract, mechanism=replace(mechanism, weights=tuple(w * (1 + 1e-12) for w in mechanism.weights)))
    assert not higher.is_implied_by(study, release)
    assert not replace(contract, n_pad=contract.n_pad + 1).is_implied_by(study, release)
    assert not replace(contract, alphabet=("x", "y")).is_implied_by(study, release)
    assert not flow(2, 2, 8).is_implied_by(study, release)
    assert not flow(2, 3, 9).is_implied_by(study, release)


def test_weights_are_made_for_declared_questions() -> None:
    study = study_with(2, 3, 12)
    newest = np.tile([0.0, 1.0], 4)
    tuned = replace(study, questions=(Question("w", 'count("b") >= 1 of 1'),))
    worst = [max(contract_of(each, 30, 1.0).stderr(newest, Period(t)) for t in range(3, 13)) for each in (tuned, study)]
    assert worst[0] < worst[1]
    with pytest.raises(StudyError, match=r"question\[1\]\.ask"):
        contract_of(replace(study, questions=(Question("w", 'count("b") >= 1 of 4'),)), 30, 1.0)


WEIGHED = """
[study]
name = "weighed"
alphabet = ["a", "b"]
horizon = 12
[privacy]
rho = 1.0
[[release]]
name = "w"
kind = "window"
k = 3
{keys}
[[question]]
release = "w"
ask = 'now in ("b")'
"""


def test_weights_and_tune_are_settings_of_windows_too() -> None:
    """`rule` gives every bin the same error whatever is asked; `mean` gives the question a smaller mean variance."""

    def made(keys: str) -> tuple[Study, FloatArray, FloatArray]:
        study = parse_study(WEIGHED.format(keys=keys))
        contract, newest = contract_of(study, 30, 1.0), np.tile([0.0, 1.0], 4)
        stderrs = [contract.stderr(newest, Period(t)) for t in range(3, 13)]
        return study, np.array(stderrs) ** 2, contract.count_stderrs(Period(7)) ** 2 - contract.count_stderrs(Period(8)) ** 2

    plain, by_default, _ = made("")
    tuned, largest, _ = made('weights = "tuned"\ntune = "largest"')
    _, mean, _ = made('tune = "mean"')
    rule, bins, between = made('weights = "rule"')
    assert by_default.tolist() == largest.tolist()
    assert largest.max() < bins.max()
    assert mean.mean() < 0.999 * largest.mean()
    assert np.abs(between).max() < 1e-6
    assert "weights" not in plain.releases[0].fingerprint_values()
    assert [study.releases[0].fingerprint_values()["weights"] for study in (tuned, rule)] == ["tuned", "rule"]


def test_weights_of_windows_are_checked() -> None:
    for keys in ('weights = "flat"', 'tune = "least"', 'weights = "rule"\nmeasure = "paper"'):
        with pytest.raises(StudyError, match=r"release\.w\.(weights|tune): "):
            parse_study(WEIGHED.format(keys=keys))


# The paper's way


def test_the_paper_releases_its_first_columns_together() -> None:
    contract = contract_of(study_with(2, 3, 5, "paper"), 4, 1.0)
    exact = tallies(contract, people(2, 5, 4))
    steps, states = run(contract, exact, SeededEntropy(1).draw("w", Period(1)))
    assert [len(step.columns) for step in steps] == [0, 0, 3, 1, 1]
    assert [len(step.measurements) for step in steps] == [0, 0, 1, 1, 1]
    assert [len(step.counts) for step in steps] == [0, 0, 8, 8, 8]
    assert contract.n_star is None
    columns = [column for step in steps for column in step.columns]
    for t in (3, 4, 5):
        assert steps[t - 1].counts.tolist() == counts_of(np.array(columns[:t]).T, 2, 3, t)
    rebuilt = contract.rebuild_state(columns, exact, [step.measurements for step in steps])
    assert (rebuilt.windows == states[-1].windows).all()
    early = contract.query_weights(exactly("b"), Period(1))
    assert float(early @ steps[2].counts) == columns[0].sum()
    assert contract.stderr(early, Period(1)) > 0


class Drowning:
    """Noise that takes all people and more."""

    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        return exact - 1000

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(0)


def test_a_histogram_that_noise_leaves_without_anyone_is_an_empty_panel() -> None:
    contract = replace(contract_of(study_with(2, 2, 4, "paper"), 3, 1.0), n_pad=0)
    exact = [np.array(tally) for tally in ([0, 0, 0, 0], [3, 0, 0, 0], [2, 1, 0, 0])]
    steps, _ = run(contract, exact, Drowning())
    assert [step.counts.tolist() for step in steps] == [[], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert [[len(column) for column in step.columns] for step in steps] == [[], [0, 0], [0]]
