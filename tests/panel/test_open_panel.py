"""Panels of open studies: their columns, what they answer without noise, which intervals they give, what they refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import UnsupportedQuery
from streamproc.offline import replay_study, tallies_of
from streamproc.panel import Panel
from streamproc.panel.series import HistoryBuilder, series
from streamproc.privacy.types import FloatArray, Period
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.open_flow import OpenContract
from streamproc.releases.open_retention import retention_covariance
from streamproc.releases.query import Query, at_least, entered, exactly, left, matched, present, quantile, since_entry
from streamproc.releases.step import Column, Step
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import WindowRelease
from streamproc.testing import SilentEntropy
from tests.panel.open_panels import QUESTIONS, RELEASES, Truth, open_panel, replayed
from tests.releases.open_histories import open_study, random_reports
from tests.studies import build_study

FLOWS: list[Query] = [present(), entered(), left()]


@given(st.sampled_from(list(RELEASES)), st.integers(0, 2**32), st.sampled_from([None, 1, 3]), st.integers(3, 6))
def test_without_noise_every_interval_is_centred_on_the_truth(
    kind: str, seed: int, absent_after: int | None, tenure: int
) -> None:
    """The released counts may differ from it, because synthetic people whose tenure is over have to leave."""
    study, reports = open_study(RELEASES[kind], tenure=tenure, absent_after=absent_after), random_reports(30, 8, seed)
    panel, truth = replayed(study, reports, SilentEntropy(seed)).panels["r"], Truth(study, reports)
    for period in range(1, 9):
        exact = [(query, number) for query, number in zip(FLOWS, truth.flows(period), strict=True)]
        exact += [(query, truth.people(query, period)[0]) for query in QUESTIONS[kind]]
        for query, number in exact:
            answer = panel.people(query, period)
            half = quantile(0.95) * answer.stderr
            expected = [min(number - half, answer.value), max(number + half, answer.value)]
            assert [answer.low, answer.high] == pytest.approx(expected)


@pytest.mark.parametrize("kind", RELEASES)
def test_without_noise_shares_and_retention_are_those_of_the_people(kind: str) -> None:
    """The people who are absent for 2 periods leave before the tenure of 40 is over, so nobody has to leave."""
    study, reports = open_study(RELEASES[kind], tenure=40, rho=200.0), random_reports(1_500, 12, seed=3)
    panel, truth = replayed(study, reports, SilentEntropy(3)).panels["r"], Truth(study, reports)
    for period in (5, 9, 12):
        for query in QUESTIONS[kind]:
            people, among = truth.people(query, period)
            answer = panel.fraction(query, period)
            assert answer.value == pytest.approx(people / among)
            assert answer.low < answer.value < answer.high
        here, since = truth.retention(period, 40)
        assert panel.retention(period).value == pytest.approx(here / since)


@pytest.mark.parametrize("kind", RELEASES)
def test_an_interval_is_that_of_the_estimates_and_holds_the_value(kind: str) -> None:
    study = open_study(RELEASES[kind])
    done = replayed(study, random_reports(200, 10, 4), SeededEntropy(4))
    panel, contract = done.panels["r"], done.panels["r"].contract
    for period in range(1, 11):
        estimates = done.steps[period - 1]["r"].estimates
        assert estimates is not None
        for query in (*QUESTIONS[kind], *FLOWS):
            weights = contract.query_weights(query, Period(period))
            answer, error = panel.people(query, period), contract.stderr(weights, Period(period))
            centre, half = float(weights @ estimates), quantile(0.95) * error
            value = float(weights @ panel.counts(period))
            assert (answer.unit, answer.value) == ("people", value)
            assert answer.stderr == pytest.approx(error)
            assert [answer.low, answer.high] == pytest.approx([min(centre - half, value), max(centre + half, value)])


def test_people_of_a_closed_study_are_its_shares_times_n() -> None:
    filled = np.random.default_rng(1).integers(0, 2, (90, 4)).astype(np.uint8)
    made = stated_contracts(CLOSED, 90, insecure=True)
    panel = replay_study(CLOSED, made, tallies_of(CLOSED, filled), SeededEntropy(1)).panels["w"]
    share, people = panel.fraction(exactly("1"), 3), panel.people(exactly("1"), 3)
    assert [people.value, people.stderr, people.low, people.high] == pytest.approx(
        [90 * share.value, 90 * share.stderr, 90 * share.low, 90 * share.high]
    )
    assert (share.unit, people.unit, people.clamped) == ("share", "people", share.clamped)
    assert str(replace(people, value=1234.4, low=1000.0, high=1500.6)) == "1,234 (1,000 to 1,501)"


@pytest.mark.parametrize("kind", RELEASES)
def test_a_series_has_the_answers_of_the_panel(kind: str) -> None:
    panel = open_panel(kind, rho=3.0)
    assert panel.measurements is not None
    builder = HistoryBuilder(panel.contract)
    for column, measured in zip(panel.columns, panel.measurements, strict=True):
        builder.add(column, measured)
    history = builder.history()
    assert history.rows == panel.rows
    for name in panel.contract.suggested_queries():
        asked = panel.contract.parse_query(name)
        found = series(history, asked)
        assert found.unit == ("people" if asked.query.asks_number else "share")
        answered = panel.people if asked.query.asks_number else panel.fraction
        for period in range(1, panel.period + 1):
            try:
                answer = answered(asked.query, period)
            except UnsupportedQuery:
                assert period not in found.periods
                continue
            place = list(found.periods).index(period)
            expected = [answer.value, answer.stderr, answer.low, answer.high]
            series_values = [found.value[place], found.stderr[place], found.low[place], found.high[place]]
            assert series_values == pytest.approx(expected)


@pytest.mark.parametrize("kind", RELEASES)
def test_retention_has_the_covariance_of_all_its_periods(kind: str) -> None:
    contract = open_panel(kind).contract
    assert isinstance(contract, OpenContract)
    here, came = (contract.query_weights(query, Period(1)) for query in (present(), entered()))
    for period in (1, 3, 4, 9, 40):
        periods = range(max(period - 4, 0) + 1, period + 1)
        both = sum(covariance(contract, here, period, came, place) for place in periods)
        variance = sum(covariance(contract, came, one, came, other) for one in periods for other in periods)
        expected = [covariance(contract, here, period, here, period), both, variance]
        assert retention_covariance(contract, Period(period)) == pytest.approx(expected)


def covariance(contract: OpenContract, weights: FloatArray, period: int, other: FloatArray, at: int) -> float:
    if at > period:
        return covariance(contract, other, at, weights, period)
    return contract.covariance(weights, Period(period), other, Period(at))


@pytest.mark.parametrize("kind", RELEASES)
def test_a_change_of_a_number_has_the_covariance_of_both_periods(kind: str) -> None:
    panel = open_panel(kind)
    contract = panel.contract
    weights = contract.query_weights(present(), Period(1))
    found = panel.change(present(), 3, 5)
    variance = sum(contract.stderr(weights, Period(period)) ** 2 for period in (3, 5))
    variance -= 2 * contract.covariance(weights, Period(5), weights, Period(3))
    assert (found.unit, found.value) == ("people", panel.people(present(), 5).value - panel.people(present(), 3).value)
    assert found.stderr == pytest.approx(variance**0.5)
    assert found.low <= found.value <= found.high


def test_a_change_of_a_share_is_the_difference_of_two() -> None:
    panel = open_panel("k2", rho=20.0)
    found, before, after = panel.change(exactly("1"), 4, 9), panel.fraction(exactly("1"), 4), panel.fraction(exactly("1"), 9)
    assert found.unit == "share"
    assert found.value == pytest.approx(after.value - before.value)
    # Five periods apart, the two hardly share noise.
    assert found.stderr == pytest.approx((before.stderr**2 + after.stderr**2) ** 0.5, rel=0.05)


PANEL = open_panel("k2")
EMPTY = Panel(PANEL.contract)
CLOSED = build_study(WindowRelease("w", 2), horizon=4, rho=0.1)


@pytest.mark.parametrize(
    ("query", "period", "reason"),
    [
        (present(), 3, "present: this is a number of people, not a share; ask Panel.people"),
        (at_least(1), 3, "atleast:1: release r is of kind window"),
        (matched(), 3, "matched: release r is of kind window"),
        (exactly("1", "0"), 1, "last:10: in period 1 the share is among an estimated .* people with a standard error of"),
        (exactly("1"), 13, r"period 13 was asked for, but periods 1\.\.12 are released"),
        (since_entry("1", "0"), 4, "since entry:1, 0: release r"),
    ],
)
def test_what_an_open_release_cannot_tell_is_refused_with_the_reason(query: Query, period: int, reason: str) -> None:
    with pytest.raises(UnsupportedQuery, match=reason) as caught:
        PANEL.fraction(query, period)
    assert "\n" not in str(caught.value)


def test_a_share_of_people_whom_noise_could_have_made_is_refused_and_their_number_is_not() -> None:
    study = open_study(RELEASES["k1"], rho=0.01)
    panel = replayed(study, random_reports(30, 6, 1), SeededEntropy(1)).panels["r"]
    with pytest.raises(UnsupportedQuery, match="which noise alone could make; ask Panel.people, or about a larger group"):
        panel.fraction(exactly("1"), 3)
    with pytest.raises(UnsupportedQuery, match="retention: in period 3 the share is among an estimated"):
        panel.retention(3)
    with pytest.raises(UnsupportedQuery, match="which noise alone could make"):
        panel.change(exactly("1"), 2, 3)
    assert panel.people(exactly("1"), 3).stderr > 20


def test_retention_is_only_that_of_the_whole_tenure() -> None:
    panel = open_panel("k1", rho=20.0)
    assert panel.retention(8, within=4) == panel.retention(8)
    assert panel.retention().period == 12
    with pytest.raises(UnsupportedQuery, match="entered within 3 periods it is not measured .* last 4 periods, the tenure"):
        panel.retention(8, within=3)
    with pytest.raises(UnsupportedQuery, match="retention: within must be a whole number"):
        panel.retention(8, within=4.0)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedQuery, match="retention: a confidence level"):
        panel.retention(8, level=2.0)


def test_retention_of_a_study_in_which_nobody_enters_is_refused() -> None:
    with pytest.raises(UnsupportedQuery, match="of a study in which nobody enters or leaves"):
        Panel(stated_contracts(CLOSED, 5, insecure=True)["w"]).retention()


def test_a_growing_panel_counts_each_column_once_and_stays_as_it_was() -> None:
    study = open_study(RELEASES["k2"])
    steps = [step["r"] for step in replayed(study, random_reports(200, 12, 1), SeededEntropy(1)).steps]
    panel, panels = Panel(PANEL.contract), []
    for step in steps:
        panel = panel.extended(step)
        panels.append(panel)
    rows = np.cumsum([len(step.columns[0]) - before for step, before in zip(steps, present_before(steps), strict=True)])
    assert [each.rows for each in panels] == rows.tolist()
    for period, (each, step) in enumerate(zip(panels, steps, strict=True), start=1):
        assert each.counts().tolist() == step.counts.tolist()
        assert panel.counts(period).tolist() == step.counts.tolist()
        assert each.followed is not None
        assert panel.followed is not None
        assert each.followed.counts[0] is panel.followed.counts[0]
    assert EMPTY.rows == 0
    shorter = replace(panel, columns=panel.columns[:3], measurements=None)
    assert (shorter.rows, shorter.period) == (rows[2], 3)


def present_before(steps: list[Step]) -> list[int]:
    return [0, *(int(step.counts[-3]) for step in steps[:-1])]


def test_counts_can_be_had_by_label() -> None:
    bins = PANEL.bins(5)
    assert list(bins) == ["^0", "^1", "00", "01", "10", "11", "#present", "#entered", "#left"]
    assert bins["#present"] == sum(bins[label] for label in ("^0", "^1", "00", "01", "10", "11"))
    assert bins["#entered"] == bins["^0"] + bins["^1"]


def column(*entries: int) -> Column:
    return np.array(entries, dtype=np.uint8)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ([column(0, 1), column(0)], "a column of 1 entries, but 2 synthetic people are present before it"),
        ([column(0, 3)], "a symbol outside the alphabet of 2"),
        ([column(0, 2)], "leaves in the period in which they enter"),
        ([column(0, 1), column(0, 2, 2)], "leaves in the period in which they enter"),
        ([column(0), column(1), column(0), column(1), column(0)], "present for more than 4 periods"),
        ([column(0, 1), column(2, 0), column(0, 1), column(0)], "a column of 1 entries, but 2 synthetic people"),
        ([np.zeros((2, 2), dtype=np.uint8)], "a column of 2 entries"),
    ],
)
def test_columns_that_do_not_follow_each_other_are_refused(columns: list[Column], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Panel(PANEL.contract, tuple(columns), None)


def test_columns_need_the_measurements_of_all_periods_or_none() -> None:
    with pytest.raises(ValueError, match="12 columns but measurements of 0 periods; pass None if unknown"):
        Panel(PANEL.contract, PANEL.columns)


def test_without_measurements_values_are_the_same_and_intervals_centred_on_them() -> None:
    panel = open_panel("k3", rho=20.0)
    bare = replace(panel, measurements=None)
    for query in QUESTIONS["k3"]:
        known, found = panel.fraction(query), bare.fraction(query)
        assert (found.value, found.clamped) == (known.value, None)
        assert found.low < found.value < found.high
        people = bare.people(query)
        assert (people.low + people.high) / 2 == pytest.approx(people.value)
    assert bare.retention().value == panel.retention().value
    assert bare.change(exactly("1"), 3, 7).value == panel.change(exactly("1"), 3, 7).value
