"""What the noise of a study will have cost by when, and what it costs under the other adjacency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streamproc.planning.values import Spent
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.exact import float_up
from streamproc.privacy.odometer import Odometer, total_spent
from streamproc.privacy.quantities import Period, Rho
from streamproc.synth.contract import Contract

EVERY_PREFIX_UP_TO = 64
QUARTERS_UP_TO = 200
"""Horizons up to which a counter that is not Toeplitz, which needs a run of `O(t^3)` for each period `t`, is asked for its
cost after every period, or after every quarter of the study; beyond, only after the last."""


def spending(contract: Contract, delta: float) -> tuple[Spent, ...]:
    """The release's running total after each period at which it is quick to compute, and after the last."""
    horizon = contract.mechanism.horizon
    return tuple(
        Spent(period, Odometer(contract.name, contract.rho, contract.mechanism, period).spent, delta)
        for period in map(Period, _periods(contract, horizon))
    )


def _periods(contract: Contract, horizon: int) -> Sequence[int]:
    mechanism = contract.mechanism
    slow = isinstance(mechanism, CumulativeMechanism) and not mechanism.counter.is_toeplitz
    if not slow or horizon <= EVERY_PREFIX_UP_TO:
        return range(1, horizon + 1)
    if horizon <= QUARTERS_UP_TO:
        return quarters(horizon)
    return [horizon]


def quarters(horizon: int) -> list[int]:
    """The first period and the last of each quarter of the study."""
    return sorted({1, *(-(-horizon * quarter // 4) for quarter in (1, 2, 3, 4))})


def total_spending(releases: Sequence[Sequence[Spent]], delta: float) -> tuple[Spent, ...]:
    """By composition: the sum over releases, at the periods all of them know."""
    by_period = [{spent.period: spent.rho for spent in release} for release in releases]
    known = sorted(set.intersection(*(set(release) for release in by_period)))
    return tuple(Spent(period, total_spent([release[period] for release in by_period]), delta) for period in known)


def other_adjacency(contract: Contract, delta: float) -> Spent:
    """What the release's noise costs, after the last period, under the adjacency the study did not choose."""
    mechanism = contract.mechanism
    zero_out = mechanism.adjacency is Adjacency.ZERO_OUT
    other = replace(mechanism, adjacency=Adjacency.REPLACE_ONE if zero_out else Adjacency.ZERO_OUT)
    last = Period(mechanism.horizon)
    return Spent(last, Rho(float_up(other.cost(last))), delta)
