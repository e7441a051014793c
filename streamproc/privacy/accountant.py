"""The privacy accountant: tracks what a release has spent, and refuses a period that would exceed its budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from streamproc.errors import BudgetExceeded
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.directed_rounding import float_down, float_up
from streamproc.privacy.types import Period, Rho


class Mechanism(Protocol):
    """The noise of a release, and what it costs."""

    @property
    def horizon(self) -> int: ...
    @property
    def adjacency(self) -> Adjacency: ...
    @property
    def prefix_costs_are_quick(self) -> bool:
        """Whether the costs after all periods take about as long to compute as the cost after the last."""
        ...

    def cost(self, period: Period, redrawn: Sequence[Period] = ()) -> Fraction:
        """The cost of all noise drawn in periods `1..period`, never too low.

        `redrawn` names the periods whose noise was drawn again because the first draw was lost after it may have been seen.
        A period counts as often as it is named.
        """
        ...


@dataclass(frozen=True)
class PrivacyAccountant:
    """A release's spending after `period` periods. It is immutable; `next` returns the accountant of the next period."""

    release: str
    rho: Rho
    mechanism: Mechanism
    period: Period = Period(0)
    redrawn: tuple[Period, ...] = ()
    """Periods that were drawn again after an accepted loss. Only these may bring the spending above `rho`."""

    @property
    def spent(self) -> Rho:
        """The cost so far, rounded up."""
        return Rho(float_up(self.mechanism.cost(self.period, self.redrawn)))

    def next(self) -> PrivacyAccountant:
        """The accountant one period later. Raises BudgetExceeded if that would exceed the budget."""
        after = replace(self, period=Period(self.period + 1))
        planned = replace(after, redrawn=()).spent
        if planned > self.rho:
            raise BudgetExceeded(self.release, after.period, planned, self.rho)
        return after


def split_budget(rho: float, shares: Sequence[Fraction]) -> list[Rho]:
    """Each release's budget, rounded down, so that by composition the sum is at most `rho`."""
    if any(share <= 0 for share in shares) or sum(shares) > 1:
        raise ValueError("shares must be positive and add up to at most 1")
    return [Rho(float_down(Fraction(rho) * share)) for share in shares]


def total_spent(costs: Sequence[float]) -> Rho:
    """The cost of several releases together, rounded up."""
    return Rho(float_up(sum((Fraction(cost) for cost in costs), Fraction(0))))
