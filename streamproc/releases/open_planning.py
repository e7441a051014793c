"""What a plan says about a release of an open study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from streamproc.releases.kind import AlternativeWay, ReleasePlanner
from streamproc.releases.open_flow import FLOW_QUERIES, OpenContract
from streamproc.releases.step import NamedQuery
from streamproc.study import Release

MAX_QUERIES = 8
"""Maximum number of queries of the kind whose errors a plan states."""


class OpenPlanner(ReleasePlanner):
    """What a plan says about a release of an open study: its errors do not depend on a horizon."""

    def __init__(self, contract: OpenContract, release: Release) -> None:
        self._contract, self._release = contract, release

    def typical_queries(self) -> Iterator[NamedQuery]:
        names = islice(self._contract.suggested_kind_queries(), MAX_QUERIES)
        yield from (self._contract.parse_query(name) for name in names)
        yield from FLOW_QUERIES

    def settings(self) -> dict[str, Any]:
        mechanism = self._contract.mechanism
        settings = {key: list(value) if isinstance(value, tuple) else value for key, value in self._own_settings().items()}
        return settings | {
            "measure": self._contract.measure,
            "tenure": mechanism.tenure,
            "states": mechanism.automaton.states,
            "transitions": len(mechanism.transitions),
            "sigma": mechanism.sigma,
        }

    def _own_settings(self) -> dict[str, Any]:
        return self._contract.own_settings()

    def describe(self) -> Sequence[str]:
        return [type(self._contract).describe(self._release).summary, f"present for at most {self._contract.tenure} periods"]

    def alternatives(self, *, long_too: bool, tuned: bool) -> Sequence[AlternativeWay]:
        return ()
