"""The panel: what it answers without noise, how wide its intervals are, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import UnsupportedQuery
from streamproc.offline import replay_study, tallies_of
from streamproc.panel import Answer, AtLeast, LastSymbols, Panel, Query, count_of, exactly, in_a_row
from streamproc.privacy.types import FloatArray, Period
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.cumulative import CumulativeContract
from streamproc.releases.cumulative_paper import CumulativePaperContract, ratchet_halfwidth
from streamproc.releases.cumulative_paper_synthesis import estimates
from streamproc.releases.flow import FlowContract
from streamproc.releases.query import EventCount, InSpell, Matched, quantile
from streamproc.releases.window import WindowContract
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, PatternRelease, Release, SpellRelease, Study, WindowRelease
from streamproc.study.releases import Measure
from streamproc.testing import SilentEntropy
from tests.releases.random_studies import (
    KINDS,
    MEASURES,
    Filled,
    contracts_of,
    histories_of,
    release_of,
    sticky_panel,
    studies,
    true_at_least,
    true_counts,
    true_share,
    window_contract,
)
from tests.releases.statistical_checks import assert_share_at_least, assert_share_is
from tests.studies import build_study

BOTH = build_study(WindowRelease("w", 3), CumulativeRelease("c", ("1",), weights="rule"), horizon=5, rho=2.0)
EACH = build_study(*(release_of(kind, kind) for kind in KINDS), horizon=5, rho=6.0)
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
        for period in range(1, study.last_period + 1):
            if isinstance(release, WindowRelease):
                width = data.draw(st.integers(1, min(release.k, period)))
                yes = data.draw(st.sets(st.sampled_from(list(product(study.alphabet, repeat=width)))))
                answer = panel.fraction(LastSymbols("any", width, yes.__contains__), period)
                truth = true_share(study, filled, period, width, yes.__contains__)
            else:
                b = data.draw(st.integers(1, largest_question(study, release)))
                answer = panel.fraction(question_of(release, b), period)
                counts = true_counts(study, release, filled, period)
                truth = counts[b - 1] / len(filled) if b <= len(counts) else 0
            assert answer.value == pytest.approx(truth)
            assert answer.low - 1e-9 <= answer.value <= answer.high + 1e-9


def largest_question(study: Study, release: Release) -> int:
    """The largest number of events, or of periods in a spell, that can be asked about."""
    match release:
        case CumulativeRelease():
            return study.last_period if release.measure == "paper" else release.counted_up_to(study.last_period)
        case SpellRelease():
            return release.length
    return 1


def question_of(release: Release, b: int) -> Query:
    match release:
        case CumulativeRelease():
            return AtLeast(b)
        case SpellRelease():
            return InSpell(b)
    assert isinstance(release, PatternRelease)
    return Matched()


@given(st.integers(0, 2**32))
def test_exactly_so_many_events_is_the_difference_of_two_counts(seed: int) -> None:
    panel = released(BOTH, PEOPLE, seed)["c"]
    for period in range(1, 6):
        for b in range(1, 5):
            more, fewer = (panel.fraction(AtLeast(count), period).value for count in (b + 1, b))
            assert panel.fraction(EventCount(b), period).value == pytest.approx(fewer - more)


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


def cumulative_coverage(
    measure: Measure, filled: Filled, runs: int, asked: list[tuple[int, int]], rho: float
) -> tuple[list[int], list[int]]:
    """How often the truth was in the interval of each question `(b, period)`, with the ledger's measurements and without."""
    release = CumulativeRelease("c", ("1",), measure=measure, weights=None if measure == "paper" else "rule")
    study = build_study(release, horizon=filled.shape[1], rho=rho)
    truths = [share_at_least(study, filled, b, period) for b, period in asked]
    made, tallies = stated_contracts(study, len(filled), insecure=True), tallies_of(study, filled)
    with_ledger, without = np.zeros(len(asked), dtype=int), np.zeros(len(asked), dtype=int)
    for seed in range(runs):
        panel = replay_study(study, made, tallies, SeededEntropy(seed)).panels["c"]
        bare = replace(panel, measurements=None)
        with_ledger += [holds(panel.fraction(AtLeast(b), t), truth) for (b, t), truth in zip(asked, truths, strict=True)]
        without += [holds(bare.fraction(AtLeast(b), t), truth) for (b, t), truth in zip(asked, truths, strict=True)]
    return with_ledger.tolist(), without.tolist()


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("flat", FLAT)
def test_intervals_of_cumulative_answers_cover_at_least_19_times_in_20(flat: str, measure: Measure) -> None:
    """One-sided binomial test for each question, 200 runs; false alarm 1e-6 in all, the seeds are fixed."""
    filled = FLAT[flat](100, 8).astype(np.uint8)
    asked = [(1, 1), (1, 4), (1, 8), (2, 5), (3, 8), (6, 8), (8, 8)]
    runs = 200
    for counts in cumulative_coverage(measure, filled, runs, asked, rho=0.02):
        for hits in counts:
            assert_share_at_least(hits, runs, 0.95, of=len(asked))


