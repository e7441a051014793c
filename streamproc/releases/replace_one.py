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

from streamproc.privacy.accountant import total_spent
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.directed_rounding import float_up
from streamproc.privacy.types import Period, Rho
from streamproc.privacy.window import WindowMechanism
from streamproc.releases.contract import mechanism_of, release_budgets
from streamproc.study import Study

EVERY_PREFIX_UP_TO = 64
"""Horizon up to which a counter that is not Toeplitz, which needs a run of `O(t^3)` for the cost after each period `t`, is
asked for the cost after every period."""


class ReplaceOneCosts:
    """The costs of the releases of one zero-out study under replace-one, after any number of periods, rounded up."""

    def __init__(self, mechanisms: Mapping[str, WindowMechanism | CumulativeMechanism]) -> None:
        self._mechanisms = {name: replace(m, adjacency=Adjacency.REPLACE_ONE) for name, m in mechanisms.items()}

    def of_release(self, name: str, period: int, redrawn: Sequence[Period] = ()) -> Rho:
        """The cost of all noise that the release draws in periods `1..period`; `redrawn` periods count once more each."""
        return Rho(float_up(self._mechanisms[name].cost(Period(period), redrawn)))

    def of_study(self, period: int, redrawn: Sequence[Period] = ()) -> Rho:
        """The sum over all releases."""
        return total_spent([self.of_release(name, period, redrawn) for name in self._mechanisms])

    @property
    def every_period_is_quick(self) -> bool:
        """Whether the costs after all periods can be computed in about the time that the last one takes."""
        return all(map(every_prefix_is_quick, self._mechanisms.values()))


def replace_one_costs(study: Study) -> ReplaceOneCosts | None:
    """The replace-one costs to show beside a study's own; None unless the study's adjacency is zero-out."""
    if study.privacy.adjacency is not Adjacency.ZERO_OUT:
        return None
    budgets = release_budgets(study)
    return ReplaceOneCosts({release.name: mechanism_of(study, release, budgets[release.name]) for release in study.releases})


def every_prefix_is_quick(mechanism: WindowMechanism | CumulativeMechanism) -> bool:
    """Whether the costs after every period take about as long as the cost after the last."""
    slow = isinstance(mechanism, CumulativeMechanism) and not mechanism.counter.is_toeplitz
    return not slow or mechanism.horizon <= EVERY_PREFIX_UP_TO
