"""The kind `pattern`: synthetic people of whom as many have ever matched a regular expression as of the real people.

The count of a period is that of the people whose history so far has matched. Columns hold symbols of the study's alphabet;
which of the symbols of one transition a synthetic person has is drawn at random, so nothing but the question "matched" may
be asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from streamproc.errors import UnsupportedQuery
from streamproc.privacy.automaton import Automaton, Transitions
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.flow import FlowContract, FlowTallier
from streamproc.releases.flow_steering import project_transitions
from streamproc.releases.query import Matched, Query, kind_for
from streamproc.releases.step import Description, NamedQuery
from streamproc.study import PatternRelease, Release, Study
from streamproc.study.pattern import MAX_LENGTH, PatternError, compile_pattern
from streamproc.validation import Validator

LABEL = "matched"
"""The label of the one count."""

NEAR_WEIGHT = 0.1
"""Weight of the squared deviation of the people near a match, relative to that of the people who have matched."""


class PatternTallier(FlowTallier):
    """Counts the real people on each transition of the automaton of the pattern."""

    def __init__(self, study: Study, release: PatternRelease) -> None:
        super().__init__(release.automaton(study.alphabet), np.arange(study.q, dtype=np.uint8))


@dataclass(frozen=True, kw_only=True)
class PatternContract(FlowContract):
    """The public parameters of a pattern release."""

    pattern: str
    """The regular expression over symbols."""

    kind: ClassVar[str] = "pattern"
    size_setting: ClassVar[str] = "pattern"
    zero_out_meaning: ClassVar[str] = (
        "it covers only the replacement of a history by one that repeats the first symbol of the alphabet"
    )

    @classmethod
    def describe(cls, release: Release) -> Description:
        return Description(
            summary=f"has ever matched {cast(PatternRelease, release).pattern}",
            counts_title="People whose history has matched",
            padded=False,
            clamping_narrows_intervals=False,
            zero_out="A history is left out only where it is replaced by one that repeats the first symbol of the alphabet.",
        )

    # The automaton

    @property
    def thresholds(self) -> tuple[int, ...]:
        return self.thresholds_of(self.automaton)

    @classmethod
    def thresholds_of(cls, automaton: Automaton) -> tuple[int, ...]:
        """The last state is "has matched"."""
        return (automaton.states - 1,)

    @classmethod
    def thresholds_in(cls, query: Query, name: str, most: int, horizon: int) -> tuple[int, ...]:
        if not isinstance(query, Matched):
            raise UnsupportedQuery(
                f"{query.name}: release {name} is of kind {cls.kind}, which knows only whether a history has matched; "
                f"ask matched, or {kind_for(query)}"
            )
        return ()

    @classmethod
    def automaton_of(cls, study: Study, release: Release) -> Automaton:
        return cast(PatternRelease, release).automaton(study.alphabet)

    @classmethod
    def settings_of(cls, release: Release) -> dict[str, Any]:
        return {"pattern": cast(PatternRelease, release).pattern}

    def own_settings(self) -> dict[str, Any]:
        return {"pattern": self.pattern}

    @classmethod
    def automaton_from(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> Automaton:
        pattern = values["pattern"]
        is_text = isinstance(pattern, str) and len(pattern) <= MAX_LENGTH
        check.require("pattern", pattern, is_text, "a regular expression over symbols")
        try:
            table = compile_pattern(pattern, alphabet)
        except PatternError:
            table = None
        # Raised outside of the handler, because the chained error would quote the pattern.
        check.require("pattern", pattern, table is not None, "a regular expression over symbols")
        assert table is not None
        return Automaton.of_table(table)

    @classmethod
    def settings_from(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"pattern": values["pattern"]}

    def project(self, transitions: Transitions, people: IntArray, estimate: FloatArray, period: Period) -> FloatArray:
        """The panel also follows how many people are within 1, 2, ... symbols of a match.

        Clamping leaves the panel with too few people who have matched, and so with too many in other states. If those are
        spread evenly over the states, most of them cannot match soon. These counts keep them as near to a match as possible.
        """
        steps = self._steps_to_match[transitions.after]
        near = (steps <= np.unique(steps[(steps > 0) & np.isfinite(steps)])[:, None]).astype(float)
        asked = np.vstack((self.questions(period), NEAR_WEIGHT**0.5 * near))
        return project_transitions(transitions, people, estimate, asked)

    @cached_property
    def _steps_to_match(self) -> FloatArray:
        """For each state, the least number of symbols until a match; infinite if there is none."""
        table = self.automaton.next_states
        steps = np.full(len(table), np.inf)
        steps[-1] = 0
        for _ in range(len(table)):
            steps = np.minimum(steps, 1 + steps[table].min(axis=1))
        return steps

    def questions(self, period: Period) -> FloatArray:
        """One row, also in periods in which no history can have matched yet."""
        after = self.transitions(period).after
        row: FloatArray = (after[None, :] == self.automaton.states - 1).astype(float)
        return row

    # Queries

    def labels(self, period: Period) -> list[str]:
        return [LABEL]

    def query_weights(self, query: Query, period: Period) -> FloatArray:
        self.thresholds_in(query, self.name, self.automaton.states - 1, self.horizon)
        return np.ones(1)

    def first_period(self, query: Query) -> Period:
        """The first period in which a history can have matched."""
        matched = self.automaton.states - 1
        can_match = [matched in period.after for period in self.mechanism.periods]
        return Period(can_match.index(True) + 1 if True in can_match else self.horizon)

    def parse_query(self, name: str) -> NamedQuery:
        """Accepts `matched`."""
        if name == LABEL:
            return NamedQuery(name, f"has ever matched {self.pattern}", Matched())
        raise UnsupportedQuery(f"query: release {self.name} answers matched")

    def query_of(self, label: str) -> str:
        return LABEL

    def suggested_queries(self) -> Iterator[str]:
        yield LABEL

    def headline_queries(self) -> Sequence[NamedQuery]:
        return [NamedQuery(LABEL, LABEL, Matched())]

    @property
    def variances(self) -> float:
        return float(np.max(super().variances))
