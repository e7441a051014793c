"""Plans of open studies: what a person can cost, errors that do not grow, and no need for a number of people."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from streamproc.planning import StudyPlan, plan_study, plan_to_dict
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Period
from streamproc.releases.query import quantile
from streamproc.study import CumulativeRelease, Privacy, Question, SpellRelease, Study, WindowRelease
from tests.releases.open_histories import open_study

TENURE = 6
STUDY = open_study(
    WindowRelease("window", 2),
    SpellRelease("spell", ("1",), length=3),
    CumulativeRelease("count", ("1",), most=4),
    tenure=TENURE,
    rho=0.03,
)


def plan(n: int | None = None, study: Study = STUDY) -> StudyPlan:
    return plan_study(study, n)


def test_what_a_person_can_cost_grows_no_more_after_the_tenure() -> None:
    planned = plan()
    assert [spent.period for spent in planned.spending] == list(range(1, 2 * TENURE + 3))
    totals = [float(spent.rho) for spent in planned.spending]
    assert totals == sorted(totals)
    assert 0.9 * planned.budget < totals[TENURE - 1] < 0.99 * totals[TENURE]
    assert totals[TENURE] > 0.99 * totals[-1]
    assert planned.total.rho == pytest.approx(0.03, rel=1e-9)
    for release in planned.releases:
        cost = release.contract.mechanism.cost
        assert cost(Period(10_000)) == cost(release.spending[-1].period)


def test_both_adjacencies_are_stated() -> None:
    """Adding or removing a person costs half of replacing one, up to the rounding of the matrices."""
    planned = plan()
    assert (planned.adjacency, planned.other_adjacency) == (Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE)
    assert planned.other.rho == pytest.approx(planned.total.rho / 2, rel=1e-3)
    swapped = plan(study=replace(STUDY, privacy=Privacy(rho=0.03, adjacency=Adjacency.ADD_REMOVE)))
    assert swapped.other_adjacency is Adjacency.REPLACE_ONE
    assert swapped.other.rho == pytest.approx(2 * swapped.total.rho, rel=1e-3)
    assert planned.replace_one == swapped.replace_one == ()
    # The same budget allows half of the noise variance.
    one, other = (each.releases[0].queries[0].last.stderr_people for each in (planned, swapped))
    assert other == pytest.approx(one / math.sqrt(2), rel=1e-3)


def test_errors_are_those_of_the_contract_and_the_last_one_is_for_ever() -> None:
    for release in plan(900).releases:
        for query in release.queries:
            asked = release.contract.parse_query(query.name).query
            for error in query.errors:
                weights = release.contract.query_weights(asked, error.period)
                assert error.stderr_people == pytest.approx(release.contract.stderr(weights, error.period))
            weights = release.contract.query_weights(asked, Period(100_000))
            assert query.last.stderr_people == pytest.approx(release.contract.stderr(weights, Period(100_000)))
            assert len(query.errors) < 60


def test_points_are_those_of_a_share_among_the_people_present_and_numbers_have_none() -> None:
    planned = plan(900)
    for release in planned.releases:
        assert [query.name for query in release.queries][-3:] == ["present", "entered", "left"]
        for query in release.queries:
            points = query.last.half_points
            if query.name in ("present", "entered", "left"):
                assert points is None
                continue
            assert points is not None
            largest = max(query.last.stderr_people, query.last.complement_people)
            assert points == pytest.approx(100 * quantile(0.95) * largest / 900)
    [window, *_] = planned.releases
    # By symmetry the two shares "now 1" and "now 0" have the same error.
    assert window.queries[0].last.stderr_people == pytest.approx(window.queries[0].last.complement_people, rel=1e-4)


def test_the_error_of_no_share_is_above_the_stated_one() -> None:
    """To first order: `sd(x - p y)` for all shares `p`."""
    [window, *_] = plan(900).releases
    contract, last = window.contract, Period(100)
    asked = contract.parse_query(window.queries[2].name).query
    weights, among = contract.query_weights(asked, last), contract.denominator_weights(asked, last)
    assert among is not None
    points = window.queries[2].last.stderr_points
    assert points is not None
    assert all(100 * contract.stderr(weights - p * among, last) / 900 <= points * (1 + 1e-9) for p in (0, 0.3, 0.7, 1))


def test_without_a_number_of_people_everything_else_is_the_same() -> None:
    bare, sized = plan_to_dict(plan()), plan_to_dict(plan(900))
    assert bare["n"] is None
    assert bare["horizon"] is None
    assert bare["tenure"] == TENURE
    for name, release in bare["releases"].items():
        assert release["memory"] == {"rows": None, "row_bytes": 8, "column_bytes": None, "kept_bytes": None}
        known = {"rows": 900, "row_bytes": 8, "column_bytes": 225, "kept_bytes": 7200}
        assert sized["releases"][name]["memory"] == known
        for query, values in release["queries"].items():
            assert values["last"]["stderr_points"] is None
            assert values["last"]["stderr_people"] == sized["releases"][name]["queries"][query]["last"]["stderr_people"]
    json.dumps(bare, allow_nan=False)


def test_notes_say_what_is_protected_and_whose_shares_are_meant() -> None:
    assert [note.code for note in plan().notes] == ["participation_protected", "open_shares"]
    assert "errors are stated in people only" in plan().notes[1].message
    assert "a share among 900 people" in plan(900).notes[1].message
    assert plan().warnings == ()
    assert {warning.code for warning in plan(50).warnings} == {"wide_interval"}


def test_a_study_with_a_horizon_stops_at_it() -> None:
    study = open_study(WindowRelease("window", 2), tenure=TENURE, horizon=4)
    planned = plan(study=study)
    assert [spent.period for spent in planned.spending] == [1, 2, 3, 4]
    assert planned.releases[0].queries[0].last.period == 4
    assert planned.total.rho < planned.budget
    assert plan_to_dict(planned)["horizon"] == 4


def test_declared_questions_come_first() -> None:
    questions = (Question("window", 'count("1") >= 2 of 2'),)
    planned = plan(study=replace(STUDY, questions=questions))
    assert planned.releases[0].queries[0].name == 'count("1") >= 2 of 2'


def test_a_frame_has_a_row_for_each_question_and_period() -> None:
    frame = plan().to_frame()
    assert {"present", "entered", "left"} < set(frame["query"])
    assert frame["stderr_points"].isna().all()
    assert "horizon=None" in repr(plan())
