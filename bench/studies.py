"""States to step from: releases of a given number of synthetic rows, over people who mostly keep their symbol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from streamproc.releases.cumulative_synthesis import CumulativeState, step_cumulative

from streamproc.privacy.types import IntArray, Period
from streamproc.releases.contracts import make_contracts
from streamproc.releases.cumulative import CumulativeContract
from streamproc.releases.kind import Contract
from streamproc.releases.window import WindowContract
from streamproc.releases.window_synthesis import WindowState, step_window
from streamproc.storage.entropy import SystemEntropy
from streamproc.study import parse_study

HORIZON = 12
_RHO = 0.005
_STAY = 0.8
"""Share of people who report the same symbol again, and of those who have no one now."""


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


def first_window(rows: int, q: int, k: int) -> Case:
    """The step that makes `k` columns at once."""
    contract = _window_contract(rows, q, k)
    tally = _even(contract)
    state = WindowState(Period(k - 1), WindowState.initial(contract.mechanism).windows, np.zeros(q**k, dtype=np.int64))
    return _window_case(f"first step, q={q} k={k}", rows, contract, state, tally)


def later_window(rows: int, q: int, k: int) -> Case:
    """A step that adds a column."""
    first = first_window(rows, q, k)
    contract = _window_contract(rows, q, k)
    state, _ = first.step()
    return _window_case(f"later step, q={q} k={k}", rows, contract, state, _moved_on(_even(contract), q))


def cumulative(rows: int) -> Case:
    """A step in the middle of the study."""
    contract = _contract(rows, ["0", "1"], 'kind = "cumulative"')
    assert isinstance(contract, CumulativeContract)
    weights = np.zeros(HORIZON + 1, dtype=np.int64)
    weights[0] = rows
    state = CumulativeState.initial(contract)
    for _ in range(HORIZON // 2):
        tally = (weights[:-1] * (1 - _STAY)).astype(np.int64)
        weights[1:] += tally
        weights[:-1] -= tally
        state, _ = step_cumulative(contract, state, tally, SystemEntropy().draw("r", Period(1)))
    tally = (weights[:-1] * (1 - _STAY)).astype(np.int64)

    def step() -> tuple[Any, Any]:
        return step_cumulative(contract, state, tally, SystemEntropy().draw("r", Period(1)))

    return Case("cumulative step, T=12", rows, state, step)


def _window_case(name: str, rows: int, contract: WindowContract, state: WindowState, tally: IntArray) -> Case:
    def step() -> tuple[Any, Any]:
        return step_window(contract, state, tally, SystemEntropy().draw("r", Period(1)))

    return Case(name, rows, state, step)


def _window_contract(rows: int, q: int, k: int) -> WindowContract:
    """A release of exactly `rows` synthetic people, padding included."""
    alphabet = [chr(ord("a") + symbol) for symbol in range(q)]
    release = f'kind = "window"\nk = {k}'
    padding = _contract(1, alphabet, release)
    assert isinstance(padding, WindowContract)
    contract = _contract(rows - padding.mechanism.bins * padding.n_pad, alphabet, release)
    assert isinstance(contract, WindowContract)
    return contract


def _contract(n: int, alphabet: list[str], release: str) -> Contract:
    study = parse_study(
        f'[study]\nname = "bench"\nalphabet = {alphabet}\nhorizon = {HORIZON}\n'
        f'[privacy]\nrho = {_RHO}\n[[release]]\nname = "r"\n{release}\n'
    )
    return make_contracts(study, n, SystemEntropy())["r"]


def _even(contract: WindowContract) -> IntArray:
    """As many people in every bin, the odd ones in the first."""
    bins = contract.mechanism.bins
    tally = np.full(bins, contract.n // bins, dtype=np.int64)
    tally[0] += contract.n % bins
    return tally


def _moved_on(tally: IntArray, q: int) -> IntArray:
    """The next period's tally: of each overlap, most report its newest symbol again, the others each of the rest."""
    totals = tally.reshape(q, -1).sum(axis=0)
    overlaps = np.arange(len(totals))
    moved = np.repeat((totals * (1 - _STAY) / (q - 1)).astype(np.int64)[:, None], q, axis=1)
    moved[overlaps, overlaps % q] += totals - moved.sum(axis=1)
    return moved.ravel()
