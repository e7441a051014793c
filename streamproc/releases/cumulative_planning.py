"""What a plan says about a cumulative release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np

from streamproc.privacy.counters import CounterName
from streamproc.privacy.cumulative import Allocation, CumulativeMechanism
from streamproc.releases.cumulative import CumulativeContract
from streamproc.releases.kind import ReleasePlanner
from streamproc.releases.query import AtLeast
from streamproc.releases.step import NamedQuery
from streamproc.study import CumulativeRelease

COMPARED_UP_TO = 200
"""Horizon up to which counters are compared by default. Each takes `O(T^3)`, which is seconds at T = 1000."""


@dataclass(frozen=True)
class CounterAlternative:
    """A cumulative release with one counter and allocation, at the same budget."""

    counter: CounterName
    allocation: Allocation
    chosen: bool
    worst_stderr_people: float
    """Largest standard error over all weights and periods, before clamping."""
    rms_stderr_people: float
    """Root of the mean variance over all weights and periods, before clamping."""
    rms_ratio: float
    """`rms_stderr_people` relative to that of the chosen way."""

    headings: ClassVar[Mapping[str, str]] = {
        "counter": "counter",
        "allocation": "allocation",
        "worst_stderr_people": "worst std error\npeople",
        "rms_stderr_people": "RMS std error\npeople",
        "rms_ratio": "RMS\nto chosen",
    }
    caption: ClassVar[str] = "Before clamping; over all weights b = 1..T and all periods."


class CumulativePlanner(ReleasePlanner):
    """What a plan says about a cumulative release."""

    def __init__(self, contract: CumulativeContract, release: CumulativeRelease) -> None:
        self._contract = contract
        self._release = release

    def typical_queries(self) -> Iterator[NamedQuery]:
        event, horizon = self._contract.event, self._contract.horizon
        words = " or ".join(map(repr, event)) if len(event) <= 3 else "the event"
        for b in sorted({b for b in (1, 2, 3, horizon) if b <= horizon}):
            times = {1: "once", 2: "twice"}.get(b, f"{b} times")
            yield NamedQuery(AtLeast(b).name, f"{words} at least {times}", AtLeast(b))

    def settings(self) -> dict[str, Any]:
        return {
            "counter": self._release.counter,
            "allocation": self._release.allocation,
            "event": list(self._release.event),
            "n_pad": self._contract.n_pad,
            "n_star": self._contract.n_star,
            "n_star_expected": self._contract.expected_rows,
            "variance": list(self._contract.mechanism.largest_variances),
        }

    def describe(self) -> Sequence[str]:
        return ("cumulative", self._release.counter, self._release.allocation)

    def alternatives(self, *, long_too: bool, tuned: bool) -> Sequence[CounterAlternative]:
        if self._contract.horizon > COMPARED_UP_TO and not long_too:
            return ()
        ways = [(counter, allocation) for counter in get_args(CounterName) for allocation in get_args(Allocation)]
        return [self._counted(counter, allocation) for counter, allocation in ways]

    def _counted(self, counter: CounterName, allocation: Allocation) -> CounterAlternative:
        ours = mechanism = self._contract.mechanism
        chosen = (counter, allocation) == (self._release.counter, self._release.allocation)
        if not chosen:
            mechanism = CumulativeMechanism.calibrated(
                horizon=ours.horizon,
                counter_name=counter,
                allocation=allocation,
                adjacency=ours.adjacency,
                rho=self._contract.rho,
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
    """Mean variance of the unclamped estimates, over all weights `b` and periods `t >= b`."""
    sums = np.cumsum(mechanism.counter.gains())[::-1]
    variances = np.square(mechanism.sigmas) * sums
    return float(variances.sum() / (mechanism.horizon * (mechanism.horizon + 1) / 2))
