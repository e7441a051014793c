"""The kind `cumulative`: synthetic people whose number of events so far is distributed like that of the real people.

The counts of period `t` are those of the people with at least 1, 2, ... events, up to `most`. A column holds 1 for each
synthetic person with an event in that period; once a person has had `most` events, further ones are not told apart, and
their symbols are drawn at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from streamproc.errors import UnsupportedQuery
from streamproc.privacy.automaton import Automaton, Transitions, event_counter
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.flow import FlowContract, FlowTallier
from streamproc.releases.flow_steering import clamp_at_least
from streamproc.releases.query import AtLeast, EventCount, Query, kind_for, upper_quantile
from streamproc.releases.step import Description, NamedQuery
from streamproc.releases.window import quoted
from streamproc.study import CumulativeRelease, Release, Study
from streamproc.study.releases import EVENT_ALPHABET, MAX_COUNTED
from streamproc.validation import Validator


class CumulativeTallier(FlowTallier):
    """Counts the real people with each number of events who have an event in a period, and who have none."""

    def __init__(self, study: Study, release: CumulativeRelease) -> None:
        automaton = event_counter(release.counted_up_to(study.last_period))
        super().__init__(automaton, release.event_mask(study.alphabet).astype(np.uint8))


NO_EVENT = "it covers only the replacement of a history by one without any event"
"""What adjacency zero-out means for kinds that count events."""

EVER_ONE = (NamedQuery("at least one so far", "at least one so far", AtLeast(1)),)
"""The query that describes a column of running counts on one line."""


@dataclass(frozen=True, kw_only=True)
class CumulativeContract(FlowContract):
    """The public parameters of a cumulative release."""

    event: tuple[str, ...]
    """The symbols of the study that count as an event."""

    kind: ClassVar[str] = "cumulative"
    size_setting: ClassVar[str] = "most"
    zero_out_meaning: ClassVar[str] = NO_EVENT

    @classmethod
    def describe(cls, release: Release) -> Description:
        return describe_cumulative()

    # The automaton

    @property
    def most(self) -> int:
        """The largest number of events that is told apart."""
        return self.automaton.states - 1

    @property
    def thresholds(self) -> tuple[int, ...]:
        return self.thresholds_of(self.automaton)

    @classmethod
    def thresholds_of(cls, automaton: Automaton) -> tuple[int, ...]:
        return tuple(range(1, automaton.states))

    @classmethod
    def automaton_of(cls, study: Study, release: Release) -> Automaton:
        return event_counter(cast(CumulativeRelease, release).counted_up_to(study.last_period))

    @classmethod
    def settings_of(cls, release: Release) -> dict[str, Any]:
        return {"event": cast(CumulativeRelease, release).event}

    def own_settings(self) -> dict[str, Any]:
        return {"event": self.event, "most": self.most}

    @classmethod
    def automaton_from(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> Automaton:
        check_event(values, alphabet, check)
        check.whole("most", values["most"], 1, min(MAX_COUNTED, values["horizon"]))
        return event_counter(values["most"])

    @classmethod
    def settings_from(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"event": tuple(values["event"])}

    @classmethod
    def thresholds_in(cls, query: Query, name: str, most: int, horizon: int) -> tuple[int, ...]:
        if not isinstance(query, AtLeast | EventCount):
            raise UnsupportedQuery(
                f"{query.name}: release {name} is of kind {cls.kind}, which counts how many events people have had, "
                f"not when; ask {kind_for(query)}"
            )
        if not 1 <= query.b <= most:
            limit = "the horizon" if most == horizon else "`most` of the release"
            raise UnsupportedQuery(f"{query.name}: b must lie between 1 and {limit}, {most}")
        if isinstance(query, AtLeast):
            return (query.b,)
        if query.b == most < horizon:
            raise UnsupportedQuery(f"{query.name}: release {name} does not tell {most} events from more")
        return (query.b, query.b + 1)

    def project(self, transitions: Transitions, people: IntArray, estimate: FloatArray, period: Period) -> FloatArray:
        return clamp_at_least(transitions, people, estimate)

    # Queries

    def labels(self, period: Period) -> list[str]:
        return [str(b) for b in range(1, min(period, self.most) + 1)]

    def query_weights(self, query: Query, period: Period) -> FloatArray:
        """1 for the count of people with at least `b` events, else 0; all 0 before period `b`, when nobody can have `b`."""
        first, *rest = self.thresholds_in(query, self.name, self.most, self.horizon)
        weights = np.zeros(min(period, self.most))
        weights[first - 1 : first] = 1.0
        for after in rest:
            weights[after - 1 : after] = -1.0
        return weights

    def first_period(self, query: Query) -> Period:
        return Period(cast(AtLeast | EventCount, query).b)

    def parse_query(self, name: str) -> NamedQuery:
        """Accepts `atleast:B`."""
        return parse_at_least(name, self.name, self.event, self.most)

    def query_of(self, label: str) -> str:
        return f"atleast:{label}"

    def suggested_queries(self) -> Iterator[str]:
        yield from (f"atleast:{b}" for b in self.thresholds)

    def headline_queries(self) -> Sequence[NamedQuery]:
        return EVER_ONE

    def columns_only_halfwidth(self, weights: FloatArray, period: Period, level: float) -> float:
        """A bound for a reader without the measurements.

        Clamping is a ratchet: the released "at least `b`" at `t` is at most as far from the truth as the worst unclamped
        estimate among those that can have moved it, `(b', t')` with `b' <= b` and `t' <= t`. The half-width is a union
        bound over their number, plus 1 for rounding.
        """
        half = 0.0
        for b in (np.flatnonzero(weights) + 1).tolist():
            worst = max(float(self.count_stderrs(Period(t))[: min(b, t)].max()) for t in range(1, period + 1))
            cells = b * (period - b + 1)
            half += abs(float(weights[b - 1])) * (upper_quantile((1 - level) / 2 / cells) * worst + 1)
        return half


def describe_cumulative() -> Description:
    """A cumulative release in words."""
    return Description(
        summary="running counts",
        counts_title="At least this many periods",
        padded=False,
        clamping_narrows_intervals=False,
        zero_out="A history is left out of every count only where it is replaced by one without any event.",
    )


def parse_at_least(name: str, release: str, event: Sequence[str], most: int) -> NamedQuery:
    """The query `atleast:B`. Raises UnsupportedQuery, which names the queries that the release answers."""
    b = parse_number(name, "atleast", most)
    if b is None:
        raise UnsupportedQuery(f"query: release {release} answers atleast:1 to atleast:{most}")
    return NamedQuery(name, f"{in_words(event)} in at least {b} {'period' if b == 1 else 'periods'} so far", AtLeast(b))


def check_event(values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> None:
    """Check the alphabet and the events of a contract that counts events."""
    check.require("alphabet", values["alphabet"], alphabet == EVENT_ALPHABET, "0 and 1")
    event = check.sequence("event", values["event"])
    check.require("event", values["event"], bool(event) and all(isinstance(s, str) for s in event), "a list of symbols")


def parse_number(name: str, form: str, most: int) -> int | None:
    """The number in `form:NUMBER`, if it lies between 1 and `most`."""
    found, _, rest = name.partition(":")
    is_number = found == form and rest.isascii() and rest.isdigit() and len(rest) < 10
    return int(rest) if is_number and 1 <= int(rest) <= most else None


def in_words(event: Sequence[str]) -> str:
    """The symbols of an event as words of a sentence."""
    return " or ".join(map(quoted, event))
