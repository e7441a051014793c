"""The panel: what it answers without noise, how wide its intervals are, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamproc.releases.cumulative_synthesis import estimates

from streamproc.errors import UnsupportedQuery
from streamproc.offline import replay_study, tallies_of
from streamproc.panel import Answer, AtLeast, LastSymbols, Panel, Query, count_of, exactly, in_a_row
from streamproc.privacy.types import FloatArray, Period
from streamproc.privacy.window import Measure
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.cumulative import CumulativeContract, ratchet_halfwidth
from streamproc.releases.query import quantile
from streamproc.releases.window import WindowContract
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, Study, WindowRelease
from streamproc.testing import SilentEntropy
from tests.releases.random_studies import (
    MEASURES,
    Filled,
    contracts_of,
    histories_of,
    sticky_panel,
    studies,
    true_at_least,
    true_share,
    window_contract,
)
from tests.releases.statistical_checks import assert_share_at_least, assert_share_is
from tests.studies import build_study

BOTH = build_study(WindowRelease("w", 3), CumulativeRelease("c", ("1",)), horizon=5, rho=2.0)
PEOPLE = sticky_panel(40, 5, seed=51)


def released(study: Study, filled: Filled, seed: int, periods: int | None = None) -> dict[str, Panel]:
    made = stated_contracts(study, len(filled), insecure=True)
    return dict(replay_study(study, made, tallies_of(study, filled)[:periods], SeededEntropy(seed)).panels)


def share_at_least(study: Study, filled: Filled, b: int, period: int) -> float:
    [release] = [release for release in study.releases if isinstance(release, CumulativeRelease)]
    return true_at_least(study, release, filled, period)[b - 1] / len(filled)


@given(studies(), st.data())
def test_without_noise_every_answer_is_the_truth(study: Study, data: st.DataObject) -> None:
    """For any predicate on up to `k` symbols at any period, those before `k` too; and for any number of ones."""
    filled = data.draw(histories_of(study))
    made = data.draw(contracts_of(study, len(filled)))
    panels = replay_study(study, made, tallies_of(study, filled), SilentEntropy(1)).panels
    for release in study.releases:
        panel = panels[release.name]
        for period in range(1, study.horizon + 1):
            if isinstance(release, WindowRelease):
                width = data.draw(st.integers(1, min(release.k, period)))
                yes = data.draw(st.sets(st.sampled_from(list(product(study.alphabet, repeat=width)))))
                answer = panel.fraction(LastSymbols("any", width, yes.__contains__), period)
                truth = true_share(study, filled, period, width, yes.__contains__)
            else:
                assert isinstance(release, CumulativeRelease)
                b = data.draw(st.integers(1, study.horizon))
                answer = panel.fraction(AtLeast(b), period)
                ones = true_at_least(study, release, filled, period)
                truth = ones[b - 1] / len(filled) if b <= period else 0
            assert answer.value == pytest.approx(truth)
            assert answer.low - 1e-9 <= answer.value <= answer.high + 1e-9


def test_an_answer_says_what_was_asked_and_how_sure_it_is() -> None:
    panel = released(BOTH, PEOPLE, seed=1)["w"]
    answer = panel.fraction(exactly("1"), 4, level=0.5)
    assert (answer.query, answer.period, answer.level) == ("last:1", 4, 0.5)
    assert answer.high - answer.low == pytest.approx(2 * quantile(0.5) * answer.stderr)
    assert (answer.high + answer.low) / 2 == pytest.approx(answer.value)
    assert panel.fraction(exactly("1")).period == 5
    assert panel.fraction(exactly("1")).level == 0.95


PREDICATES: list[LastSymbols] = [
    count_of("1", at_least=1, of=3),
    count_of("1", at_least=2, of=3),
    in_a_row("1", length=2, of=3),
    count_of("1", at_least=3, of=3),
    exactly("1"),
    exactly("0", "1"),
]
"""The paper's four, and two on fewer symbols."""


@pytest.mark.parametrize("measure", MEASURES)
def test_intervals_of_window_answers_cover_as_often_as_they_say(measure: Measure) -> None:
    """19 times in 20; and half of the errors are within 0.67 standard errors, which intervals too wide would be seen by.

    Two-sided binomial tests for each question and period, 200 runs; false alarm 1e-6 in all, the seeds are fixed.
    """
    study = build_study(WindowRelease("w", 3, measure=measure, beta=1e-4), horizon=6, rho=0.05)
    filled = sticky_panel(200, 6, seed=52)
    asked = [(query, period) for query in PREDICATES for period in (2, 3, 4, 6) if query.width <= period]
    truths = [true_share(study, filled, period, query.width, query.predicate) for query, period in asked]
    covered, close, runs = np.zeros(len(asked), dtype=int), np.zeros(len(asked), dtype=int), 200
    for seed in range(runs):
        panel = released(study, filled, seed)["w"]
        answers = [panel.fraction(*ask) for ask in asked]
        covered += [holds(answer, truth) for answer, truth in zip(answers, truths, strict=True)]
        close += [abs(a.value - truth) <= quantile(0.5) * a.stderr for a, truth in zip(answers, truths, strict=True)]
    for hits, halves in zip(covered.tolist(), close.tolist(), strict=True):
        assert_share_is(hits, runs, 0.95, of=2 * len(asked))
        assert_share_is(halves, runs, 0.5, of=2 * len(asked))