@pytest.mark.parametrize("kind", ["spell", "pattern"])
@pytest.mark.parametrize("flat", FLAT)
def test_intervals_of_spells_and_matches_cover_at_least_19_times_in_20(flat: str, kind: str) -> None:
    """One-sided binomial test for each question, 200 runs; false alarm 1e-6 in all, the seeds are fixed."""
    filled, runs = FLAT[flat](100, 8).astype(np.uint8), 200
    study = build_study(release_of(kind), horizon=8, rho=0.02)
    [release] = study.releases
    asked = [(b, period) for b in range(1, largest_question(study, release) + 1) for period in (3, 5, 8)]
    truths = [true_counts(study, release, filled, period)[b - 1] / 100 for b, period in asked]
    made, tallies = stated_contracts(study, 100, insecure=True), tallies_of(study, filled)
    covered = np.zeros(len(asked), dtype=int)
    for seed in range(runs):
        panel = replay_study(study, made, tallies, SeededEntropy(seed)).panels["r"]
        answers = [panel.fraction(question_of(release, b), period) for b, period in asked]
        covered += [holds(answer, truth) for answer, truth in zip(answers, truths, strict=True)]
    for hits in covered.tolist():
        assert_share_at_least(hits, runs, 0.95, of=len(asked))


@pytest.mark.slow
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("flat", FLAT)
def test_intervals_of_cumulative_answers_cover_over_long_studies_too(flat: str, measure: Measure) -> None:
    """100 periods and 100 runs; false alarm 1e-6 in all, the seeds are fixed."""
    filled = FLAT[flat](500, 100).astype(np.uint8)
    asked = [(1, 1), (1, 50), (1, 100), (2, 100), (10, 60), (30, 60), (60, 100)]
    for counts in cumulative_coverage(measure, filled, 100, asked, rho=0.02):
        for hits in counts:
            assert_share_at_least(hits, 100, 0.95, of=len(asked))


@pytest.mark.parametrize("seed", range(5))
def test_a_cumulative_interval_of_the_paper_is_that_of_the_unclamped_estimate_widened_to_the_panels_value(seed: int) -> None:
    panel = released(EACH, PEOPLE, seed)["cumulative-paper"]
    contract = panel.contract
    assert isinstance(contract, CumulativePaperContract)
    assert panel.measurements is not None
    for period in range(1, 6):
        streams = [np.concatenate([step[b] for step in panel.measurements[b:period]]) for b in range(period)]
        unclamped = estimates(contract.mechanism, tuple(streams), Period(period))
        stderrs = [contract.mechanism.variance(b, Period(period)) ** 0.5 for b in range(1, period + 1)]
        check_intervals(panel, period, unclamped, np.array(stderrs))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["cumulative-flow", "spell", "pattern"])
