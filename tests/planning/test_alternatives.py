"""A plan compares the measures and the counters at the same budget."""

from __future__ import annotations

import math

import pytest
from streamproc.releases.cumulative_planning import CounterAlternative

from streamproc.planning import plan_study
from streamproc.privacy.adjacency import Adjacency
from streamproc.releases.window_planning import MeasureAlternative
from tests.planning.formulas import N, months, only, poverty_study, quarterly, square_root_counter


@pytest.mark.parametrize(("adjacency", "ratio"), [(Adjacency.REPLACE_ONE, 0.61), (Adjacency.ZERO_OUT, 0.47)])
def test_measures_are_compared_at_the_same_budget(adjacency: Adjacency, ratio: float) -> None:
    release = only(plan_study(poverty_study(quarterly(measure="histogram"), adjacency=adjacency), N))
    contrast, histogram = release.alternatives

    assert isinstance(contrast, MeasureAlternative) and isinstance(histogram, MeasureAlternative)
    assert (contrast.measure, histogram.measure) == ("contrast", "histogram")
    assert (contrast.chosen, histogram.chosen) == (False, True)
    assert contrast.variance_ratio == pytest.approx(ratio, abs=0.005)
    assert histogram.variance_ratio == 1
    assert histogram.bin_stderr_people == pytest.approx(release.noise_people)
    assert contrast.n_pad < histogram.n_pad == release.contract.n_pad


def test_every_counter_and_allocation_is_compared_at_the_same_budget() -> None:
    release = only(plan_study(poverty_study(months()), N))
    ways = [way for way in release.alternatives if isinstance(way, CounterAlternative)]

    assert len(ways) == 6
    (chosen,) = [way for way in ways if way.chosen]
    assert (chosen.counter, chosen.allocation, chosen.rms_ratio) == ("sqrt", "equal-max", 1)
    _, answers = square_root_counter(12)
    gains = (answers**2).sum(axis=1)
    sigmas = release.contract.mechanism.sigmas
    variances = [sigmas[b - 1] ** 2 * gains[t - b] for b in range(1, 13) for t in range(b, 13)]
    assert chosen.rms_stderr_people == pytest.approx(math.sqrt(sum(variances) / len(variances)), rel=1e-9)
    for way in ways:
        other = only(plan_study(poverty_study(months(counter=way.counter, allocation=way.allocation)), N))
        assert way.worst_stderr_people == pytest.approx(other.noise_people)
        assert way.rms_ratio == pytest.approx(way.rms_stderr_people / chosen.rms_stderr_people)
    tree = next(way for way in ways if (way.counter, way.allocation) == ("tree", "equal-max"))
    assert tree.rms_ratio > 1.25


def test_counters_over_a_long_horizon_are_compared_only_when_asked() -> None:
    quiet = plan_study(poverty_study(months(), horizon=201), N)
    asked = plan_study(poverty_study(months(), horizon=201), N, compare_long=True)

    assert only(quiet).alternatives == ()
    assert [note.code for note in quiet.notes] == ["counters_not_compared"]
    assert len(only(asked).alternatives) == 6
    assert asked.notes == ()
