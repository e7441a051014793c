"""The replace-one cost of a zero-out study is the mechanism's own, not a multiple of the zero-out cost."""

from __future__ import annotations

from fractions import Fraction

import pytest

from streamproc.privacy.accountant import Mechanism
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.types import Period
from streamproc.privacy.window import WindowMechanism
from streamproc.releases.contracts import make_mechanism, release_budgets
from streamproc.releases.replace_one import ReplaceOneCosts, replace_one_costs
from tests.planning.formulas import months, poverty_study, quarterly

HALF = Fraction(1, 2)
ZERO_OUT = poverty_study(quarterly(share=HALF), months(share=HALF), horizon=8, adjacency=Adjacency.ZERO_OUT)


def costs() -> ReplaceOneCosts:
    found = replace_one_costs(ZERO_OUT)
    assert found is not None
    return found


def test_a_replace_one_study_needs_no_second_figure() -> None:
    assert replace_one_costs(poverty_study(quarterly())) is None


def noise(mechanism: Mechanism) -> float:
    if isinstance(mechanism, WindowMechanism):
        return mechanism.bin_variance
    assert isinstance(mechanism, CumulativeMechanism)
    return max(mechanism.largest_variances)


def test_every_prefix_costs_what_a_study_with_this_noise_costs_under_replace_one() -> None:
    """A replace-one study whose budget is that cost gets the same noise."""
    total = costs().of_study(8)
    for release in ZERO_OUT.releases:
        ours = make_mechanism(ZERO_OUT, release, release_budgets(ZERO_OUT)[release.name])
        theirs = make_mechanism(poverty_study(release, horizon=8), release, costs().of_release(release.name, 8))
        assert noise(theirs) == pytest.approx(noise(ours), rel=1e-12)
        for period in range(1, 9):
            found = costs().of_release(release.name, period)
            assert found == pytest.approx(float(theirs.cost(Period(period))), rel=1e-12)
            assert Fraction(found) >= ours.cost(Period(period))
    assert total == pytest.approx(sum(costs().of_release(release.name, 8) for release in ZERO_OUT.releases), rel=1e-15)


def test_a_period_drawn_once_more_costs_more_from_that_period_on() -> None:
    redrawn = [Period(5)]
    assert costs().of_study(4, redrawn) == costs().of_study(4)
    assert costs().of_study(5, redrawn) > costs().of_study(5)


def test_every_prefix_of_a_long_tree_counter_is_not_asked_for() -> None:
    long = poverty_study(months(counter="tree"), horizon=65, adjacency=Adjacency.ZERO_OUT)
    found = replace_one_costs(long)
    assert found is not None
    assert not found.every_period_is_quick
    assert costs().every_period_is_quick
