"""The privacy budget of a study, as its steward gives it."""

from __future__ import annotations

from dataclasses import dataclass

from streamproc.errors import StudyError
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.quantities import Rho
from streamproc.privacy.zcdp import rho_of_epsilon
from streamproc.study.checks import check_positive, shown

MAX_RHO = 1000
"""Of a whole study: a budget that protects nobody is a slip of the pen."""


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """The budget of the whole study, as given: exactly one of `rho` and `epsilon`."""

    rho: float | None = None
    """In zCDP."""
    epsilon: float | None = None
    """At `delta`."""
    delta: float = 1e-6
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    """Zero-out describes no input of the program: see `Adjacency.ZERO_OUT`."""

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

    @property
    def budget(self) -> Rho:
        """The whole study's budget in zCDP: `rho` as given, or the largest whose epsilon at `delta` is not above."""
        if self.rho is not None:
            return Rho(self.rho)
        assert self.epsilon is not None
        return rho_of_epsilon(self.epsilon, self.delta)


def _check_adjacency(value: object) -> None:
    if not isinstance(value, Adjacency):
        raise StudyError("privacy.adjacency", shown(value), ", ".join(map(str, Adjacency)))
