"""What the noise of a study will have cost by when, and what it costs under the other adjacency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streamproc.planning.values import Spent
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.exact import float_up
from streamproc.privacy.odometer import Odometer, total_spent
from streamproc.privacy.quantities import Period, Rho
from streamproc.synth.contract import Contract
from streamproc.synth.replace_one import ReplaceOneCosts, every_prefix_is_quick

QUARTERS_UP_TO = 200
"""Horizon up to which a counter whose prefixes are not quick is asked for its cost after every quarter of the study; beyond,
only after the last period."""


def spending(contract: Contract, delta: float) -> tuple[Spent, ...]:
    """The release's running total after each period at which it is quick to compute, and after the last."""
    horizon = contract.mechanism.horizon
    return tuple(
        Spent(period, Odometer(contract.name, contract.rho, contract.mechanism, period).spent, delta)
        for period in map(Period, _periods(contract, horizon))
    )


def _periods(contract: Contract, horizon: int) -> Sequence[int]:
    if every_prefix_is_quick(contract.mechanism):
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


def replace_one_spending(name: str, costs: ReplaceOneCosts, spent: Sequence[Spent]) -> tuple[Spent, ...]:
    """What the same noise has cost under replace-one at the same periods, for a release of a zero-out study."""
    return tuple(replace(each, rho=costs.of_release(name, each.period)) for each in spent)


def zero_out_cost(contract: Contract, delta: float) -> Spent:
    """What the noise of a release of a replace-one study costs, after the last period, under zero-out."""
    last = Period(contract.mechanism.horizon)
    other = replace(contract.mechanism, adjacency=Adjacency.ZERO_OUT)
    return Spent(last, Rho(float_up(other.cost(last))), delta)
