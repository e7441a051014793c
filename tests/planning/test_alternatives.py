"""A plan compares the ways to measure a release at the same budget."""

from __future__ import annotations

import math

import pytest

from streamproc.planning import ReleasePlan, plan_study
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Period
from streamproc.releases.flow_planning import FlowAlternative
from streamproc.releases.window_planning import MeasureAlternative
from streamproc.study import CumulativeRelease
from tests.planning.formulas import N, at_least_variances, months, only, poverty_study, quarterly, tree_gains

WAYS = {
    ("flow", "rule"): months(),
    ("flow", "tuned: largest"): months(weights="tuned"),
    ("flow", "tuned: mean"): months(weights="tuned", tune="mean"),
    ("paper", "tree"): months(measure="paper"),
}
"""The ways to measure a cumulative release, and the settings with which a study chooses them."""


@pytest.mark.parametrize(("adjacency", "ratio"), [(Adjacency.REPLACE_ONE, 0.5375), (Adjacency.ZERO_OUT, 0.448)])
@pytest.mark.parametrize("chosen", ["flow", "paper"])
def test_measures_are_compared_at_the_same_budget(adjacency: Adjacency, ratio: float, chosen: str) -> None:
    release = only(plan_study(poverty_study(quarterly(measure=chosen), adjacency=adjacency), N))
    flow, paper = release.alternatives

    assert isinstance(flow, MeasureAlternative) and isinstance(paper, MeasureAlternative)
    assert (flow.measure, paper.measure) == ("flow", "paper")
    assert (flow.chosen, paper.chosen) == (chosen == "flow", chosen == "paper")
    assert flow.variance_ratio / paper.variance_ratio == pytest.approx(ratio, abs=0.0005)
    assert flow.n_pad < paper.n_pad
    for way in (flow, paper):
        other = only(plan_study(poverty_study(quarterly(measure=way.measure), adjacency=adjacency), N))
        assert way.bin_stderr_people == pytest.approx(other.noise_people)
        assert way.variance_ratio == pytest.approx((other.noise_people / release.noise_people) ** 2)
        assert way.n_pad == other.contract.n_pad
        assert way.rows == other.memory.rows


def _ways(release: ReleasePlan) -> dict[tuple[str, str], FlowAlternative]:
    return {(way.measure, way.weights): way for way in release.alternatives if isinstance(way, FlowAlternative)}


def test_every_way_to_measure_events_is_compared_at_the_same_budget() -> None:
    release = only(plan_study(poverty_study(months()), N, compare_tuned=True))
    ways = _ways(release)

    assert list(ways) == [*WAYS, ("any", "limit")]
    assert [name for name, way in ways.items() if way.chosen] == [("flow", "rule")]
    for name, settings in WAYS.items():
        other = only(plan_study(poverty_study(settings), N))
        assert ways[name].worst_stderr_people == pytest.approx(other.noise_people)
        assert ways[name].variance_ratio == pytest.approx((other.noise_people / release.noise_people) ** 2)
        assert ways[name].rms_stderr_people == pytest.approx(math.sqrt(_mean_variance(other)), rel=1e-9)


def _mean_variance(release: ReleasePlan) -> float:
    """The mean over "at least `b`" at `t` for all `b <= t <= 12`."""
    mechanism, gains = release.contract.mechanism, tree_gains(12)
    if release.contract.measure == "flow":
        variances = list(at_least_variances(mechanism.matrices, mechanism.sigma).values())
    else:
        variances = [mechanism.sigmas[b - 1] ** 2 * gains[t - b] for b in range(1, 13) for t in range(b, 13)]
    return sum(variances) / len(variances)


def test_tuned_weights_reach_what_they_are_tuned_for() -> None:
    ways = _ways(only(plan_study(poverty_study(months()), N, compare_tuned=True)))
    flows = [way for way in ways.values() if way.measure == "flow"]

    assert min(flows, key=lambda way: way.worst_stderr_people).weights == "tuned: largest"
    assert min(flows, key=lambda way: way.rms_stderr_people or math.inf).weights == "tuned: mean"
    assert ways["paper", "tree"].variance_ratio > 50


def test_weights_are_tuned_for_comparison_only_when_asked_but_the_chosen_ones_are_always_there() -> None:
    rule = _ways(only(plan_study(poverty_study(months()), N)))
    tuned = _ways(only(plan_study(poverty_study(months(weights="tuned", tune="mean")), N)))

    assert list(rule) == [("flow", "rule"), ("paper", "tree"), ("any", "limit")]
    assert list(tuned) == [("flow", "tuned: mean"), ("flow", "rule"), ("paper", "tree"), ("any", "limit")]
    assert [name for name, way in tuned.items() if way.chosen] == [("flow", "tuned: mean")]
    assert tuned["flow", "tuned: mean"].variance_ratio == 1


def test_no_way_passes_the_limit_of_all_gaussian_mechanisms() -> None:
    """The limit is known for replace-one only."""
    ways = _ways(only(plan_study(poverty_study(months()), N, compare_tuned=True)))
    limit = ways.pop(("any", "limit"))

    assert limit.worst_stderr_people == pytest.approx(math.sqrt(5.63 / 0.005))
    assert limit.rms_stderr_people is None
    assert all(way.worst_stderr_people > limit.worst_stderr_people for way in ways.values())
    zero_out = only(plan_study(poverty_study(months(), adjacency=Adjacency.ZERO_OUT), N))
    assert ("any", "limit") not in _ways(zero_out)


@pytest.mark.parametrize("most", [1, 3, 11, 12])
def test_the_limit_is_that_of_a_release_that_counts_every_event(most: int) -> None:
    """With fewer questions a mechanism can have less variance than the limit for all of them."""
    ways = _ways(only(plan_study(poverty_study(months(most=most)), N)))

    assert (("any", "limit") in ways) == (most == 12)


@pytest.mark.parametrize("settings", [months(), months(most=3), months(measure="paper")])
def test_the_paper_is_compared_over_the_questions_of_the_release(settings: CumulativeRelease) -> None:
    """A release that counts up to 3 events is compared with what the paper has for up to 3."""
    horizon = 70
    release = only(plan_study(poverty_study(settings, horizon=horizon), N))
    paper = only(plan_study(poverty_study(months(measure="paper"), horizon=horizon), N)).contract.mechanism
    most = len(release.contract.labels(Period(horizon)))
    gains = tree_gains(horizon)
    variances = [paper.sigmas[b - 1] ** 2 * gains[t - b] for t in range(1, horizon + 1) for b in range(1, min(t, most) + 1)]

    way = _ways(release)["paper", "tree"]

    assert way.worst_stderr_people == pytest.approx(math.sqrt(max(variances)))
    assert way.rms_stderr_people == pytest.approx(math.sqrt(sum(variances) / len(variances)))
    assert way.variance_ratio == pytest.approx(max(variances) / release.noise_people**2)


def test_the_paper_is_compared_over_a_long_horizon_only_when_asked() -> None:
    quiet = plan_study(poverty_study(months(most=3), horizon=201), N)
    asked = plan_study(poverty_study(months(most=3), horizon=201), N, compare_long=True)

    assert list(_ways(only(quiet))) == [("flow", "rule")]
    assert [note.code for note in quiet.notes] == ["paper_not_compared"]
    assert list(_ways(only(asked))) == [("flow", "rule"), ("paper", "tree")]
    assert asked.notes == ()


def test_a_long_release_that_is_measured_as_in_the_paper_misses_no_comparison_with_it() -> None:
    assert plan_study(poverty_study(months(measure="paper"), horizon=201), N).notes == ()
