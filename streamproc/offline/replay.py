"""Runs every release of a study, period by period, over complete histories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.errors import InvalidInput
from streamproc.panel import Panel
from streamproc.privacy.noise import Entropy
from streamproc.privacy.types import IntArray, Period, Rho
from streamproc.releases.kind import Contract
from streamproc.releases.open_presence import PRESENT, PresenceState
from streamproc.releases.step import Step
from streamproc.releases.synthesis import Synthesis
from streamproc.releases.tally_state import TallyState
from streamproc.study import Study

Tallies: TypeAlias = Sequence[Mapping[str, IntArray]]
"""For each period, the exact tally of each release."""


@dataclass(frozen=True, eq=False)
class ReplayResult:
    """A finished study."""

    study: Study
    synthesis: Synthesis
    panels: Mapping[str, Panel]
    steps: Sequence[Mapping[str, Step]]
    """For each period, the outcome of each release."""
    spent: Mapping[str, Sequence[Rho]]
    """For each release, the running total after each period."""


def tallies_of(study: Study, symbols: npt.NDArray[np.uint8]) -> list[dict[str, IntArray]]:
    """The exact tallies of every period; `symbols` has a row per person and a column per period.

    None is missing, except in an open study (`NO_REPORT`), whose periods are as many as there are columns.
    """
    if study.is_open:
        return _open_tallies_of(study, symbols)
    cohort = TallyState.of(study, len(symbols))
    tallies = []
    for period in range(study.last_period):
        cohort, tally = cohort.fold(symbols[:, period])
        tallies.append(tally)
    return tallies


def _open_tallies_of(study: Study, symbols: npt.NDArray[np.uint8]) -> list[dict[str, IntArray]]:
    if symbols.shape[1] > study.last_period:
        raise InvalidInput(f"the histories have {symbols.shape[1]} periods, but the study has {study.last_period}")
    presence, rows, tallies = PresenceState.of(study, len(symbols)), np.arange(len(symbols)), []
    for reported in symbols.T:
        presence, tally = presence.fold(reported[rows])
        tallies.append(tally)
        # Nobody comes back, so the rows of people who have left are done with.
        stays = presence.gone == PRESENT
        presence, rows = presence.retain(stays), rows[stays]
    return tallies


def replay_study(
    study: Study,
    contracts: Mapping[str, Contract],
    tallies: Tallies,
    entropy: Entropy,
    on_period: Callable[[Period, Synthesis, Mapping[str, Step]], None] = lambda period, synthesis, steps: None,
) -> ReplayResult:
    """Run the periods of the tallies, which are all that the study has. `on_period` is called after each of them."""
    synthesis = Synthesis.start(contracts)
    panels = {name: Panel(contract) for name, contract in contracts.items()}
    spent: dict[str, list[Rho]] = {name: [] for name in contracts}
    all_steps = []
    for tally in tallies:
        synthesis, steps = synthesis.step(tally, entropy)
        all_steps.append(steps)
        for name, step in steps.items():
            panels[name] = panels[name].extended(step)
            spent[name].append(synthesis.accountants[name].spent)
        on_period(synthesis.period, synthesis, steps)
    return ReplayResult(study, synthesis, panels, all_steps, spent)
