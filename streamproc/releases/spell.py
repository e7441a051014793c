"""The kind `spell`: synthetic people whose current run of events is as long as those of the real people.

The counts of period `t` are those of the people in a spell of at least 1, 2, ... periods now, up to `length`. A column holds
1 for each synthetic person with an event in that period.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from streamproc.errors import UnsupportedQuery
from streamproc.privacy.automaton import Automaton, spell_counter
from streamproc.privacy.types import FloatArray, Period
from streamproc.releases.cumulative import NO_EVENT, check_event, in_words, parse_number
from streamproc.releases.flow import FlowContract, FlowTallier
from streamproc.releases.query import InSpell, Query, kind_for
from streamproc.releases.step import Description, NamedQuery
from streamproc.study import Release, SpellRelease, Study
from streamproc.study.releases import MAX_COUNTED
from streamproc.validation import Validator


class SpellTallier(FlowTallier):
    """Counts the real people in a spell of each length whose spell goes on in a period, and whose spell ends."""

    def __init__(self, study: Study, release: SpellRelease) -> None:
        super().__init__(spell_counter(release.length), release.event_mask(study.alphabet).astype(np.uint8))


@dataclass(frozen=True, kw_only=True)
class SpellContract(FlowContract):
    """The public parameters of a spell release."""

    event: tuple[str, ...]
    """The symbols of the study that count as an event."""

    kind: ClassVar[str] = "spell"
    size_setting: ClassVar[str] = "length"
    zero_out_meaning: ClassVar[str] = NO_EVENT

    @classmethod
    def describe(cls, release: Release) -> Description:
        return Description(
            summary=f"spells of up to {cast(SpellRelease, release).length} periods",
            counts_title="In a spell of at least this many periods",
            padded=False,
            clamping_narrows_intervals=False,
            zero_out="A history is left out of every count only where it is replaced by one without any event.",
        )

    # The automaton

    @property
    def length(self) -> int:
        """Longer spells are counted as this long."""
        return self.automaton.states - 1

    @property
    def thresholds(self) -> tuple[int, ...]:
        return self.thresholds_of(self.automaton)

    @classmethod
    def thresholds_of(cls, automaton: Automaton) -> tuple[int, ...]:
        return tuple(range(1, automaton.states))

    @classmethod
    def automaton_of(cls, study: Study, release: Release) -> Automaton:
        return spell_counter(cast(SpellRelease, release).length)

    @classmethod
    def settings_of(cls, release: Release) -> dict[str, Any]:
        return {"event": cast(SpellRelease, release).event}

    def own_settings(self) -> dict[str, Any]:
        return {"event": self.event, "length": self.length}

    @classmethod
    def automaton_from(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> Automaton:
        check_event(values, alphabet, check)
        check.whole("length", values["length"], 1, min(MAX_COUNTED, values["horizon"]))
        return spell_counter(values["length"])

    @classmethod
    def settings_from(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"event": tuple(values["event"])}

    @classmethod
    def thresholds_in(cls, query: Query, name: str, most: int, horizon: int) -> tuple[int, ...]:
        if not isinstance(query, InSpell):
            raise UnsupportedQuery(
                f"{query.name}: release {name} is of kind {cls.kind}, which knows how long the current spell is; "
                f"ask in_spell, or {kind_for(query)}"
            )
        if not 1 <= query.length <= most:
            raise UnsupportedQuery(f"{query.name}: the length must lie between 1 and that of the release, {most}")
        return (query.length,)

    # Queries

    def labels(self, period: Period) -> list[str]:
        return [str(length) for length in range(1, min(period, self.length) + 1)]

    def query_weights(self, query: Query, period: Period) -> FloatArray:
        """1 for the count of people in a spell of at least this length, else 0; all 0 before a spell can be so long."""
        (asked,) = self.thresholds_in(query, self.name, self.length, self.horizon)
        weights = np.zeros(min(period, self.length))
        weights[asked - 1 : asked] = 1.0
        return weights

    def first_period(self, query: Query) -> Period:
        return Period(cast(InSpell, query).length)

    def parse_query(self, name: str) -> NamedQuery:
        """Accepts `spell:J`."""
        length = parse_number(name, "spell", self.length)
        if length is not None:
            label = f"{in_words(self.event)} in the last {length} {'period' if length == 1 else 'periods'} or longer"
            return NamedQuery(name, label, InSpell(length))
        raise UnsupportedQuery(f"query: release {self.name} answers spell:1 to spell:{self.length}")

    def query_of(self, label: str) -> str:
        return f"spell:{label}"

    def suggested_queries(self) -> Iterator[str]:
        yield from (f"spell:{length}" for length in self.thresholds)

    def headline_queries(self) -> Sequence[NamedQuery]:
        return [NamedQuery("in a spell now", "in a spell now", InSpell(1))]
