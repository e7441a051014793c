"""Releases of open studies: synthetic people enter and leave like the real ones, and the stated errors are those made."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from streamproc.errors import StudyError, UnsupportedQuery
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.noise import Entropy
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.contracts import contract_from_values, follows_from_study, stated_contracts
from streamproc.releases.flow import encode_integers
from streamproc.releases.open_flow import OpenContract
from streamproc.releases.open_presence import PresenceState
from streamproc.releases.open_state import OpenState
from streamproc.releases.query import (
    AtLeast,
    Entered,
    EventCount,
    InSpell,
    Left,
    Present,
    Query,
    SinceEntry,
    count_of,
    exactly,
)
from streamproc.releases.step import ReleasedPeriod, Step
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, Release, SpellRelease, Study, WindowRelease
from streamproc.testing.entropy import SilentEntropy
from streamproc.validation import format_value
from tests.releases.open_histories import Reports, open_study, random_reports
from tests.releases.statistical_checks import assert_covariance

KINDS: list[Release] = [
    WindowRelease("r", 1),
    WindowRelease("r", 2),
    WindowRelease("r", 3),
    SpellRelease("r", ("1",), length=2),
    CumulativeRelease("r", ("1",), most=2),
]
IDS = ["k1", "k2", "k3", "spell", "events"]
PERIODS = 8


def contract_of(study: Study) -> OpenContract:
    [contract] = stated_contracts(study, 0, insecure=True).values()
    assert isinstance(contract, OpenContract)
    return contract


def tallies_of(study: Study, reports: Reports) -> list[dict[str, IntArray]]:
    state, tallies = PresenceState.of(study, len(reports)), []
    for period in range(reports.shape[1]):
        state, tally = state.fold(reports[:, period])
        tallies.append(tally)
    return tallies


def released(study: Study, tallies: list[dict[str, IntArray]], entropy: Entropy) -> tuple[list[Step], list[OpenState]]:
    synthesis, steps, states = Synthesis.start(stated_contracts(study, 0, insecure=True)), [], []
    for tally in tallies:
        synthesis, step = synthesis.step(tally, entropy)
        state = synthesis.states["r"]
        assert isinstance(state, OpenState)
        steps.append(step["r"])
        states.append(state)
    return steps, states


@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_without_noise_the_panel_has_the_counts_of_the_people(release: Release) -> None:
    """Nobody's tenure is over in so few periods, so no synthetic person has to leave earlier than the real ones do."""
    study = open_study(release, tenure=20, absent_after=2)
    tallies = tallies_of(study, random_reports(200, PERIODS, seed=1))
    steps, _ = released(study, tallies, SilentEntropy(2))
    truth = contract_of(study).true_counts([tally["r"] for tally in tallies])
    assert [step.counts.tolist() for step in steps] == [counts.tolist() for counts in truth]
    assert all(step.clamped == 0 for step in steps)


@pytest.mark.parametrize("rho", [5.0, 0.002])
@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_rows_only_append_and_nobody_stays_longer_than_the_tenure(release: Release, rho: float) -> None:
    study = open_study(release, tenure=3, rho=rho)
    contract = contract_of(study)
    steps, states = released(study, tallies_of(study, random_reports(100, 12, seed=3)), SeededEntropy(4))
    present: dict[int, int] = {}
    rows, seen = 0, set[int]()
    for step, state in zip(steps, states, strict=True):
        [column] = step.columns
        before = sorted(present)
        assert len(column) >= len(before)
        for row, entry in zip(before, column.tolist(), strict=False):
            if entry == len(contract.alphabet):
                del present[row]
            else:
                present[row] += 1
        entrants = column[len(before) :]
        assert (entrants < len(contract.alphabet)).all()
        for row in range(rows, rows + len(entrants)):
            assert row not in seen
            seen.add(row)
            present[row] = 1
        rows += len(entrants)
        assert max(present.values(), default=0) <= 3
        assert state.numbers.tolist() == sorted(present)
        assert state.ages.tolist() == [present[row] for row in sorted(present)]
        assert state.rows == rows
        assert step.counts[-3] == len(present)


@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_a_reader_counts_the_columns_like_the_synthesizer(release: Release) -> None:
    study = open_study(release, tenure=3, rho=0.01)
    contract = contract_of(study)
    steps, states = released(study, tallies_of(study, random_reports(100, 12, seed=5)), SeededEntropy(6))
    counter, estimator = contract.new_counter(), contract.new_estimator()
    for step, state in zip(steps, states, strict=True):
        codes = counter.codes
        estimator.add(step.measurements)
        assert counter.add(step.columns[0]).tolist() == step.counts.tolist()
        assert counter.numbers.tolist() == state.numbers.tolist()
        released_period = ReleasedPeriod(
            step.period, step.columns[0], codes, step.counts, None, step.measurements, estimator
        )
        different, impossible, compared = contract.compare(released_period)
        assert (different, impossible) == (step.clamped, 0)
        assert compared == len(contract.transitions)


