"""The privacy budget of a study, as its steward gives it."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamproc.errors import StudyError
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.quantities import Rho
from streamproc.privacy.zcdp import rho_of_epsilon
from streamproc.study.checks import check_positive, shown

MAX_RHO = 1000
"""Of a whole study: a budget that protects nobody is a slip of the pen."""

DELTA = 1e-6
"""At which epsilon is stated, unless the study says otherwise."""

_ROUNDING = 1e-9
"""Relative: far above what rounding epsilon and delta down can take from a budget."""


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """The budget of the whole study, as given: exactly one of `rho` and `epsilon`."""

    rho: float | None = None
    """In zCDP."""
    epsilon: float | None = None
    """At `delta`."""
    delta: float = DELTA
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    """Zero-out describes no input of the program: see `Adjacency.ZERO_OUT`."""
    limit: Rho | None = field(default=None, compare=False)
    """What releases may spend, in zCDP, where that is less than `budget`: a study file states decimals, and the float next
    to a decimal may lie above it. No more than rounding may lie between the two."""

    def __post_init__(self) -> None:
        if (self.rho is None) == (self.epsilon is None):
            got = "nothing" if self.rho is None else f"{shown(self.rho)} and privacy.epsilon {shown(self.epsilon)}"
            raise StudyError("privacy.rho", got, "exactly one of rho and epsilon")
        if self.rho is not None:
            check_positive("privacy.rho", self.rho, MAX_RHO)
        if self.epsilon is not None:
            check_positive("privacy.epsilon", self.epsilon, 1000)
        check_positive("privacy.delta", self.delta, 0.5, below=True)
        _check_adjacency(self.adjacency)
        if self.limit is not None and not self.budget * (1 - _ROUNDING) <= self.limit <= self.budget:
            raise StudyError("privacy.limit", shown(self.limit), f"the budget {shown(self.budget)}, rounded down")

    @property
    def spendable(self) -> Rho:
        """What all releases together may spend: never more than the steward wrote."""
        return self.budget if self.limit is None else self.limit

    @property
    def budget(self) -> Rho:
        """The whole study's budget in zCDP as it is stated: `rho`, or the largest whose epsilon at `delta` is not above."""
        if self.rho is not None:
            return Rho(self.rho)
        assert self.epsilon is not None
        return rho_of_epsilon(self.epsilon, self.delta)


def _check_adjacency(value: object) -> None:
    if not isinstance(value, Adjacency):
        raise StudyError("privacy.adjacency", shown(value), ", ".join(map(str, Adjacency)))