def test_an_interval_by_flow_is_that_of_the_unclamped_estimate_widened_to_the_panels_value(kind: str, seed: int) -> None:
    made = stated_contracts(EACH, len(PEOPLE), insecure=True)
    done = replay_study(EACH, made, tallies_of(EACH, PEOPLE), SeededEntropy(seed))
    panel, contract = done.panels[kind], made[kind]
    assert isinstance(contract, FlowContract)
    for period in range(1, 6):
        unclamped = done.steps[period - 1][kind].estimates
        assert unclamped is not None
        asked, covariance = contract.questions(Period(period)), contract.mechanism.state_covariance(Period(period))
        check_intervals(panel, period, unclamped, np.sqrt(np.diagonal(asked @ covariance @ asked.T)))


def check_intervals(panel: Panel, period: int, unclamped: FloatArray, stderrs: FloatArray) -> None:
    contract = panel.contract
    for place, label in enumerate(contract.labels(Period(period))):
        answer = panel.fraction(contract.parse_query(contract.query_of(label)).query, period)
        value, half = float(panel.counts(period)[place]), quantile(0.95) * stderrs[place]
        low, high = min(unclamped[place] - half, value), max(unclamped[place] + half, value)
        assert answer.value == value / 40
        assert answer.stderr == pytest.approx(stderrs[place] / 40)
        assert [answer.low, answer.high] == pytest.approx([low / 40, high / 40])


@pytest.mark.parametrize("kind", ["cumulative-flow", "cumulative-paper"])
def test_without_measurements_an_interval_allows_for_the_ratchet(kind: str) -> None:
    panel = replace(released(EACH, PEOPLE, seed=2)[kind], measurements=None)
    answer = panel.fraction(AtLeast(2), 4, level=0.9)
    if isinstance(panel.contract, CumulativeContract):
        half = panel.contract.columns_only_halfwidth(np.eye(4)[1], Period(4), 0.9) / 40
    else:
        assert isinstance(panel.contract, CumulativePaperContract)
        half = ratchet_halfwidth(panel.contract.mechanism, 2, Period(4), 0.9) / 40
    assert [answer.low, answer.high] == pytest.approx([answer.value - half, answer.value + half])


@pytest.mark.parametrize(
    ("kind", "query", "period"),
    [
        ("cumulative-flow", AtLeast(4), 3),
        ("cumulative-paper", AtLeast(4), 3),
        ("cumulative-flow", EventCount(4), 3),
        ("spell", InSpell(3), 2),
        ("pattern", Matched(), 1),
    ],
)
def test_what_cannot_have_happened_yet_is_known_to_be_zero(kind: str, query: Query, period: int) -> None:
    answer = released(EACH, PEOPLE, seed=3)[kind].fraction(query, period)
    assert (answer.value, answer.stderr, answer.low, answer.high) == (0, 0, 0, 0)


def test_counts_can_be_had_by_label() -> None:
    panels = released(BOTH, PEOPLE, seed=4)
    assert list(panels["w"].bins()) == ["000", "001", "010", "011", "100", "101", "110", "111"]
    assert list(panels["w"].bins(4).values()) == panels["w"].counts(4).tolist()
    assert panels["c"].bins(2) == dict(zip(["1", "2"], panels["c"].counts(2).tolist(), strict=True))
    each = released(EACH, PEOPLE, seed=4)
    assert each["spell"].bins(2) == dict(zip(["1", "2"], each["spell"].counts(2).tolist(), strict=True))
    assert each["pattern"].bins(1) == {"matched": 0}
    assert list(each["window-paper"].bins(1)) == list(panels["w"].bins())


def test_before_a_window_of_the_paper_is_full_counts_are_those_of_the_first_columns() -> None:
    panel = released(EACH, PEOPLE, seed=5)["window-paper"]
    assert panel.counts(1).tolist() == panel.counts(2).tolist() == panel.counts(3).tolist()