def test_a_column_that_does_not_follow_from_the_measurements_is_noticed() -> None:
    study = open_study(WindowRelease("r", 2), rho=0.5)
    contract = contract_of(study)
    [step], _ = released(study, tallies_of(study, random_reports(300, 1, seed=7, silent=0.0)), SeededEntropy(8))
    estimator = contract.new_estimator()
    estimator.add(step.measurements)
    forged = step.columns[0].copy()
    forged[:10] = 1 - forged[:10]
    forged[:3] = 0
    codes = contract.codes_before(len(forged))
    found = contract.compare(ReleasedPeriod(Period(1), forged, codes, step.counts, None, step.measurements, estimator))
    assert (contract.compare(replace_column(step, contract, estimator)).impossible, found.impossible > 0) == (0, True)


def replace_column(step: Step, contract: OpenContract, estimator: object) -> ReleasedPeriod:
    codes = contract.codes_before(len(step.columns[0]))
    return ReleasedPeriod(Period(1), step.columns[0], codes, step.counts, None, step.measurements, estimator)  # type: ignore[arg-type]


@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_estimates_err_as_the_recursion_says_within_and_across_periods(release: Release) -> None:
    """Chi-square of the errors of three periods together, over 300 runs; the seeds are fixed, false alarm 1e-6 each."""
    study = open_study(release, tenure=3)
    tallies = tallies_of(study, random_reports(60, PERIODS, seed=9))
    contract = contract_of(study)
    truth = contract.true_counts([tally["r"] for tally in tallies])
    periods = [Period(t) for t in (1, 4, PERIODS)]
    errors = []
    for seed in range(300):
        steps, _ = released(study, tallies, SeededEntropy(seed))
        errors.append(np.concatenate([estimates_of(steps[t - 1]) - truth[t - 1] for t in periods]))
    blocks = [[covariance_of(contract, late, early) for early in periods] for late in periods]
    assert_covariance(np.array(errors), np.block(blocks))


def estimates_of(step: Step) -> FloatArray:
    assert step.estimates is not None
    return step.estimates


def covariance_of(contract: OpenContract, one: Period, other: Period) -> FloatArray:
    late, early = max(one, other), min(one, other)
    unit = np.eye(len(contract.labels(late)))
    block = np.array([[contract.covariance(row, late, column, early) for column in unit] for row in unit])
    return block if one == late else block.T


@pytest.mark.parametrize("release", KINDS, ids=IDS)
@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE])
def test_a_contract_comes_back_from_its_values(release: Release, adjacency: Adjacency) -> None:
    study = replace(open_study(release), privacy=replace(open_study(release).privacy, adjacency=adjacency))
    contract = contract_of(study)
    again = contract_from_values(json.loads(json.dumps(contract.to_dict())), refuse)
    assert again.to_dict() == contract.to_dict()
    assert follows_from_study(again, study, insecure=True)
    assert "n" not in contract.to_dict()
    assert contract.mechanism.cost(Period(10**6)) <= contract.rho
    assert contract.mechanism.cost(Period(10**6)) > contract.rho * 0.999999


def refuse(field: str, got: object, expected: str) -> StudyError:
    return StudyError(field, format_value(got), expected)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"matrices": "AAAA"}, "matrices"),
        ({"sigma": 0.0}, "sigma"),
        ({"tenure": 0}, "tenure"),
        ({"tenure": 1001}, "tenure"),
        ({"k": 9}, "k"),
        ({"kind": "pattern"}, "kind"),
        ({"measure": "paper"}, "measure"),
        ({"adjacency": "zero-out"}, "adjacency"),
        ({"max_entrants": 0}, "max_entrants"),
        ({"horizon": 0}, "horizon"),
    ],
)
def test_a_contract_with_an_impossible_value_is_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(StudyError, match=complaint):
        contract_from_values(contract_of(open_study(KINDS[1])).to_dict() | change, refuse)


def test_a_matrix_that_does_not_determine_the_counts_is_refused() -> None:
    contract = contract_of(open_study(KINDS[1]))
    zeros = encode_integers([np.zeros_like(contract.mechanism.matrix)])
    with pytest.raises(StudyError, match="consistent"):
        contract_from_values(contract.to_dict() | {"matrices": zeros}, refuse)


def test_a_matrix_whose_errors_grow_is_refused() -> None:
    """Who enters, who leaves, and which symbol more people report: the error of the number present adds up."""
    contract = contract_of(open_study(KINDS[0]))
    growing = np.array([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 1, -1, 0]])
    with pytest.raises(StudyError, match="consistent"):
        contract_from_values(contract.to_dict() | {"matrices": encode_integers([growing])}, refuse)