def holds(answer: Answer, truth: float) -> bool:
    return answer.low <= truth <= answer.high


FLAT: dict[str, Callable[[int, int], FloatArray]] = {
    "nobody ever": lambda n, horizon: np.zeros((n, horizon)),
    "everybody always": lambda n, horizon: np.ones((n, horizon)),
    "half of them always": lambda n, horizon: np.tile((np.arange(n) % 2)[:, None], horizon).astype(float),
    "sticky": lambda n, horizon: sticky_panel(n, horizon, seed=53).astype(float),
}


def cumulative_coverage(filled: Filled, runs: int, asked: list[tuple[int, int]], rho: float) -> tuple[list[int], list[int]]:
    """How often the truth was in the interval of each question `(b, period)`, with the ledger's measurements and without."""
    study = build_study(CumulativeRelease("c", ("1",)), horizon=filled.shape[1], rho=rho)
    truths = [share_at_least(study, filled, b, period) for b, period in asked]
    made, tallies = stated_contracts(study, len(filled), insecure=True), tallies_of(study, filled)
    with_ledger, without = np.zeros(len(asked), dtype=int), np.zeros(len(asked), dtype=int)
    for seed in range(runs):
        panel = replay_study(study, made, tallies, SeededEntropy(seed)).panels["c"]
        bare = replace(panel, measurements=None)
        with_ledger += [holds(panel.fraction(AtLeast(b), t), truth) for (b, t), truth in zip(asked, truths, strict=True)]
        without += [holds(bare.fraction(AtLeast(b), t), truth) for (b, t), truth in zip(asked, truths, strict=True)]
    return with_ledger.tolist(), without.tolist()


@pytest.mark.parametrize("flat", FLAT)
def test_intervals_of_cumulative_answers_cover_at_least_19_times_in_20(flat: str) -> None:
    """One-sided binomial test for each question, 200 runs; false alarm 1e-6 in all, the seeds are fixed."""
    filled = FLAT[flat](100, 8).astype(np.uint8)
    asked = [(1, 1), (1, 4), (1, 8), (2, 5), (3, 8), (6, 8), (8, 8)]
    runs = 200
    for counts in cumulative_coverage(filled, runs, asked, rho=0.02):
        for hits in counts:
            assert_share_at_least(hits, runs, 0.95, of=len(asked))


@pytest.mark.slow
@pytest.mark.parametrize("flat", FLAT)
def test_intervals_of_cumulative_answers_cover_over_long_studies_too(flat: str) -> None:
    """60 periods and 100 runs; false alarm 1e-6 in all, the seeds are fixed."""
    filled = FLAT[flat](500, 60).astype(np.uint8)
    asked = [(1, 1), (1, 30), (1, 60), (2, 60), (10, 40), (30, 60), (59, 60)]
    for counts in cumulative_coverage(filled, 100, asked, rho=0.02):
        for hits in counts:
            assert_share_at_least(hits, 100, 0.95, of=len(asked))


@pytest.mark.parametrize("seed", range(5))
def test_a_cumulative_interval_is_that_of_the_unclamped_estimate_widened_to_the_panels_value(seed: int) -> None:
    panel = released(BOTH, PEOPLE, seed)["c"]
    contract = panel.contract
    assert isinstance(contract, CumulativeContract)
    assert panel.measurements is not None
    for period in range(1, 6):
        streams = [np.concatenate([step[b] for step in panel.measurements[b:period]]) for b in range(period)]
        unclamped = estimates(contract.mechanism, tuple(streams), Period(period))
        for b in range(1, period + 1):
            answer = panel.fraction(AtLeast(b), period)
            sigma = contract.mechanism.variance(b, Period(period)) ** 0.5
            value, half = float(panel.counts(period)[b - 1]), quantile(0.95) * sigma
            low, high = min(unclamped[b - 1] - half, value), max(unclamped[b - 1] + half, value)
            assert answer.value == value / 40
            assert answer.stderr == pytest.approx(sigma / 40)
            assert [answer.low, answer.high] == pytest.approx([low / 40, high / 40])


