"""All releases of a study together: one step per period; the budget is checked before any noise is drawn."""

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
    """A study after `period` periods: its contracts, the state of its releases and their spending."""

    period: Period
    contracts: Mapping[str, Contract]
    states: Mapping[str, ReleaseState]
    accountants: Mapping[str, PrivacyAccountant]

    @classmethod
    def start(cls, contracts: Mapping[str, Contract]) -> Synthesis:
        """The synthesis before period 1, when nothing is spent."""
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
        """The synthesis after `period` periods; those in `redrawn` were drawn again after an accepted loss."""
        accountants = {
            name: PrivacyAccountant(name, contract.rho, contract.mechanism, period, redrawn)
            for name, contract in contracts.items()
        }
        return cls(period, contracts, states, accountants)

    @property
    def redrawn(self) -> tuple[Period, ...]:
        """Periods that were drawn again after an accepted loss; the same for every release."""
        return next(iter(self.accountants.values())).redrawn

    @property
    def spent(self) -> Rho:
        """The spending of all releases together, in zCDP."""
        return total_spent([accountant.spent for accountant in self.accountants.values()])

    def rows(self, name: str) -> int | None:
        """Number of synthetic people of a release; None before its first column."""
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
        """Compute the next period of every release from its exact tally.

        Raises Refused, before anything is drawn, if `entropy.insecure` differs from the contracts, and BudgetExceeded if the
        step would exceed a budget.
        """
        self._check_source(entropy)
        period = Period(self.period + 1)
        accountants = {name: accountant.next() for name, accountant in self.accountants.items()}
        states: dict[str, ReleaseState] = {}
        steps: dict[str, Step] = {}
        for name, contract in self.contracts.items():
            states[name], steps[name] = contract.step(self.states[name], tally[name], entropy.draw(name, period))
        return Synthesis(period, self.contracts, states, accountants), steps
