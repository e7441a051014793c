"""A synthesis as named arrays, for the state file; and rebuilt from what is in the topics, when the state file is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.counters import Counter
from streamproc.privacy.quantities import IntArray, Period
from streamproc.synth.contract import Contract, CumulativeContract, WindowContract
from streamproc.synth.cumulative import CumulativeState
from streamproc.synth.rows import narrowest
from streamproc.synth.step import Column
from streamproc.synth.synthesis import State, Synthesis
from streamproc.synth.window import WindowState

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]


def arrays_of(synthesis: Synthesis) -> Arrays:
    """Every state of the synthesis, each array under `<release>/<what>`."""
    arrays: Arrays = {}
    for name, state in synthesis.states.items():
        if isinstance(state, WindowState):
            arrays |= {f"{name}/windows": state.windows, f"{name}/counts": state.counts}
        else:
            arrays |= {
                f"{name}/weights": state.weights,
                f"{name}/sums": state.sums,
                f"{name}/tallies": state.tallies[: state.period],
                f"{name}/measured": np.concatenate(state.measured),
            }
    return arrays


def synthesis_of(contracts: Mapping[str, Contract], period: Period, arrays: Arrays, redrawn: Sequence[Period]) -> Synthesis:
    """The synthesis whose `arrays_of` these are."""
    states: dict[str, State] = {}
    for name, contract in contracts.items():
        if isinstance(contract, WindowContract):
            states[name] = WindowState(period, arrays[f"{name}/windows"], arrays[f"{name}/counts"])
        else:
            tallies = arrays[f"{name}/tallies"]
            measured = split_measured(contract.mechanism.counter, arrays[f"{name}/measured"], period)
            states[name] = _cumulative(contract, period, arrays[f"{name}/weights"], tallies, measured)
    return Synthesis.resumed(period, contracts, states, tuple(redrawn))


def rebuilt(
    contract: Contract,
    columns: Sequence[Column],
    tallies: Sequence[IntArray],
    measurements: Sequence[Sequence[IntArray]],
) -> State:
    """The state after the last of these periods, from what was published and the exact tallies."""
    period = Period(len(tallies))
    if isinstance(contract, WindowContract):
        return _window_from_columns(contract, columns, period)
    weights = np.zeros(contract.n, dtype=np.uint16)
    for column in columns:
        weights += column
    streams = [np.concatenate([each[b] for each in measurements[b:period]]) for b in range(period)]
    none = np.zeros(0, dtype=np.int64)
    measured = (*streams, *[none] * (contract.mechanism.horizon - period))
    stacked = np.stack(tallies) if tallies else np.zeros((0, contract.mechanism.horizon), dtype=np.int64)
    return _cumulative(contract, period, weights, stacked, measured)


def split_measured(counter: Counter, flat: IntArray, period: Period) -> tuple[IntArray, ...]:
    """The noisy rows of each stream, `b = 1..T`, from all of them one stream after the other."""
    lengths = [counter.rows_at(period - b + 1).stop if b <= period else 0 for b in range(1, counter.length + 1)]
    return tuple(np.split(flat, np.cumsum(lengths)[:-1]))


def _window_from_columns(contract: WindowContract, columns: Sequence[Column], period: Period) -> WindowState:
    mechanism = contract.mechanism
    if period < mechanism.k:
        return WindowState(period, *_nothing_yet(mechanism.bins))
    windows = np.zeros(len(columns[-1]), dtype=narrowest(mechanism.bins))
    for column in columns[-mechanism.k :]:
        windows *= windows.dtype.type(mechanism.q)
        windows += column
    return WindowState(period, windows, np.bincount(windows, minlength=mechanism.bins).astype(np.int64))


def _nothing_yet(bins: int) -> tuple[npt.NDArray[Any], IntArray]:
    return np.zeros(0, dtype=narrowest(bins)), np.zeros(bins, dtype=np.int64)


def _cumulative(
    contract: CumulativeContract,
    period: Period,
    weights: npt.NDArray[Any],
    tallies: IntArray,
    measured: tuple[IntArray, ...],
) -> CumulativeState:
    horizon = contract.mechanism.horizon
    exactly = np.bincount(weights, minlength=horizon + 1)
    sums = np.cumsum(exactly[::-1])[::-1].astype(np.int64)
    padded = np.zeros((horizon, horizon), dtype=np.int64)
    padded[:period] = tallies
    return CumulativeState(period, weights, sums, padded, measured)
