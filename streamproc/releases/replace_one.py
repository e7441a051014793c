"""What the noise of a zero-out study costs under replace-one.

Under zero-out a neighbour is a panel in which one person contributes to no count. For a window release no input of the
program is such a panel: `n` is fixed, and every member is in exactly one bin in every period. For a cumulative release it is
the panel in which that person has no event. Replacing one history by any other is what can happen to the data, so every
place that states a cost of a zero-out study states the cost of the same noise under replace-one beside it. The figure is the
mechanism's own cost under the other relation. It is not a multiple of the zero-out figure: the ratio depends on the
mechanism and on the period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamproc.privacy.accountant import Mechanism, total_spent
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.directed_rounding import float_up
from streamproc.privacy.types import Period, Rho
from streamproc.releases.contracts import make_mechanism, release_budgets
from streamproc.study import Study


class ReplaceOneCosts:
    """The costs of the releases of one zero-out study under replace-one, after any number of periods, rounded up."""

    def __init__(self, mechanisms: Mapping[str, Mechanism]) -> None:
        self._mechanisms = {name: under(mechanism, Adjacency.REPLACE_ONE) for name, mechanism in mechanisms.items()}

    def of_release(self, name: str, period: int, redrawn: Sequence[Period] = ()) -> Rho:
        """The cost of all noise that the release draws in periods `1..period`; `redrawn` periods count once more each."""
        return Rho(float_up(self._mechanisms[name].cost(Period(period), redrawn)))

    def of_study(self, period: int, redrawn: Sequence[Period] = ()) -> Rho:
        """The sum over all releases."""
        return total_spent([self.of_release(name, period, redrawn) for name in self._mechanisms])

    @property
    def every_period_is_quick(self) -> bool:
        """Whether the costs after all periods can be computed in about the time that the last one takes."""
        return all(mechanism.prefix_costs_are_quick for mechanism in self._mechanisms.values())


def replace_one_costs(study: Study) -> ReplaceOneCosts | None:
    """The replace-one costs to show beside a study's own; None unless the study's adjacency is zero-out."""
    if study.privacy.adjacency is not Adjacency.ZERO_OUT:
        return None
    budgets = release_budgets(study)
    mechanisms = {release.name: make_mechanism(study, release, budgets[release.name]) for release in study.releases}
    return ReplaceOneCosts(mechanisms)


def under(mechanism: Any, adjacency: Adjacency) -> Mechanism:
    """The same noise, with its cost under another adjacency. Mechanisms are dataclasses with a field `adjacency`."""
    same: Mechanism = replace(mechanism, adjacency=adjacency)
    return same
