"""States to step from: releases of a given number of synthetic rows, over people who mostly keep their symbol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamproc.privacy.automaton import Automaton
from streamproc.privacy.types import IntArray, Period
from streamproc.releases.contracts import make_contracts
from streamproc.releases.flow import FlowContract
from streamproc.releases.kind import Contract
from streamproc.releases.window_flow import WindowFlowContract
from streamproc.storage.entropy import SystemEntropy
from streamproc.study import parse_study

HORIZON = 12
_RHO = 0.005
_STAY = 0.8
"""Share of people who report the same symbol again, and of those who have no event now."""


@dataclass(frozen=True)
class Case:
    """A step that can be taken again and again."""

    name: str
    rows: int
    """Synthetic individuals."""
    state: Any
    """Before the step."""
    step: Callable[[], tuple[Any, Any]]
    """Takes it, noise included, and answers with the new state and what came out."""


def shown(rows: int) -> str:
    """A round number, short."""
    return f"{rows // 10**6}M" if rows >= 10**6 else f"{rows // 10**3}k"


def study_text(alphabet: list[str], horizon: int, release: str) -> str:
    """A study file with one release, `r`."""
    return (
        f'[study]\nname = "bench"\nalphabet = {alphabet}\nhorizon = {horizon}\n'
        f'[privacy]\nrho = {_RHO}\n[[release]]\nname = "r"\n{release}\n'
    )


def letters(q: int) -> list[str]:
    """An alphabet of `q` symbols."""
    return [chr(ord("a") + symbol) for symbol in range(q)]


def every_kind(rows: int) -> tuple[Case, ...]:
    """Steps of every kind of release, those of windows also in the first period, when all rows are made."""
    return (
        first_window(rows, 2, 3),
        later_window(rows, 2, 3),
        later_window(rows, 4, 2),
        cumulative(rows),
        spell(rows),
        pattern(rows),
    )


def first_window(rows: int, q: int, k: int) -> Case:
    """The step of period 1, whose windows are of one symbol."""
    return _window_case(f"first step, q={q} k={k}", _window_contract(rows, q, k), periods=0)


def later_window(rows: int, q: int, k: int) -> Case:
    """A step that drops the oldest symbol of a full window."""
    return _window_case(f"later step, q={q} k={k}", _window_contract(rows, q, k), periods=k)


def window_of_people(people: int, q: int, k: int) -> Case:
    """The same, over this many real people, with as many synthetic rows as the padding makes of them."""
    contract = _contract(people, letters(q), k + 2, f'kind = "window"\nk = {k}')
    assert isinstance(contract, WindowFlowContract)
    return _window_case(f"later step, q={q} k={k}", contract, periods=k)


def cumulative(rows: int) -> Case:
    """A step in the middle of the study."""
    return _flow_case("cumulative step, T=12", rows, ["0", "1"], 'kind = "cumulative"')


def spell(rows: int) -> Case:
    """A step in the middle of the study."""
    return _flow_case("spell step, length=6", rows, ["0", "1"], 'kind = "spell"\nlength = 6')


def pattern(rows: int) -> Case:
    """A step in the middle of the study, with symbols that lead to the same state."""
    return _flow_case("pattern step, q=4", rows, letters(4), 'kind = "pattern"\npattern = "b[bc]{3}a"')


def _window_case(name: str, contract: WindowFlowContract, periods: int) -> Case:
    q, k = contract.mechanism.q, contract.mechanism.k
    counts, tallies = np.array([contract.n]), []
    for period in range(1, periods + 2):
        counts = _moved_on(counts if period <= k else counts.reshape(q, -1).sum(axis=0), q)
        tallies.append(np.pad(counts, (0, contract.mechanism.bins - len(counts))))
    return _case(name, contract, tallies)


def _moved_on(overlaps: IntArray, q: int) -> IntArray:
    """The next period's counts: of each overlap, most report its newest symbol again, the others each of the rest."""
    moved = np.repeat((overlaps * (1 - _STAY) / (q - 1)).astype(np.int64)[:, None], q, axis=1)
    places = np.arange(len(overlaps))
    moved[places, places % q] += overlaps - moved.sum(axis=1)
    return moved.ravel()


def _flow_case(name: str, rows: int, alphabet: list[str], release: str) -> Case:
    contract = _contract(rows, alphabet, HORIZON, release)
    assert isinstance(contract, FlowContract)
    states, tallies = np.eye(1, contract.automaton.states, dtype=np.int64)[0] * rows, []
    for _ in range(HORIZON // 2 + 1):
        states, tally = _one_more_symbol(contract.automaton, states)
        tallies.append(tally)
    return _case(name, contract, tallies)


def _one_more_symbol(automaton: Automaton, states: IntArray) -> tuple[IntArray, IntArray]:
    """The next period's people by state, and its tally: most have symbol class 0, the others each of the rest."""
    others = automaton.classes - 1
    cells = np.repeat((states * (1 - _STAY) / others).astype(np.int64)[:, None], automaton.classes, axis=1)
    cells[:, 0] = states - others * cells[:, 0]
    tally = np.zeros(cells.size, dtype=np.int64)
    np.add.at(tally, automaton.merged_cells, cells.ravel())
    after = np.zeros_like(states)
    np.add.at(after, automaton.next_states.ravel(), cells.ravel())
    return after, tally


def _case(name: str, contract: Contract, tallies: list[IntArray]) -> Case:
    """The step with the last of these tallies, from the state that the others lead to."""
    entropy, last = SystemEntropy(), Period(len(tallies))
    state = contract.initial_state()
    for period, tally in enumerate(tallies[:-1], start=1):
        state, _ = contract.step(state, tally, entropy.draw("r", Period(period)))

    def step() -> tuple[Any, Any]:
        return contract.step(state, tallies[-1], entropy.draw("r", last))

    return Case(name, contract.expected_rows, state, step)


def _window_contract(rows: int, q: int, k: int) -> WindowFlowContract:
    """A release of exactly `rows` synthetic people, padding included."""
    release = f'kind = "window"\nk = {k}'
    padding = _contract(1, letters(q), HORIZON, release)
    contract = _contract(rows - padding.expected_rows + 1, letters(q), HORIZON, release)
    assert isinstance(contract, WindowFlowContract)
    return contract


def _contract(n: int, alphabet: list[str], horizon: int, release: str) -> Contract:
    return make_contracts(parse_study(study_text(alphabet, horizon, release)), n, SystemEntropy())["r"]
