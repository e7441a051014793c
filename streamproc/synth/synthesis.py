"""All releases of a study together: one step a period, budget checked before any noise is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from streamproc.privacy.entropy import Entropy
from streamproc.privacy.odometer import Odometer, total_spent
from streamproc.privacy.quantities import IntArray, Period, Rho
from streamproc.synth.contract import Contract, WindowContract
from streamproc.synth.cumulative import CumulativeState, step_cumulative
from streamproc.synth.step import Step
from streamproc.synth.window import WindowState, step_window

State: TypeAlias = WindowState | CumulativeState


@dataclass(frozen=True, eq=False)
class Synthesis:
    """A study after `period` periods: what it has promised, what it remembers, what it has spent."""

    period: Period
    contracts: Mapping[str, Contract]
    states: Mapping[str, State]
    odometers: Mapping[str, Odometer]

    @classmethod
    def start(cls, contracts: Mapping[str, Contract]) -> Synthesis:
        """Before period 1: nothing spent."""
        states: dict[str, State] = {}
        for name, contract in contracts.items():
            if isinstance(contract, WindowContract):
                states[name] = WindowState.initial(contract.mechanism)
            else:
                states[name] = CumulativeState.initial(contract)
        odometers = {name: Odometer(name, contract.rho, contract.mechanism) for name, contract in contracts.items()}
        return cls(Period(0), contracts, states, odometers)

    @property
    def spent(self) -> Rho:
        """What all releases together have spent."""
        return total_spent([odometer.spent for odometer in self.odometers.values()])

    def step(self, tally: Mapping[str, IntArray], entropy: Entropy) -> tuple[Synthesis, dict[str, Step]]:
        """The next period of every release, from its exact tally."""
        period = Period(self.period + 1)
        odometers = {name: odometer.next() for name, odometer in self.odometers.items()}
        states: dict[str, State] = {}
        steps: dict[str, Step] = {}
        for name, contract in self.contracts.items():
            draw, state = entropy.draw(name, period), self.states[name]
            if isinstance(contract, WindowContract):
                assert isinstance(state, WindowState)
                states[name], steps[name] = step_window(contract, state, tally[name], draw)
            else:
                assert isinstance(state, CumulativeState)
                states[name], steps[name] = step_cumulative(contract, state, tally[name], draw)
        return Synthesis(period, self.contracts, states, odometers), steps
