"""The kinds of an open study: windows, spells and numbers of events since entry, among the people who are present.

A share is that of the people who have reported for as many periods as the question looks at: a question about the last two
symbols is about those who have been present for two periods at least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from streamproc.errors import UnsupportedQuery
from streamproc.privacy.open_automaton import OpenAutomaton, open_events, open_spells, open_windows
from streamproc.privacy.types import FloatArray
from streamproc.releases.cumulative import check_event, in_words, parse_at_least, parse_number
from streamproc.releases.open_flow import FLOW_QUERIES, OpenContract, check_open_size
from streamproc.releases.open_state import OpenTallier
from streamproc.releases.query import AtLeast, EventCount, InSpell, LastSymbols, Query, SinceEntry
from streamproc.releases.step import Description, NamedQuery
from streamproc.releases.window import (
    split_label,
    window_headlines,
    window_in_words,
    window_query,
    window_suggestions,
    windows_in,
)
from streamproc.study import CumulativeRelease, Release, SpellRelease, Study, WindowRelease, bin_label, bin_labels
from streamproc.study.releases import MAX_BINS, MAX_COUNTED
from streamproc.validation import Validator

PROTECTED = "An open study has no such relation."

SINCE_ENTRY = "^"
"""Begins the label of a window that is the whole history of a person since they entered."""


class OpenWindowTallier(OpenTallier):
    """Counts the real people whose window is extended by each symbol, who enter with it, and who leave."""

    def __init__(self, study: Study, release: WindowRelease) -> None:
        super().__init__(open_windows(study.q, release.k), np.arange(study.q, dtype=np.uint8))


@dataclass(frozen=True, kw_only=True)
class OpenWindowContract(OpenContract):
    """The public parameters of a window release of an open study.

    Its counts are those of windows of 1, 2, ..., `k` symbols. A window shorter than `k` is the whole history of a person
    who entered as many periods ago.
    """

    k: int

    kind: ClassVar[str] = "window"

    @classmethod
    def describe(cls, release: Release) -> Description:
        k = cast(WindowRelease, release).k
        periods = "1 period" if k == 1 else f"{k} periods"
        return Description(f"windows of {periods}", f"Every bin: up to {periods}, oldest first", False, False, PROTECTED)

    # The automaton

    @classmethod
    def automaton_of(cls, study: Study, release: Release) -> OpenAutomaton:
        return open_windows(study.q, cast(WindowRelease, release).k)

    @classmethod
    def settings_of(cls, release: Release) -> dict[str, Any]:
        return {"k": cast(WindowRelease, release).k}

    def own_settings(self) -> dict[str, Any]:
        return {"k": self.k}

    @classmethod
    def automaton_from(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> OpenAutomaton:
        q = len(alphabet)
        check.whole("k", values["k"], 1, min(values["tenure"], MAX_BINS.bit_length()))
        check.require("k", values["k"], q ** values["k"] <= MAX_BINS, f"at most {MAX_BINS} windows")
        states = sum(q**length for length in range(1, values["k"])) or 1
        check_open_size(values, "k", q, states, check)
        return open_windows(q, values["k"])

    @classmethod
    def settings_from(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"k": values["k"]}

    @property
    def kind_labels(self) -> list[str]:
        """A window that begins with the entry is marked `^`; a full one may begin with the entry or later."""
        short = [SINCE_ENTRY + label for length in range(1, self.k) for label in bin_labels(self.alphabet, length)]
        return short + bin_labels(self.alphabet, self.k)

    @property
    def kind_questions(self) -> FloatArray:
        """A window is a transition that enters or stays; those of one symbol are two transitions if `k` is 1."""
        transitions, q = self.transitions, len(self.alphabet)
        symbol = transitions.cells % (1 + q)
        # The states are the windows of 1, 2, ..., k - 1 symbols in the order of the labels.
        place = np.where(transitions.source < 0, symbol, q + q * transitions.source + symbol)
        if self.k == 1:
            place = symbol
        questions = np.zeros((len(self.kind_labels), len(transitions)))
        stays = np.flatnonzero(transitions.target >= 0)
        questions[place[stays], stays] = 1.0
        return questions

    # Queries

    def kind_weights(self, query: Query) -> tuple[FloatArray, FloatArray]:
        if isinstance(query, SinceEntry):
            return self._since_entry(query), self._present
        if not isinstance(query, LastSymbols):
            windows_in(query, self.name, self.alphabet, self.k)  # raises UnsupportedQuery, which says what it answers
        asked = cast(LastSymbols, query)
        weights, among = [], []
        for length in range(1, self.k + 1):
            bins = len(self.alphabet) ** length
            if length < asked.width and asked.width <= self.k:
                yes, everybody = np.zeros(bins), np.zeros(bins)
            else:
                found = windows_in(asked, self.name, self.alphabet, self.k)
                yes, everybody = np.tile(found, bins // len(found)).astype(float), np.ones(bins)
            weights.append(yes)
            among.append(everybody)
        return np.concatenate(weights), np.concatenate((*among, np.zeros(3)))

    def _since_entry(self, query: SinceEntry) -> FloatArray:
        label = SINCE_ENTRY + bin_label(query.symbols, self.alphabet)
        if label not in self.kind_labels:
            raise UnsupportedQuery(f"{query.name}: release {self.name} knows fewer than {self.k} symbols since entry")
        return np.array([float(known == label) for known in self.kind_labels])

    def parse_kind_query(self, name: str) -> NamedQuery:
        """Accepts `bin:LABEL`, and what a window release of a closed study accepts."""
        prefix = f"bin:{SINCE_ENTRY}"
        if name.startswith(prefix) and name.removeprefix("bin:") in self.kind_labels:
            symbols = split_label(name.removeprefix(prefix), self.alphabet)
            return NamedQuery(name, f"entered with {window_in_words(symbols)}", SinceEntry(tuple(symbols)))
        return window_query(name, self.name, self.alphabet, self.k)

    def kind_query_of(self, label: str) -> str:
        return f"bin:{label}"

    def suggested_kind_queries(self) -> Iterator[str]:
        return window_suggestions(self.alphabet, self.k)

    def headline_queries(self) -> Sequence[NamedQuery]:
        return window_headlines(self.alphabet)


@dataclass(frozen=True, kw_only=True)
class OpenEventContract(OpenContract):
    """The public parameters of a release of an open study that counts events; the counts are "at least `j`"."""

    event: tuple[str, ...]
    """The symbols of the study that count as an event."""

    size_setting: ClassVar[str]

    @property
    def largest(self) -> int:
        """The largest number that is told apart."""
        return self.automaton.states - 1

    @classmethod
    def settings_of(cls, release: Release) -> dict[str, Any]:
        return {"event": cast(SpellRelease | CumulativeRelease, release).event}

    def own_settings(self) -> dict[str, Any]:
        return {"event": self.event, self.size_setting: self.largest}

    @classmethod
    def check_event_size(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> int:
        """Check the values of such a contract, and return the largest number that is told apart."""
        key = cls.size_setting
        check_event(values, alphabet, check)
        check.whole(key, values[key], 1, min(MAX_COUNTED, values["tenure"]))
        check_open_size(values, key, 2, values[key] + 1, check)
        return int(values[key])

    @classmethod
    def settings_from(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"event": tuple(values["event"])}

    @property
    def kind_labels(self) -> list[str]:
        return [str(j) for j in range(1, self.largest + 1)]

    @property
    def kind_questions(self) -> FloatArray:
        questions: FloatArray = (self.transitions.target[None, :] >= np.arange(1, self.largest + 1)[:, None]).astype(float)
        return questions


class OpenSpellTallier(OpenTallier):
    """Counts the real people in a spell of each length whose spell goes on in a period, ends, or who leave."""

    def __init__(self, study: Study, release: SpellRelease) -> None:
        super().__init__(open_spells(release.length), release.event_mask(study.alphabet).astype(np.uint8))


@dataclass(frozen=True, kw_only=True)
class OpenSpellContract(OpenEventContract):
    """The public parameters of a spell release of an open study. A spell begins with the entry at the earliest."""

    kind: ClassVar[str] = "spell"
    size_setting: ClassVar[str] = "length"

    @classmethod
    def describe(cls, release: Release) -> Description:
        summary = f"spells of up to {cast(SpellRelease, release).length} periods"
        return Description(summary, "In a spell of at least this many periods", False, False, PROTECTED)

    @classmethod
    def automaton_of(cls, study: Study, release: Release) -> OpenAutomaton:
        return open_spells(cast(SpellRelease, release).length)

    @classmethod
    def automaton_from(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> OpenAutomaton:
        return open_spells(cls.check_event_size(values, alphabet, check))

    def kind_weights(self, query: Query) -> tuple[FloatArray, FloatArray]:
        if not isinstance(query, InSpell):
            raise UnsupportedQuery(
                f"{query.name}: release {self.name} is of kind {self.kind}, which knows how long the current spell is; "
                "ask in_spell, or another release"
            )
        if not 1 <= query.length <= self.largest:
            raise UnsupportedQuery(f"{query.name}: the length must lie between 1 and that of the release, {self.largest}")
        return (np.arange(1, self.largest + 1) == query.length).astype(float), self._present

    def parse_kind_query(self, name: str) -> NamedQuery:
        """Accepts `spell:J`."""
        length = parse_number(name, "spell", self.largest)
        if length is None:
            raise UnsupportedQuery(f"query: release {self.name} answers spell:1 to spell:{self.largest}, {_FLOWS}")
        label = f"{in_words(self.event)} in the last {length} {'period' if length == 1 else 'periods'} or longer"
        return NamedQuery(name, label, InSpell(length))

    def kind_query_of(self, label: str) -> str:
        return f"spell:{label}"

    def suggested_kind_queries(self) -> Iterator[str]:
        yield from (f"spell:{length}" for length in range(1, self.largest + 1))

    def headline_queries(self) -> Sequence[NamedQuery]:
        return [NamedQuery("in a spell now", "in a spell now", InSpell(1))]


class OpenCumulativeTallier(OpenTallier):
    """Counts the real people with each number of events since entry who have one more in a period, none, or who leave."""

    def __init__(self, study: Study, release: CumulativeRelease) -> None:
        assert release.tenure is not None
        automaton = open_events(release.counted_up_to(release.tenure))
        super().__init__(automaton, release.event_mask(study.alphabet).astype(np.uint8))


@dataclass(frozen=True, kw_only=True)
class OpenCumulativeContract(OpenEventContract):
    """The public parameters of a cumulative release of an open study: events since entry."""

    kind: ClassVar[str] = "cumulative"
    size_setting: ClassVar[str] = "most"

    @classmethod
    def describe(cls, release: Release) -> Description:
        return Description("running counts since entry", "At least this many periods since entry", False, False, PROTECTED)

    @classmethod
    def automaton_of(cls, study: Study, release: Release) -> OpenAutomaton:
        counted = cast(CumulativeRelease, release)
        assert counted.tenure is not None
        return open_events(counted.counted_up_to(counted.tenure))

    @classmethod
    def automaton_from(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> OpenAutomaton:
        return open_events(cls.check_event_size(values, alphabet, check))

    def kind_weights(self, query: Query) -> tuple[FloatArray, FloatArray]:
        if not isinstance(query, AtLeast | EventCount):
            raise UnsupportedQuery(
                f"{query.name}: release {self.name} is of kind {self.kind}, which counts how many events people have had, "
                "not when; ask a window release"
            )
        if not 1 <= query.b <= self.largest:
            raise UnsupportedQuery(f"{query.name}: b must lie between 1 and `most` of the release, {self.largest}")
        numbers = np.arange(1, self.largest + 1)
        weights = (numbers == query.b).astype(float)
        if isinstance(query, EventCount):
            if query.b == self.largest < self.tenure:
                raise UnsupportedQuery(f"{query.name}: release {self.name} does not tell {self.largest} events from more")
            weights[numbers == query.b + 1] = -1.0
        return weights, self._present

    def parse_kind_query(self, name: str) -> NamedQuery:
        """Accepts `atleast:B`."""
        return parse_at_least(name, self.name, self.event, self.largest)

    def kind_query_of(self, label: str) -> str:
        return f"atleast:{label}"

    def suggested_kind_queries(self) -> Iterator[str]:
        yield from (f"atleast:{b}" for b in range(1, self.largest + 1))

    def headline_queries(self) -> Sequence[NamedQuery]:
        return [NamedQuery("at least one so far", "at least one so far", AtLeast(1))]


_FLOWS = ", ".join(known.name for known in FLOW_QUERIES)