def test_less_noise_or_a_longer_tenure_does_not_follow_from_the_study() -> None:
    study = open_study(KINDS[1])
    contract = contract_of(study)
    less = replace(contract, mechanism=replace(contract.mechanism, sigma=contract.mechanism.sigma * (1 - 1e-9)))
    longer = replace(contract, mechanism=replace(contract.mechanism, tenure=5))
    more = replace(contract, mechanism=replace(contract.mechanism, sigma=contract.mechanism.sigma * 2))
    assert not follows_from_study(less, study, insecure=True)
    assert not follows_from_study(longer, study, insecure=True)
    assert not follows_from_study(replace(contract, max_entrants=5), study, insecure=True)
    assert follows_from_study(more, study, insecure=True)


@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_a_state_is_rebuilt_from_what_was_published(release: Release) -> None:
    study = open_study(release, rho=0.05)
    contract, tallies = contract_of(study), tallies_of(study, random_reports(80, PERIODS, seed=11))
    steps, states = released(study, tallies, SeededEntropy(12))
    columns, measured = [step.columns[0] for step in steps], [step.measurements for step in steps]
    rebuilt = contract.rebuild_state(columns, [tally["r"] for tally in tallies], measured)
    again = contract.state_from_arrays(states[-1].period, contract.state_arrays(states[-1]))
    for state in (rebuilt, again):
        for name, array in contract.state_arrays(states[-1]).items():
            np.testing.assert_array_equal(contract.state_arrays(state)[name], array)


@pytest.mark.parametrize(
    ("release", "query", "labels", "among"),
    [
        (KINDS[2], exactly("1"), ["^1", "^01", "^11", "001", "011", "101", "111"], 1),
        (KINDS[2], count_of("1", at_least=1, of=2), ["^01", "^10", "^11", "001", "010", "011", "101", "110", "111"], 2),
        (KINDS[2], exactly("0", "1", "1"), ["011"], 3),
        (KINDS[2], SinceEntry(("0", "1")), ["^01"], 1),
        (KINDS[2], Present(), ["#present"], None),
        (KINDS[2], Entered(), ["#entered"], None),
        (KINDS[2], Left(), ["#left"], None),
        (KINDS[3], InSpell(2), ["2"], 1),
        (KINDS[4], AtLeast(1), ["1"], 1),
    ],
)
def test_a_query_asks_about_the_people_who_were_present_long_enough(
    release: Release, query: Query, labels: list[str], among: int | None
) -> None:
    contract = contract_of(open_study(release))
    names, weights = contract.labels(Period(5)), contract.query_weights(query, Period(5))
    assert [name for name, weight in zip(names, weights, strict=True) if weight] == labels
    if among is None:
        with pytest.raises(UnsupportedQuery, match="number of people"):
            contract.denominator_weights(query, Period(5))
        return
    denominator = contract.denominator_weights(query, Period(5))
    assert denominator is not None
    counted = [name for name, weight in zip(names, denominator, strict=True) if weight]
    longer = [name for name in names if not name.startswith("#") and len(name.removeprefix("^")) >= among]
    assert counted in (longer, ["#present"])


def test_an_exact_number_of_events_is_the_difference_of_two_counts() -> None:
    contract = contract_of(open_study(KINDS[4]))
    assert contract.query_weights(EventCount(1), Period(3)).tolist() == [1, -1, 0, 0, 0]
    with pytest.raises(UnsupportedQuery, match="does not tell 2 events from more"):
        contract.query_weights(EventCount(2), Period(3))


@pytest.mark.parametrize("release", KINDS, ids=IDS)
def test_every_count_has_a_query_that_weighs_it_alone(release: Release) -> None:
    contract = contract_of(open_study(release))
    for place, label in enumerate(contract.labels(Period(4))):
        query = contract.parse_query(contract.query_of(label)).query
        weights = contract.query_weights(query, Period(4))
        assert weights[place] == 1
        if release.kind != "window" or label.startswith(("#", "^")):
            assert np.count_nonzero(weights) == 1


def test_no_more_synthetic_people_enter_in_a_period_than_the_contract_says() -> None:
    study = open_study(WindowRelease("r", 1), tenure=50, size=20)
    steps, states = released(study, tallies_of(study, random_reports(100, 6, seed=1, silent=0.0)), SilentEntropy(1))
    first = random_reports(100, 6, seed=1, silent=0.0)
    assert (first[:, 0] < 2).sum() < 100
    assert max(int(step.counts[-2]) for step in steps) <= 40
    assert states[-1].rows == int((first < 2).any(axis=1).sum())
