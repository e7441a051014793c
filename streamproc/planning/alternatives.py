"""The same release, measured or counted in each way on offer, at the same budget and under the same adjacency."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np

from streamproc.planning.plan import Alternative, CounterAlternative, MeasureAlternative
from streamproc.privacy.counters import CounterName
from streamproc.privacy.cumulative import Allocation, CumulativeMechanism
from streamproc.privacy.window import Measure, WindowMechanism
from streamproc.releases.contract import Contract, CumulativeContract, WindowContract, padding
from streamproc.study import CumulativeRelease, Release, WindowRelease

COMPARED_UP_TO = 200
"""Horizon up to which counters are compared without being asked: each takes `O(T^3)`, seconds at T = 1000."""


def alternatives(release: Release, contract: Contract, *, long_too: bool) -> tuple[Alternative, ...]:
    """Every way, the chosen one among them; empty for counters over a long horizon unless `long_too`."""
    if isinstance(release, WindowRelease):
        assert isinstance(contract, WindowContract)
        return tuple(_measured(release, contract, measure) for measure in get_args(Measure))
    assert isinstance(contract, CumulativeContract)
    if contract.mechanism.horizon > COMPARED_UP_TO and not long_too:
        return ()
    ways = [(counter, allocation) for counter in get_args(CounterName) for allocation in get_args(Allocation)]
    return tuple(_counted(release, contract, counter, allocation) for counter, allocation in ways)


def _measured(release: WindowRelease, contract: WindowContract, measure: Measure) -> MeasureAlternative:
    ours = contract.mechanism
    mechanism = WindowMechanism.calibrated(
        q=ours.q, k=ours.k, horizon=ours.horizon, measure=measure, adjacency=ours.adjacency, rho=contract.rho
    )
    padded = replace(contract, mechanism=mechanism, n_pad=padding(mechanism, release.beta))
    return MeasureAlternative(
        measure=measure,
        chosen=measure == release.measure,
        bin_stderr_people=mechanism.bin_variance**0.5,
        n_pad=padded.n_pad,
        rows=padded.expected_rows,
        variance_ratio=mechanism.bin_variance / ours.bin_variance,
    )


def _counted(
    release: CumulativeRelease, contract: CumulativeContract, counter: CounterName, allocation: Allocation
) -> CounterAlternative:
    ours = contract.mechanism
    chosen = (counter, allocation) == (release.counter, release.allocation)
    mechanism = (
        ours
        if chosen
        else CumulativeMechanism.calibrated(
            horizon=ours.horizon,
            counter_name=counter,
            allocation=allocation,
            adjacency=ours.adjacency,
            rho=contract.rho,
        )
    )
    rms = _mean_variance(mechanism) ** 0.5
    return CounterAlternative(
        counter=counter,
        allocation=allocation,
        chosen=chosen,
        worst_stderr_people=max(mechanism.largest_variances) ** 0.5,
        rms_stderr_people=rms,
        rms_ratio=rms / _mean_variance(ours) ** 0.5,
    )


def _mean_variance(mechanism: CumulativeMechanism) -> float:
    """Of the unclamped estimates, over all weights `b` and periods `t >= b`."""
    sums = np.cumsum(mechanism.counter.gains())[::-1]
    variances = np.square(mechanism.sigmas) * sums
    return float(variances.sum() / (mechanism.horizon * (mechanism.horizon + 1) / 2))
