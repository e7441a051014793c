"""All releases of a study together: one step a period, budget checked before any noise is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamproc.errors import Refused
from streamproc.privacy.accountant import PrivacyAccountant, total_spent
from streamproc.privacy.noise import Entropy
from streamproc.privacy.types import IntArray, Period, Rho
from streamproc.releases.kind import Contract, ReleaseState
from streamproc.releases.step import Step


@dataclass(frozen=True, eq=False)
class Synthesis:
    """A study after `period` periods: what it has promised, what it remembers, what it has spent."""

    period: Period
    contracts: Mapping[str, Contract]
    states: Mapping[str, ReleaseState]
    accountants: Mapping[str, PrivacyAccountant]

    @classmethod
    def start(cls, contracts: Mapping[str, Contract]) -> Synthesis:
        """Before period 1: nothing spent."""
        states = {name: contract.initial_state() for name, contract in contracts.items()}
        return cls.resumed(Period(0), contracts, states, ())

    @classmethod
    def resumed(
        cls,
        period: Period,
        contracts: Mapping[str, Contract],
        states: Mapping[str, ReleaseState],
        redrawn: tuple[Period, ...],
    ) -> Synthesis:
        """After `period` periods, some of which may have been drawn twice."""
        accountants = {
            name: PrivacyAccountant(name, contract.rho, contract.mechanism, period, redrawn)
            for name, contract in contracts.items()
        }
        return cls(period, contracts, states, accountants)

    @property
    def redrawn(self) -> tuple[Period, ...]:
        """Periods drawn once more after an accepted loss; the same for every release."""
        return next(iter(self.accountants.values())).redrawn

    @property
    def spent(self) -> Rho:
        """What all releases together have spent."""
        return total_spent([accountant.spent for accountant in self.accountants.values()])

    def rows(self, name: str) -> int | None:
        """Synthetic people of a release; None until its first column."""
        return self.contracts[name].rows(self.states[name])

    def _check_source(self, entropy: Entropy) -> None:
        for name, contract in self.contracts.items():
            if contract.insecure != entropy.insecure:
                marked = "insecure" if contract.insecure else "secure"
                raise Refused(
                    f"release {name}: its contract says that its noise is {marked}, the source of noise says the opposite; "
                    "make the contracts with the source that draws"
                )

    def step(self, tally: Mapping[str, IntArray], entropy: Entropy) -> tuple[Synthesis, dict[str, Step]]:
        """The next period of every release, from its exact tally.

        Refuses, before anything is drawn, a source of noise that the contracts do not state, and a step above the budget.
        """
        self._check_source(entropy)
        period = Period(self.period + 1)
        accountants = {name: accountant.next() for name, accountant in self.accountants.items()}
        states: dict[str, ReleaseState] = {}
        steps: dict[str, Step] = {}
        for name, contract in self.contracts.items():
            states[name], steps[name] = contract.step(self.states[name], tally[name], entropy.draw(name, period))
        return Synthesis(period, self.contracts, states, accountants), steps
