"""Releases on an automaton: synthetic people follow the real ones, and the stated errors are the errors that are made."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamproc.errors import StudyError, UnsupportedQuery
from streamproc.offline import replay_study, tallies_of
from streamproc.offline.replay import ReplayResult
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.contracts import contract_from_values, follows_from_study, stated_contracts
from streamproc.releases.cumulative import CumulativeContract
from streamproc.releases.flow import FlowContract, encode_integers
from streamproc.releases.query import ask, at_least, exactly, in_spell, matched
from streamproc.releases.step import ReleasedPeriod
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, PatternRelease, Question, Release, SpellRelease, Study, WindowRelease
from streamproc.study.releases import FlowSettings, Weights
from streamproc.testing.entropy import SilentEntropy
from streamproc.validation import format_value
from tests.releases.random_studies import Filled, sticky_panel
from tests.releases.statistical_checks import assert_covariance
from tests.studies import build_study

KINDS: list[Release] = [
    CumulativeRelease("r", ("1",), measure="flow", weights="rule"),
    CumulativeRelease("r", ("1",), measure="flow", most=2, weights="rule"),
    CumulativeRelease("r", ("1",), measure="flow"),
    SpellRelease("r", ("1",), length=3, weights="rule"),
    PatternRelease("r", pattern="1{3}", weights="rule"),
    PatternRelease("r", pattern="10?1"),
]
IDS = ["cumulative", "most", "tuned", "spell", "pattern", "tuned-pattern"]
HORIZON = 6


def study_of(release: Release, rho: float = 0.1, horizon: int = HORIZON) -> Study:
    return build_study(release, horizon=horizon, rho=rho)


def contract_of(study: Study, n: int) -> FlowContract:
    [contract] = stated_contracts(study, n, insecure=True).values()
    assert isinstance(contract, FlowContract)
    return contract


def by_hand(release: Release, filled: Filled, period: int) -> list[int]:
    """The counts of a period, from the histories alone."""
    histories = ["".join(map(str, row[:period])) for row in filled.tolist()]
    if isinstance(release, PatternRelease):
        found = ["111" in each if release.pattern == "1{3}" else "11" in each or "101" in each for each in histories]
        return [sum(found)]
    if isinstance(release, SpellRelease):
        values, most = [len(each) - len(each.rstrip("1")) for each in histories], min(period, release.length)
    else:
        assert isinstance(release, CumulativeRelease)
        values, most = [each.count("1") for each in histories], min(period, release.counted_up_to(HORIZON))
    return [sum(value >= j for value in values) for j in range(1, most + 1)]


def replayed(study: Study, filled: Filled, contract: FlowContract, seed: int) -> ReplayResult:
    return replay_study(study, {"r": contract}, tallies_of(study, filled), SeededEntropy(seed))


@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_without_noise_the_panel_has_the_counts_of_the_people(release: Release) -> None:
    study, filled = study_of(release), sticky_panel(300, HORIZON, seed=1)
    contract, tallies = contract_of(study, 300), tallies_of(study, filled)
    steps = replay_study(study, {"r": contract}, tallies, SilentEntropy(2)).steps
    for period in range(1, HORIZON + 1):
        expected = by_hand(release, filled, period)
        assert steps[period - 1]["r"].counts.tolist() == expected
        assert contract.true_counts([tally["r"] for tally in tallies])[period - 1].tolist() == expected
        assert len(contract.labels(Period(period))) == len(expected)


@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_a_panel_keeps_its_people_and_released_columns(release: Release) -> None:
    study, filled = study_of(release, rho=0.002), sticky_panel(200, HORIZON, seed=3)
    contract = contract_of(study, 200)
    result = replayed(study, filled, contract, seed=4)
    panel = result.panels["r"]
    assert [len(column) for column in panel.columns] == [200] * HORIZON
    for period in range(1, HORIZON + 1):
        step = result.steps[period - 1]["r"]
        assert panel.counts(period).tolist() == step.counts.tolist()
        assert ((step.counts >= 0) & (step.counts <= 200)).all()


@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_estimates_err_as_the_recursion_says_within_and_across_periods(release: Release) -> None:
    """Chi-square of the errors of three periods together, over 300 runs; the seeds are fixed, false alarm 1e-6 each."""
    study, filled = study_of(release), sticky_panel(60, HORIZON, seed=5)
    contract = contract_of(study, 60)
    periods = [Period(t) for t in (3, 4, HORIZON)]
    errors = []
    for seed in range(300):
        steps = replayed(study, filled, contract, seed).steps
        errors.append(np.concatenate([_error(steps[t - 1]["r"].estimates, release, filled, t) for t in periods]))
    blocks = [[_covariance(contract, late, early) for early in periods] for late in periods]
    assert_covariance(np.array(errors), np.block(blocks))


def _error(estimates: FloatArray | None, release: Release, filled: Filled, period: int) -> FloatArray:
    assert estimates is not None
    error: FloatArray = estimates - np.array(by_hand(release, filled, period), dtype=float)
    return error


def _covariance(contract: FlowContract, one: Period, other: Period) -> FloatArray:
    late, early = max(one, other), min(one, other)
    rows, columns = np.eye(len(contract.labels(late))), np.eye(len(contract.labels(early)))
    block = np.array([[contract.covariance(row, late, column, early) for column in columns] for row in rows])
    return block if one == late else block.T


@pytest.mark.parametrize("rho", [0.5, 0.005])
@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_intervals_hold_the_truth_as_often_as_they_say(release: Release, rho: float) -> None:
    """With little noise and with so much that most counts are clamped.

    Intervals of one run depend on each other, so runs are counted: the mean coverage of 120 runs is more than 5 of its own
    standard errors below 95% with probability below 1e-6. An interval is extended to hold the panel's value, so it may hold
    the truth more often.
    """
    study, filled = study_of(release, rho=rho), sticky_panel(150, HORIZON, seed=7)
    contract = contract_of(study, 150)
    shares = []
    for seed in range(120):
        panel = replayed(study, filled, contract, seed).panels["r"]
        names = list(contract.suggested_queries())
        asked = [(contract.parse_query(name).query, t) for name in names for t in (2, 4, HORIZON)]
        asked = [(query, t) for query, t in asked if contract.first_period(query) <= t]
        held = []
        for query, t in asked:
            answer = panel.fraction(query, period=t)
            weights = contract.query_weights(query, Period(t))
            truth = float(weights @ np.array(by_hand(release, filled, t))) / 150
            held.append(answer.low - 1e-9 <= truth <= answer.high + 1e-9)
        shares.append(np.mean(held))
    spread = max(float(np.std(shares)), 0.01) / np.sqrt(len(shares))
    assert float(np.mean(shares)) >= 0.95 - 5 * spread


def test_a_change_between_two_periods_has_the_error_that_its_covariance_says() -> None:
    """Coverage of 300 differences, each of another run: below 0.90 with probability below 1e-4; the seeds are fixed."""
    release = SpellRelease("r", ("1",), length=3, weights="rule")
    study, filled = study_of(release), sticky_panel(400, HORIZON, seed=8)
    contract = contract_of(study, 400)
    early, late = Period(3), Period(5)
    first, last = contract.query_weights(in_spell(2), early), contract.query_weights(in_spell(2), late)
    variance = (
        contract.covariance(last, late, last, late)
        + contract.covariance(first, early, first, early)
        - 2 * contract.covariance(last, late, first, early)
    )
    truth = by_hand(release, filled, late)[1] - by_hand(release, filled, early)[1]
    held = 0
    for seed in range(300):
        steps = replayed(study, filled, contract, seed).steps
        found = _estimates(steps[late - 1]["r"])[1] - _estimates(steps[early - 1]["r"])[1]
        held += abs(found - truth) <= 1.96 * variance**0.5
    assert 0.90 <= held / 300 <= 0.99


def _estimates(step: Any) -> FloatArray:
    estimates: FloatArray = step.estimates
    return estimates


@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_a_contract_comes_back_from_its_values(release: Release) -> None:
    study = study_of(release)
    contract = contract_of(study, 50)
    again = contract_from_values(json.loads(json.dumps(contract.to_dict())), refuse)
    assert again.to_dict() == contract.to_dict()
    assert follows_from_study(again, study, insecure=True)
    assert again.mechanism.cost(Period(HORIZON)) == contract.mechanism.cost(Period(HORIZON)) <= contract.rho


def refuse(field: str, got: object, expected: str) -> StudyError:
    return StudyError(field, format_value(got), expected)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"matrices": "AAAA"}, "matrices"),
        ({"matrices": None}, "matrices"),
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": float("nan")}, "sigma"),
        ({"most": 0}, "most"),
        ({"most": 65}, "most"),
        ({"event": []}, "event"),
        ({"horizon": 1001}, "horizon"),
    ],
)
def test_a_contract_with_an_impossible_value_is_refused(change: dict[str, object], complaint: str) -> None:
    values = contract_of(study_of(KINDS[0]), 50).to_dict() | change
    with pytest.raises(StudyError, match=complaint):
        contract_from_values(values, refuse)


def test_matrices_that_do_not_determine_the_counts_are_refused() -> None:
    contract = contract_of(study_of(KINDS[3]), 50)
    zeros = encode_integers([np.zeros_like(matrix) for matrix in contract.mechanism.matrices])
    with pytest.raises(StudyError, match="consistent"):
        contract_from_values(contract.to_dict() | {"matrices": zeros}, refuse)


def test_less_noise_than_the_budget_allows_does_not_follow_from_the_study() -> None:
    study = study_of(KINDS[0])
    contract = contract_of(study, 50)
    less = replace(contract, mechanism=replace(contract.mechanism, sigma=contract.mechanism.sigma * (1 - 1e-9)))
    more = replace(contract, mechanism=replace(contract.mechanism, sigma=contract.mechanism.sigma * 2))
    assert not follows_from_study(less, study, insecure=True)
    assert follows_from_study(more, study, insecure=True)
    assert isinstance(contract, CumulativeContract)
    assert not follows_from_study(replace(contract, event=("0",)), study, insecure=True)
    assert not follows_from_study(contract, study, insecure=False)


@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_a_state_is_rebuilt_from_what_was_published(release: Release) -> None:
    study, filled = study_of(release, rho=0.01), sticky_panel(80, HORIZON, seed=9)
    contract, tallies = contract_of(study, 80), tallies_of(study, filled)
    result = replayed(study, filled, contract, seed=10)
    panel = result.panels["r"]
    assert panel.measurements is not None
    rebuilt = contract.rebuild_state(panel.columns, [tally["r"] for tally in tallies], panel.measurements)
    kept = result.synthesis.states["r"]
    again = contract.state_from_arrays(kept.period, contract.state_arrays(kept))
    for state in (rebuilt, again):
        arrays = contract.state_arrays(state)
        for name, array in contract.state_arrays(kept).items():
            assert np.allclose(arrays[name], array, rtol=1e-12)


@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_a_reader_accepts_honest_columns_and_notices_another_one(release: Release) -> None:
    study, filled = study_of(release, rho=0.02), sticky_panel(100, HORIZON, seed=11)
    contract = contract_of(study, 100)
    result = replayed(study, filled, contract, seed=12)
    panel = result.panels["r"]
    assert panel.measurements is not None
    counter, estimator, noticed = contract.new_counter(), contract.new_estimator(), 0
    for period, column in enumerate(panel.columns, start=1):
        before = counter.codes if len(counter.codes) else np.zeros(100, dtype=counter.codes.dtype)
        estimator.add(panel.measurements[period - 1])
        seen = ReleasedPeriod(
            Period(period), column, before, counter.add(column), None, panel.measurements[period - 1], estimator
        )
        different, impossible, _ = contract.compare(seen)
        assert (different, impossible) == (result.steps[period - 1]["r"].clamped, 0)
        noticed += any(contract.compare(replace(seen, column=np.full_like(column, same))).impossible for same in (0, 1))
    assert noticed == HORIZON


@pytest.mark.parametrize(
    "tally", [np.zeros(3, dtype=np.int64), np.full(14, 1, dtype=np.int64), np.eye(1, 14, 5, dtype=np.int64)[0] * 4]
)
def test_a_tally_that_n_people_cannot_have_made_is_refused(tally: IntArray) -> None:
    contract = contract_of(study_of(KINDS[0]), 4)
    with pytest.raises(ValueError, match="needs 14 counts of transitions"):
        contract.step(contract.initial_state(), tally, SeededEntropy(1).draw("r", Period(1)))


@pytest.mark.parametrize(
    ("release", "query", "complaint"),
    [
        (KINDS[0], exactly("1"), "counts how many events people have had, not when"),
        (KINDS[1], at_least(3), "`most` of the release, 2"),
        (KINDS[1], ask("events == 2"), "does not tell 2 events from more"),
        (KINDS[3], at_least(1), "how long the current spell is"),
        (KINDS[3], in_spell(4), "between 1 and that of the release, 3"),
        (KINDS[4], in_spell(1), "only whether a history has matched"),
    ],
)
def test_what_a_release_cannot_answer_is_refused_with_the_reason(release: Release, query: Any, complaint: str) -> None:
    contract = contract_of(study_of(release), 10)
    with pytest.raises(UnsupportedQuery, match=complaint):
        contract.query_weights(query, Period(3))


def test_exactly_so_many_events_is_a_difference_of_two_counts() -> None:
    contract = contract_of(study_of(KINDS[0]), 10)
    assert contract.query_weights(ask("events == 2"), Period(4)).tolist() == [0, 1, -1, 0]
    assert contract.query_weights(ask(f"events == {HORIZON}"), Period(HORIZON)).tolist() == [0, 0, 0, 0, 0, 1]


def test_a_pattern_can_first_match_in_the_period_that_its_length_says() -> None:
    contract = contract_of(study_of(KINDS[4]), 10)
    assert contract.first_period(matched()) == 3
    assert contract.count_stderrs(Period(2)).tolist() == [0.0]


def test_symbols_that_make_one_transition_are_drawn_evenly() -> None:
    """Whoever has matched goes on with any of three symbols: chi-square with 2 degrees of freedom, the seed is fixed."""
    study = build_study(PatternRelease("r", pattern="a", weights="rule"), alphabet="abc", horizon=2, rho=100.0)
    contract = contract_of(study, 3000)
    filled = np.zeros((3000, 2), dtype=np.uint8)
    column = replayed(study, filled, contract, seed=13).panels["r"].columns[1]
    observed = np.bincount(column, minlength=3)
    assert float(((observed - 1000) ** 2 / 1000).sum()) < 27.6  # a false alarm of 1e-6


def test_more_published_integers_than_allowed_are_refused_with_what_to_lower() -> None:
    study = build_study(PatternRelease("r", pattern="1.{7}1", weights="rule"), horizon=1000)
    with pytest.raises(StudyError, match=r"release\.r\.pattern: .* published integers, .*fewer periods"):
        stated_contracts(study, 10, insecure=True)


def test_declared_questions_get_more_precision_than_without_them() -> None:
    release = CumulativeRelease("r", ("1",), measure="flow", weights="tuned")
    plain = contract_of(study_of(release), 10)
    asked = contract_of(replace(study_of(release), questions=(question("events >= 2"),)), 10)
    weights = [plain.query_weights(at_least(2), Period(t)) for t in range(2, HORIZON + 1)]
    worst = [max(each.stderr(w, Period(t)) for t, w in enumerate(weights, start=2)) for each in (plain, asked)]
    assert worst[1] < 0.97 * worst[0]


def question(text: str) -> Question:
    return Question("r", text)


@pytest.mark.parametrize("weights", ["tuned", "rule"])
@pytest.mark.parametrize(
    ("release", "text", "reason"),
    [
        (CumulativeRelease("r", ("1",), most=3), "spell >= 2", "not when; ask a spell release"),
        (CumulativeRelease("r", ("1",), most=3), "events >= 4", "b must lie between 1 and `most` of the release, 3"),
        (CumulativeRelease("r", ("1",), most=3), "events == 3", "does not tell 3 events from more"),
        (SpellRelease("r", ("1",), length=2), "spell >= 3", "that of the release, 2"),
        (SpellRelease("r", ("1",), length=2), "matched", "ask in_spell, or a pattern release"),
        (PatternRelease("r", pattern="11"), "events >= 1", "ask matched, or a cumulative release"),
    ],
)
def test_a_question_that_the_release_cannot_answer_is_refused(
    release: FlowSettings, text: str, reason: str, weights: Weights
) -> None:
    """With weights that no question changes as well."""
    study = replace(study_of(replace(release, weights=weights)), questions=(question(text),))
    with pytest.raises(StudyError) as refused:
        stated_contracts(study, 10, insecure=True)
    assert str(refused.value).startswith(
        f"question[1].ask: got '{text}', allowed: a question that the release can answer, but"
    )
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("release", "text", "reason"),
    [
        (CumulativeRelease("r", ("1",), measure="paper"), "events == 2", "answers at_least only"),
        (CumulativeRelease("r", ("1",), measure="paper"), "matched", "ask a pattern release"),
        (WindowRelease("r", 2, "paper"), "spell >= 2", "ask a spell release"),
        (WindowRelease("r", 2), 'now in ("0", "1")', "the same for everybody"),
        (WindowRelease("r", 2), 'count("1") >= 0 of 2', "the same for everybody"),
    ],
)
def test_questions_to_other_releases_are_checked_too(release: Release, text: str, reason: str) -> None:
    study = replace(study_of(release), questions=(question(text),))
    with pytest.raises(StudyError, match=reason):
        stated_contracts(study, 10, insecure=True)


def test_people_who_cannot_have_matched_yet_are_kept_near_a_match() -> None:
    """Of the 30 people who should have matched, 10 cannot: they are one symbol short of it, not spread over all states."""
    contract = contract_of(build_study(PatternRelease("r", pattern="1{3}", weights="rule"), horizon=HORIZON), 100)
    transitions = contract.transitions(Period(5))
    people = np.array([60, 20, 10, 10])
    wanted = np.array([40.0, 10, 15, 5, 0, 20, 10])  # from each state without an event and with one; from "matched" at once
    assert transitions.entering(wanted).tolist() == [55, 10, 5, 30]
    entered = transitions.entering(contract.project(transitions, people, wanted, Period(5)))
    np.testing.assert_allclose(entered, [55, 10, 15, 20], atol=0.3)


@pytest.mark.parametrize("pattern", [".1", "..11"])
def test_a_state_that_is_left_for_good_does_not_shift_the_others(pattern: str) -> None:
    """Nobody is in the start state again, so the place of a state among those that are reachable is not its number."""
    release = PatternRelease("r", pattern=pattern, weights="rule")
    study, filled = study_of(release), sticky_panel(300, HORIZON, seed=15)
    contract, tallies = contract_of(study, 300), tallies_of(study, filled)
    steps = replay_study(study, {"r": contract}, tallies, SilentEntropy(16)).steps
    for period in range(1, HORIZON + 1):
        histories = ["".join(map(str, row[:period])) for row in filled.tolist()]
        assert steps[period - 1]["r"].counts.tolist() == [sum(bool(re.search(pattern, each)) for each in histories)]
