"""What a plan says about releases that count events, spells or matches, measured by flow or as in the paper."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.flow import FlowMechanism
from streamproc.privacy.types import FloatArray, Period
from streamproc.releases.flow import FlowContract, designed_matrices
from streamproc.releases.kind import Contract, ReleasePlanner
from streamproc.releases.query import AtLeast, InSpell, Matched
from streamproc.releases.step import NamedQuery
from streamproc.study import CumulativeRelease, PatternRelease, SpellRelease
from streamproc.study.releases import FlowSettings, Tune

PAPER_UP_TO = 200
"""Horizon up to which the paper's mechanism is compared by default. Its exact cost takes `O(T^3)`, seconds at T = 1000."""

LOWER_BOUNDS = {12: 5.630, 24: 11.40, 48: 21.4}
"""No Gaussian mechanism has a smaller largest variance of "at least j events" for `j` up to the horizon, by horizon, at rho
1 under replace-one.

The values are solutions of a semidefinite programme (docs/privacy.md)."""


@dataclass(frozen=True)
class FlowAlternative:
    """A release measured in one way, at the same budget."""

    measure: str
    """`flow` or `paper`; `any` for a limit that no Gaussian mechanism can pass."""
    weights: str
    """How precision is distributed."""
    chosen: bool
    worst_stderr_people: float
    """Largest standard error over all questions and periods, before clamping."""
    rms_stderr_people: float | None
    """Root of the mean variance over all questions and periods, before clamping; None for a bound."""
    variance_ratio: float
    """Largest variance relative to that of the chosen way."""

    headings: ClassVar[Mapping[str, str]] = {
        "measure": "measure",
        "weights": "weights",
        "worst_stderr_people": "worst std\nerror, people",
        "rms_stderr_people": "RMS std\nerror, people",
        "variance_ratio": "largest variance\nto chosen",
    }
    caption: ClassVar[str] = "Before clamping; over all questions and periods."


class FlowPlanner(ReleasePlanner):
    """What a plan says about a release on an automaton."""

    def __init__(self, contract: Contract, release: FlowSettings) -> None:
        self._contract = contract
        self._release = release

    @abstractmethod
    def own_settings(self) -> dict[str, Any]:
        """The settings of the kind."""

    def settings(self) -> dict[str, Any]:
        return {
            "measure": self._contract.measure,
            **self.own_settings(),
            "n_pad": self._contract.n_pad,
            "n_star": self._contract.n_star,
            "n_star_expected": self._contract.expected_rows,
            "variance": self._contract.variances,
        }

    def describe(self) -> Sequence[str]:
        return (self._contract.kind, self._contract.measure)

    def alternatives(self, *, long_too: bool, tuned: bool) -> Sequence[FlowAlternative]:
        ours = _variances_of(self._contract)
        if not isinstance(self._contract, FlowContract):
            return []
        objectives: list[Tune | None] = [None, "largest", "mean"] if tuned else [None]
        found = [self._flow_way(self._contract, tune, ours) for tune in objectives]
        if not any(way.chosen for way in found):
            found.insert(0, _way("flow", f"tuned: {self._release.tune}", True, ours, ours))
        return found

    def _flow_way(self, contract: FlowContract, tune: Tune | None, ours: FloatArray) -> FlowAlternative:
        mechanism = contract.mechanism
        asked = contract.thresholds if tune else ()
        matrices = designed_matrices(mechanism.automaton, mechanism.horizon, asked, tune)
        chosen = all(np.array_equal(one, other) for one, other in zip(matrices, mechanism.matrices, strict=True))
        other = FlowMechanism.calibrated(mechanism.automaton, mechanism.horizon, matrices, mechanism.adjacency, contract.rho)
        variances = ours if chosen else _flow_variances(contract, other)
        return _way("flow", "rule" if tune is None else f"tuned: {tune}", chosen, variances, ours)