def test_before_a_window_by_flow_is_full_counts_are_those_of_the_histories_so_far() -> None:
    panel = released(BOTH, PEOPLE, seed=5)["w"]
    assert list(panel.bins(1)) == ["0", "1"]
    assert list(panel.bins(2)) == ["00", "01", "10", "11"]
    # What was released is not revised: the full windows that begin with a history are as many as had it.
    assert panel.counts(3).reshape(4, 2).sum(axis=1).tolist() == panel.counts(2).tolist()
    assert panel.counts(2).reshape(2, 2).sum(axis=1).tolist() == panel.counts(1).tolist()


@pytest.mark.parametrize("kind", ["cumulative-flow", "cumulative-paper", "spell", "pattern"])
def test_a_growing_panel_keeps_its_columns_and_forgets_measurements_it_never_had(kind: str) -> None:
    study = build_study(release_of(kind), horizon=5)
    made = stated_contracts(study, len(PEOPLE), insecure=True)
    steps = [steps["r"] for steps in replay_study(study, made, tallies_of(study, PEOPLE), SeededEntropy(6)).steps]
    full, bare = Panel(made["r"]), Panel(made["r"], measurements=None)
    assert (full.rows, full.period) == (0, 0)
    for period, step in enumerate(steps, start=1):
        full, bare = full.extended(step), bare.extended(step)
        assert full.period == period
        assert full.rows == 40
    assert all(column is step.columns[0] for column, step in zip(full.columns, steps, strict=True))
    assert full.measurements is not None
    streams = [1, 2, 3, 4, 5] if kind == "cumulative-paper" else [1, 1, 1, 1, 1]
    assert [len(measured) for measured in full.measurements] == streams
    assert bare.measurements is None


WINDOW, CUMULATIVE = released(BOTH, PEOPLE, seed=7, periods=4).values()
EMPTY = Panel(WINDOW.contract)
PAPER, SPELL, PATTERN = (
    released(build_study(release_of(kind), horizon=5), PEOPLE, seed=7)["r"]
    for kind in ("cumulative-paper", "spell", "pattern")
)
UP_TO_2 = released(build_study(CumulativeRelease("c", ("1",), weights="rule", most=2), horizon=5), PEOPLE, seed=7)["c"]


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
        (CUMULATIVE, AtLeast(6), 4, "atleast:6: b must lie between 1 and the horizon, 5"),
        (PAPER, AtLeast(6), 4, "atleast:6: b must lie between 1 and the horizon 5"),
        (PAPER, exactly("1"), 4, "last:1: release r is of kind cumulative, .* not when; ask a window release"),
        (UP_TO_2, AtLeast(3), 4, "atleast:3: b must lie between 1 and `most` of the release, 2"),
        (UP_TO_2, EventCount(2), 4, "events==2: release c does not tell 2 events from more"),
        (SPELL, InSpell(4), 4, "spell:4: the length must lie between 1 and that of the release, 3"),
        (SPELL, AtLeast(1), 4, "atleast:1: release r is of kind spell, which knows how long the current spell is"),
        (PATTERN, exactly("1"), 4, "last:1: release r is of kind pattern, which knows only whether a history has matched"),
        (PATTERN, InSpell(1), 4, "spell:1: release r is of kind pattern"),
        (WINDOW, Matched(), 4, "matched: release w is of kind window, .* 3 periods only; ask a pattern release"),
        (PAPER, EventCount(2), 4, 'events==2: release r has measure = "paper", which answers at_least only'),
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
        Panel(contract, tuple(np.array(column, dtype=np.uint8) for column in columns), None)


@pytest.mark.parametrize("panel", [WINDOW, CUMULATIVE, PAPER, SPELL, PATTERN], ids=lambda panel: panel.contract.kind)
def test_columns_without_their_measurements_say_so(panel: Panel) -> None:
    """An empty tuple would mean that nothing was measured, and there would be no estimate to centre on."""
    with pytest.raises(ValueError, match=f"{panel.period} columns but measurements of 0 periods; pass None if unknown"):
        Panel(panel.contract, panel.columns)
    query = panel.contract.parse_query(next(iter(panel.contract.suggested_queries()))).query
    assert Panel(panel.contract, panel.columns, None).fraction(query).value == panel.fraction(query).value