def test_without_measurements_an_interval_allows_for_the_ratchet() -> None:
    panel = replace(released(BOTH, PEOPLE, seed=2)["c"], measurements=None)
    assert isinstance(panel.contract, CumulativeContract)
    answer = panel.fraction(AtLeast(2), 4, level=0.9)
    half = ratchet_halfwidth(panel.contract.mechanism, 2, Period(4), 0.9) / 40
    assert [answer.low, answer.high] == pytest.approx([answer.value - half, answer.value + half])


def test_nobody_has_had_more_ones_than_there_were_periods() -> None:
    answer = released(BOTH, PEOPLE, seed=3)["c"].fraction(AtLeast(4), 3)
    assert (answer.value, answer.stderr, answer.low, answer.high) == (0, 0, 0, 0)


def test_counts_can_be_had_by_label() -> None:
    panels = released(BOTH, PEOPLE, seed=4)
    assert list(panels["w"].bins()) == ["000", "001", "010", "011", "100", "101", "110", "111"]
    assert list(panels["w"].bins(4).values()) == panels["w"].counts(4).tolist()
    assert panels["c"].bins(2) == dict(zip(["1", "2"], panels["c"].counts(2).tolist(), strict=True))


def test_before_a_window_is_full_counts_are_those_of_the_first_columns() -> None:
    panel = released(BOTH, PEOPLE, seed=5)["w"]
    assert panel.counts(1).tolist() == panel.counts(2).tolist() == panel.counts(3).tolist()


def test_a_growing_panel_keeps_its_columns_and_forgets_measurements_it_never_had() -> None:
    study = build_study(CumulativeRelease("c", ("1",)), horizon=5)
    made = stated_contracts(study, len(PEOPLE), insecure=True)
    steps = [steps["c"] for steps in replay_study(study, made, tallies_of(study, PEOPLE), SeededEntropy(6)).steps]
    full, bare = Panel(made["c"]), Panel(made["c"], measurements=None)
    assert (full.rows, full.period) == (0, 0)
    for period, step in enumerate(steps, start=1):
        full, bare = full.extended(step), bare.extended(step)
        assert full.period == period
        assert full.rows == 40
    assert all(column is step.columns[0] for column, step in zip(full.columns, steps, strict=True))
    assert full.measurements is not None
    assert [len(measured) for measured in full.measurements] == [1, 2, 3, 4, 5]
    assert bare.measurements is None


WINDOW, CUMULATIVE = released(BOTH, PEOPLE, seed=7, periods=4).values()
EMPTY = Panel(WINDOW.contract)


@pytest.mark.parametrize(
    ("panel", "query", "period", "reason"),
    [
        (WINDOW, count_of("1", at_least=1, of=4), 4, "looks back over 4 periods, but release w .* k = 3"),
        (WINDOW, AtLeast(2), 4, "atleast:2: release w is of kind window, .* 3 periods only; ask a cumulative release"),
        (CUMULATIVE, exactly("1"), 4, "last:1: release c is of kind cumulative, .* not when; ask a window release"),
        (WINDOW, exactly("1"), 5, r"release w: period 5 was asked for, but periods 1\.\.4 are released so far"),
        (WINDOW, exactly("1"), 0, "period 0 was asked for"),
        (CUMULATIVE, AtLeast(1), -1, "period -1 was asked for"),
        (EMPTY, exactly("1"), None, "period 0 was asked for, but nothing is released so far"),
        (WINDOW, exactly("1", "1"), 1, "needs 2 periods, but period 1 comes before that"),
        (CUMULATIVE, AtLeast(6), 4, "atleast:6: b must lie between 1 and the horizon 5"),
    ],
)
def test_what_a_release_does_not_support_is_refused_with_the_reason(
    panel: Panel, query: Query, period: int | None, reason: str
) -> None:
    with pytest.raises(UnsupportedQuery, match=reason) as caught:
        panel.fraction(query, period)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, float("nan")])
def test_a_level_is_a_chance(level: float) -> None:
    with pytest.raises(UnsupportedQuery, match="a confidence level must lie between 0 and 1, got"):
        WINDOW.fraction(exactly("1"), level=level)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ([[0, 1], [0, 1, 1]], "columns of 2 and 3 synthetic people in one panel"),
        ([[0, 2], [0, 1]], "a symbol outside the alphabet of 2"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(columns: list[list[int]], reason: str) -> None:
    contract: WindowContract = window_contract(build_study(WindowRelease("w", 2), horizon=6), 5)
    with pytest.raises(ValueError, match=reason):
        Panel(contract, tuple(np.array(column, dtype=np.uint8) for column in columns))


def test_cumulative_columns_without_their_measurements_say_so() -> None:
    """An empty tuple would mean that nothing was measured, and there would be no estimate to centre on."""
    with pytest.raises(ValueError, match="4 columns but measurements of 0 periods; pass None if unknown"):
        Panel(CUMULATIVE.contract, CUMULATIVE.columns)
    assert Panel(CUMULATIVE.contract, CUMULATIVE.columns, None).fraction(AtLeast(1)).value >= 0
