"""How long it takes to plan a long cumulative release: its noise, its exact cost, and the cost after every period."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from bench.result import Result
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.counters import counter
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.types import Period


def measure(quick: bool = False) -> Iterator[Result]:
    """With the default counter and allocation, under either adjacency."""
    horizon = 70 if quick else 1000
    for adjacency in Adjacency:
        counter.cache_clear()
        start = perf_counter()
        mechanism = CumulativeMechanism.calibrated(
            horizon=horizon, counter_name="sqrt", allocation="equal-max", adjacency=adjacency, rho=0.005
        )
        mechanism.cost(Period(horizon))
        planned = perf_counter()
        for period in range(1, horizon + 1):
            mechanism.cost(Period(period))
        everywhere = perf_counter()
        name = f"plan, sqrt T={horizon}, {adjacency.value}"
        yield Result(name=name, value=planned - start, unit="s")
        yield Result(name=f"{name}, all prefixes on top", value=everywhere - planned, unit="s")
