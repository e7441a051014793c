"""The replace-one cost of a zero-out study is the mechanism's own, not a multiple of the zero-out cost."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from streamproc.privacy.accountant import Mechanism
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.flow import FlowMechanism
from streamproc.privacy.types import Period
from streamproc.privacy.window import WindowPaperMechanism
from streamproc.privacy.window_flow import WindowFlowMechanism
from streamproc.releases.contracts import make_mechanism, release_budgets
from streamproc.releases.replace_one import ReplaceOneCosts, replace_one_costs
from tests.planning.formulas import months, poverty_study, quarterly
from tests.releases.random_studies import KINDS, release_of

ZERO_OUT = poverty_study(*(release_of(kind, kind) for kind in KINDS), horizon=8, adjacency=Adjacency.ZERO_OUT)


def costs() -> ReplaceOneCosts:
    found = replace_one_costs(ZERO_OUT)
    assert found is not None
    return found


def test_a_replace_one_study_needs_no_second_figure() -> None:
    assert replace_one_costs(poverty_study(quarterly())) is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_prefix_costs_what_this_noise_costs_under_replace_one(kind: str) -> None:
    """A replace-one study whose budget is that cost gets the same noise, if the noise does not depend on the adjacency."""
    release = ZERO_OUT.release(kind)
    ours = make_mechanism(ZERO_OUT, release, release_budgets(ZERO_OUT)[kind])
    theirs = make_mechanism(poverty_study(release, horizon=8), release, costs().of_release(kind, 8))
    if isinstance(ours, WindowFlowMechanism):
        theirs = replace(ours, adjacency=Adjacency.REPLACE_ONE)
        assert theirs.bin_variances.tolist() == ours.bin_variances.tolist()
    elif isinstance(ours, FlowMechanism):
        assert isinstance(theirs, FlowMechanism)
        assert theirs.sigma == pytest.approx(ours.sigma, rel=1e-12)
    else:
        assert noise(theirs) == pytest.approx(noise(ours), rel=1e-12)
    for period in range(1, 9):
        found = costs().of_release(kind, period)
        assert found == pytest.approx(float(theirs.cost(Period(period))), rel=1e-12)
        assert Fraction(found) >= ours.cost(Period(period))


def noise(mechanism: Mechanism) -> list[float]:
    if isinstance(mechanism, WindowPaperMechanism):
        return [mechanism.sigma]
    assert isinstance(mechanism, CumulativeMechanism)
    return list(mechanism.sigmas)


def test_the_cost_of_a_study_is_that_of_its_releases() -> None:
    parts = [costs().of_release(release.name, 8) for release in ZERO_OUT.releases]
    assert costs().of_study(8) == pytest.approx(sum(parts), rel=1e-15)


def test_a_period_drawn_once_more_costs_more_from_that_period_on() -> None:
    redrawn = [Period(5)]
    assert costs().of_study(4, redrawn) == costs().of_study(4)
    assert costs().of_study(5, redrawn) > costs().of_study(5)


def test_every_prefix_of_a_long_tree_counter_is_not_asked_for() -> None:
    long = poverty_study(months(measure="paper", weights=None), horizon=65, adjacency=Adjacency.ZERO_OUT)
    found = replace_one_costs(long)
    assert found is not None
    assert not found.every_period_is_quick
    flow = replace_one_costs(poverty_study(months(), horizon=65, adjacency=Adjacency.ZERO_OUT))
    assert flow is not None
    assert flow.every_period_is_quick
    assert costs().every_period_is_quick