def _way(measure: str, weights: str, chosen: bool, variances: FloatArray, ours: FloatArray) -> FlowAlternative:
    return FlowAlternative(
        measure=measure,
        weights=weights,
        chosen=chosen,
        worst_stderr_people=float(variances.max() ** 0.5),
        rms_stderr_people=float(variances.mean() ** 0.5),
        variance_ratio=float(variances.max() / ours.max()),
    )


def _variances_of(contract: Contract) -> FloatArray:
    """The variances of all counts of all periods, before clamping."""
    return np.concatenate([contract.count_stderrs(Period(t)) ** 2 for t in range(1, contract.horizon + 1)])


def _flow_variances(contract: FlowContract, mechanism: FlowMechanism) -> FloatArray:
    found = []
    for t in range(1, contract.horizon + 1):
        asked, covariance = contract.questions(Period(t)), mechanism.state_covariance(Period(t))
        found.append(np.einsum("qs,st,qt->q", asked, covariance, asked))
    return np.concatenate(found)


class CumulativePlanner(FlowPlanner):
    """What a plan says about a cumulative release."""

    def typical_queries(self) -> Iterator[NamedQuery]:
        release, most = cast(CumulativeRelease, self._release), len(self._contract.labels(Period(self._contract.horizon)))
        words = _event_words(release.event)
        for b in sorted({b for b in (1, 2, 3, most) if b <= most}):
            times = {1: "once", 2: "twice"}.get(b, f"{b} times")
            yield NamedQuery(AtLeast(b).name, f"{words} at least {times}", AtLeast(b))

    def own_settings(self) -> dict[str, Any]:
        release = cast(CumulativeRelease, self._release)
        return {"event": list(release.event), "most": release.counted_up_to(self._contract.horizon)}

    def alternatives(self, *, long_too: bool, tuned: bool) -> Sequence[FlowAlternative]:
        horizon, ours = self._contract.horizon, _variances_of(self._contract)
        found = list(super().alternatives(long_too=long_too, tuned=tuned))
        if horizon <= PAPER_UP_TO or long_too:
            adjacency, rho = self._contract.mechanism.adjacency, self._contract.rho
            paper = CumulativeMechanism.calibrated(horizon=horizon, adjacency=adjacency, rho=rho)
            pairs = [(b, t) for t in range(1, horizon + 1) for b in range(1, len(self._contract.labels(Period(t))) + 1)]
            variances = np.array([paper.variance(b, Period(t)) for b, t in pairs])
            found.append(_way("paper", "tree", self._contract.measure == "paper", variances, ours))
        counts_all = len(self._contract.labels(Period(horizon))) == horizon  # the limit is that of all these questions
        if counts_all and horizon in LOWER_BOUNDS and self._contract.mechanism.adjacency is Adjacency.REPLACE_ONE:
            bound = LOWER_BOUNDS[horizon] / self._contract.rho
            found.append(FlowAlternative("any", "limit", False, bound**0.5, None, bound / float(ours.max())))
        return found


class SpellPlanner(FlowPlanner):
    """What a plan says about a spell release."""

    def typical_queries(self) -> Iterator[NamedQuery]:
        release = cast(SpellRelease, self._release)
        words = _event_words(release.event)
        for length in sorted({length for length in (1, 2, 3, release.length) if length <= release.length}):
            label = f"{words} now" if length == 1 else f"{words} in the last {length} periods or longer"
            yield NamedQuery(InSpell(length).name, label, InSpell(length))

    def own_settings(self) -> dict[str, Any]:
        release = cast(SpellRelease, self._release)
        return {"event": list(release.event), "length": release.length}


class PatternPlanner(FlowPlanner):
    """What a plan says about a pattern release."""

    def typical_queries(self) -> Iterator[NamedQuery]:
        yield NamedQuery("matched", f"has ever matched {cast(PatternRelease, self._release).pattern}", Matched())

    def own_settings(self) -> dict[str, Any]:
        return {"pattern": cast(PatternRelease, self._release).pattern, "states": self._contract.mechanism.automaton.states}


def _event_words(event: Sequence[str]) -> str:
    return " or ".join(map(repr, event)) if len(event) <= 3 else "the event"
