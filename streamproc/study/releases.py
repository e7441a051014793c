"""Releases as a study declares them, one class for each kind, and how releases share a study's budget.

A class here holds the settings of a release, checks them, and says which of them enter the study's fingerprint. What a kind
does with its settings is in `streamproc.releases`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any, ClassVar, Literal, Protocol, Self, get_args

import numpy as np
import numpy.typing as npt

from streamproc.errors import StudyError
from streamproc.privacy.automaton import Automaton, transitions_of
from streamproc.study.pattern import PatternError, compile_pattern
from streamproc.validation import Validator, format_value

MAX_HORIZON = 10_000
"""Maximum number of periods of a study with a horizon."""

MAX_PERIOD = 1_000_000
"""The last period that an open study without a horizon can have: more than a century of hours."""

MAX_TENURE = 1_000
"""Maximum number of periods in which a person is present in an open study."""

MAX_OPEN_TRANSITIONS = 1_024
"""Maximum number of transitions of a release in an open study, whose matrix is dense: at most 2 MB to publish."""

MAX_PAIR_STEPS = 2**28
"""Maximum number of steps of the longest path that gives the cost of a release in an open study: about 10 s and 0.2 GB."""

MAX_BINS = 65_536
"""Maximum of `q^k`, the number of bins of a window release."""

Measure = Literal["flow", "paper"]
"""How a release is measured: by the flow mechanism, or as in the paper."""

Weights = Literal["tuned", "rule"]
"""How the precision of the flow mechanism is distributed: optimised for the questions of the release, or by a rule."""

Tune = Literal["largest", "mean"]
"""What tuned weights minimise: the largest variance over the questions, or the mean."""

MAX_CUMULATIVE_HORIZON = 2_000
"""Maximum number of periods of a study with a cumulative release that is measured as in the paper."""

MAX_FLOW_HORIZON = 1_000
"""Maximum number of periods of a study with a cumulative, spell or pattern release that is measured by flow."""

MAX_COUNTED = 64
"""Maximum of `most` and `length`: more events, or longer spells, are not told apart."""

REMOVED_CUMULATIVE_KEYS = ("counter", "allocation")
"""Keys of version 0.1. They are recognised only to be refused with what replaces them."""

EVENT_ALPHABET = ("0", "1")
"""The alphabet of a cumulative release's columns: no event, an event."""

EQUAL_SHARE = Fraction(0)
"""Means that the release gets an equal part of the budget that the releases with a stated share leave."""

study_check = Validator(lambda key, got, allowed: StudyError(key, format_value(got), allowed))
"""Checks values of a study; an error names the key, the value and what is allowed."""


class ReleaseTable(Protocol):
    """A `[[release]]` table of a study file, as far as a kind reads it (`study.toml.Table`)."""

    def get(self, name: str, default: Any = None) -> Any: ...
    def words(self, name: str) -> Any: ...
    def real(self, name: str, default: float | None = None) -> Any: ...


@dataclass(frozen=True)
class Release(ABC):
    """The settings that every kind of release has. The constructor checks them.

    >>> [isinstance(release, sp.Release) for release in study.releases]
    [True, True]
    """

    name: str
    """Name of the release, which its topic and its files also have."""

    kind: ClassVar[str]
    """The value of `kind` in the study file."""
    keys: ClassVar[tuple[str, ...]]
    """Keys of the study file that this kind has besides `name`, `kind` and `share`."""

    @property
    @abstractmethod
    def tenure(self) -> int | None:
        """The tenure of the open study that this is a release of, which fills it in; None in a study that is not open."""

    @property
    @abstractmethod
    def share(self) -> Fraction:
        """The part of the study's budget that this release may spend, exactly as written, or `EQUAL_SHARE`."""

    @property
    @abstractmethod
    def measure(self) -> Measure:
        """How it is measured."""

    @classmethod
    @abstractmethod
    def from_table(cls, table: ReleaseTable, share: Fraction) -> Release:
        """The release that a table of a study file describes."""

    @property
    def first_column(self) -> int:
        """The period in which the first columns are released: those of all periods up to it."""
        return 1

    def column_alphabet(self, alphabet: tuple[str, ...]) -> tuple[str, ...]:
        """The symbols of the columns, in a study with this alphabet."""
        return alphabet

    def completed(self, alphabet: tuple[str, ...], tenure: int | None) -> Self:
        """This release with what depends on the study's alphabet and tenure filled in."""
        return replace(self, tenure=tenure)  # type: ignore[call-arg]  # a field of every kind

    @abstractmethod
    def check_fits(self, alphabet: tuple[str, ...], horizon: int) -> None:
        """Raise StudyError unless the release is possible in a study with this alphabet and horizon.

        In an open study `horizon` is the tenure, the longest history that a person can have.
        """

    @abstractmethod
    def fingerprint_values(self) -> Mapping[str, Any]:
        """The settings of this kind that are part of the study's fingerprint, as plain values."""

    def with_share(self, share: Fraction) -> Self:
        """The same release with another share of the budget."""
        return replace(self, share=share)  # type: ignore[call-arg]  # a field of every kind


FLOW_KEYS = ("weights", "tune")

NOT_WITH_PAPER = 'nothing with measure = "paper"'


@dataclass(frozen=True)
class WindowRelease(Release):
    """A window release: synthetic people whose last `k` symbols are distributed like the panel's.

    >>> sp.Window("quarterly", k=3).first_column
    1
    """

    k: int
    """Periods in a window."""
    measure: Measure = "flow"
    beta: float = 0.05
    """Probability that any bin is ever clamped; it determines the padding."""
    share: Fraction = EQUAL_SHARE
    """Share of the study's budget, exactly as written, or `EQUAL_SHARE`."""
    tenure: int | None = field(default=None, kw_only=True, repr=False)
    weights: Weights | None = field(default=None, kw_only=True)
    """Whether precision is distributed for the declared questions (`tuned`, which None stands for) or for bins (`rule`)."""
    tune: Tune = field(default="largest", kw_only=True)
    """What tuned weights minimise."""

    kind: ClassVar[str] = "window"
    keys: ClassVar[tuple[str, ...]] = ("k", "measure", "beta", *FLOW_KEYS)

    def __post_init__(self) -> None:
        check_release_name("release.name", self.name)
        study_check.whole(f"release.{self.name}.k", self.k, 1, MAX_HORIZON)
        _check_measure(self.name, self.measure)
        study_check.positive(f"release.{self.name}.beta", self.beta, 1, below=True)
        _check_weights(self.name, self.weights, self.tune)
        if self.measure == "paper" and self.weights is not None:
            raise StudyError(f"release.{self.name}.weights", format_value(self.weights), NOT_WITH_PAPER)
        object.__setattr__(self, "share", _checked_share(self.name, self.share))

    @classmethod
    def from_table(cls, table: ReleaseTable, share: Fraction) -> WindowRelease:
        measure, beta = table.get("measure", "flow"), table.real("beta", 0.05)
        return cls(table.get("name"), table.get("k"), measure, beta, share, **_flow_arguments(table))

    @property
    def first_column(self) -> int:
        """Under `paper`, the first `k` columns are released together, when the first windows are complete."""
        return self.k if self.measure == "paper" else 1

    def check_fits(self, alphabet: tuple[str, ...], horizon: int) -> None:
        q, longest = len(alphabet), 1
        while longest < horizon and q ** (longest + 1) <= MAX_BINS:
            longest += 1
        span = "horizon" if self.tenure is None else "tenure"
        why = f", since k is at most the {span} and {q}^k at most {MAX_BINS}"
        study_check.whole(f"release.{self.name}.k", self.k, 1, longest, why)
        if self.tenure is not None:
            _check_open_measure(self.name, self.measure)
            _check_no_open_weights(self.name, self.weights, self.tune)
            states = sum(q**length for length in range(1, self.k)) or 1
            check_open_automaton(f"release.{self.name}.k", self.k, q, states, self.tenure)

    def fingerprint_values(self) -> Mapping[str, Any]:
        return {"k": self.k, "measure": self.measure, "beta": self.beta} | _flow_values(self.weights, self.tune)


@dataclass(frozen=True)
class FlowSettings(Release):
    """The settings of the kinds that are measured on an automaton."""

    weights: Weights | None = field(default=None, kw_only=True)
    """How precision is distributed; None stands for `tuned` where that takes seconds, else for `rule`."""
    tune: Tune = field(default="largest", kw_only=True)
    """What tuned weights minimise."""
    share: Fraction = field(default=EQUAL_SHARE, kw_only=True)
    """Share of the study's budget, exactly as written, or `EQUAL_SHARE`."""
    tenure: int | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_release_name("release.name", self.name)
        _check_weights(self.name, self.weights, self.tune)
        object.__setattr__(self, "share", _checked_share(self.name, self.share))

    @property
    def measure(self) -> Measure:
        return "flow"

    def flow_values(self) -> dict[str, Any]:
        """The settings of the flow mechanism that are part of the fingerprint; each only if it is not the default."""
        return _flow_values(self.weights, self.tune)


@dataclass(frozen=True)
class EventRelease(FlowSettings):
    """The settings of the kinds that count events."""

    event: tuple[str, ...] = ()
    """The symbols that count as an event, or one symbol; empty stands for the second symbol of an alphabet of two."""

    def __post_init__(self) -> None:
        super().__post_init__()
        key = f"release.{self.name}.event"
        given: object = self.event
        if isinstance(given, str):
            object.__setattr__(self, "event", (self.event,))
        study_check.require(key, self.event, isinstance(self.event, tuple), EVENT_ALLOWED)
        for symbol in self.event:
            study_check.symbol(key, symbol)
        study_check.no_repeat(key, self.event)

    def column_alphabet(self, alphabet: tuple[str, ...]) -> tuple[str, ...]:
        return EVENT_ALPHABET

    def completed(self, alphabet: tuple[str, ...], tenure: int | None) -> Self:
        with_tenure = super().completed(alphabet, tenure)
        return with_tenure if self.event or len(alphabet) != 2 else replace(with_tenure, event=(alphabet[1],))

    def check_fits(self, alphabet: tuple[str, ...], horizon: int) -> None:
        key = f"release.{self.name}.event"
        if not self.event:
            raise StudyError(key, "nothing", EVENT_ALLOWED)
        for symbol in self.event:
            study_check.in_alphabet(key, symbol, alphabet)
        if len(self.event) == len(alphabet):
            raise StudyError(key, format_value(self.event), "not the whole alphabet, or every report is an event")
        if self.tenure is not None:
            _check_open_measure(self.name, self.measure)
            _check_no_open_weights(self.name, self.weights, self.tune)
        elif self.measure == "flow":
            _check_flow_horizon(self.kind, horizon)

    def event_mask(self, alphabet: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """For each symbol of the alphabet, whether it counts as an event: `mask[symbols]` is the column of events."""
        return np.array([symbol in self.event for symbol in alphabet])


EVENT_ALLOWED = "a list of symbols, at least one and not the whole alphabet"


def _event_of(table: ReleaseTable) -> tuple[str, ...]:
    event = table.words("event")
    if event == () or isinstance(event, str):
        # In a file, an empty list is not the same as leaving the key out, and a list is the only way to write symbols.
        got = format_value(event) if event else "[]"
        raise StudyError(f"release.{table.get('name')}.event", got, EVENT_ALLOWED)
    return () if event is None else event


def _flow_arguments(table: ReleaseTable) -> dict[str, Any]:
    return {"weights": table.get("weights", None), "tune": table.get("tune", "largest")}


@dataclass(frozen=True)
class CumulativeRelease(EventRelease):
    """A cumulative release: synthetic people whose number of events so far is distributed like the panel's.

    >>> sp.Cumulative("months-poor", event=("1",)).measure
    'flow'
    """

    measure: Measure = field(default="flow", kw_only=True)
    most: int | None = field(default=None, kw_only=True)
    """Counts of events above this are merged; None stands for the horizon, at most 64. Not with `paper`."""

    kind: ClassVar[str] = "cumulative"
    keys: ClassVar[tuple[str, ...]] = ("event", "measure", "most", *FLOW_KEYS, *REMOVED_CUMULATIVE_KEYS)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_measure(self.name, self.measure)
        if self.most is not None:
            study_check.whole(f"release.{self.name}.most", self.most, 1, MAX_COUNTED)
        if self.measure == "paper":
            for key in ("most", "weights"):
                if getattr(self, key) is not None:
                    got = format_value(getattr(self, key))
                    raise StudyError(f"release.{self.name}.{key}", got, NOT_WITH_PAPER)

    @classmethod
    def from_table(cls, table: ReleaseTable, share: Fraction) -> CumulativeRelease:
        for key in REMOVED_CUMULATIVE_KEYS:
            if (got := table.get(key, None)) is not None:
                allowed = 'no such key: measure = "flow" has less noise, measure = "paper" is the tree with its allocation'
                raise StudyError(f"release.{table.get('name')}.{key}", format_value(got), allowed)
        return cls(
            table.get("name"),
            _event_of(table),
            measure=table.get("measure", "flow"),
            most=table.get("most", None),
            share=share,
            **_flow_arguments(table),
        )

    def check_fits(self, alphabet: tuple[str, ...], horizon: int) -> None:
        super().check_fits(alphabet, horizon)
        if self.tenure is not None:
            check_open_automaton(f"release.{self.name}.most", self.most, 2, self.counted_up_to(horizon) + 1, self.tenure)
        if self.measure == "paper" and horizon > MAX_CUMULATIVE_HORIZON:
            allowed = f'at most {MAX_CUMULATIVE_HORIZON} with a cumulative release and measure = "paper"'
            raise StudyError("study.horizon", format_value(horizon), allowed)

    def counted_up_to(self, horizon: int) -> int:
        """The largest number of events that is told apart in a study of so many periods."""
        return min(horizon, MAX_COUNTED if self.most is None else self.most)

    def fingerprint_values(self) -> Mapping[str, Any]:
        values = {"measure": self.measure, "event": list(self.event)} | self.flow_values()
        return values if self.most is None else values | {"most": self.most}


@dataclass(frozen=True)
class SpellRelease(EventRelease):
    """A spell release: synthetic people whose current run of events is as long as those of the real people.

    >>> sp.Spell("long-spells", length=6, event="1").length
    6
    """

    length: int = field(kw_only=True)
    """Longer runs are counted as this long."""

    kind: ClassVar[str] = "spell"
    keys: ClassVar[tuple[str, ...]] = ("event", "length", *FLOW_KEYS)

    def __post_init__(self) -> None:
        super().__post_init__()
        study_check.whole(f"release.{self.name}.length", self.length, 1, MAX_COUNTED)

    @classmethod
    def from_table(cls, table: ReleaseTable, share: Fraction) -> SpellRelease:
        event = _event_of(table)
        return cls(table.get("name"), event, length=table.get("length"), share=share, **_flow_arguments(table))

    def check_fits(self, alphabet: tuple[str, ...], horizon: int) -> None:
        super().check_fits(alphabet, horizon)
        span = "horizon" if self.tenure is None else "tenure"
        study_check.whole(f"release.{self.name}.length", self.length, 1, horizon, f", the {span}")
        if self.tenure is not None:
            check_open_automaton(f"release.{self.name}.length", self.length, 2, self.length + 1, self.tenure)

    def fingerprint_values(self) -> Mapping[str, Any]:
        return {"length": self.length, "event": list(self.event)} | self.flow_values()


@dataclass(frozen=True)
class PatternRelease(FlowSettings):
    """A pattern release: synthetic people of whom as many have ever matched a regular expression as of the real people.

    >>> sp.Pattern("ever-half-a-year", pattern="1{6}").pattern
    '1{6}'
    """

    pattern: str = field(kw_only=True)
    """Regular expression over symbols, found anywhere in the history."""

    kind: ClassVar[str] = "pattern"
    keys: ClassVar[tuple[str, ...]] = ("pattern", *FLOW_KEYS)

    def __post_init__(self) -> None:
        super().__post_init__()
        key = f"release.{self.name}.pattern"
        study_check.require(key, self.pattern, isinstance(self.pattern, str), "a regular expression over symbols")

    @classmethod
    def from_table(cls, table: ReleaseTable, share: Fraction) -> PatternRelease:
        return cls(table.get("name"), pattern=table.get("pattern"), share=share, **_flow_arguments(table))

    def check_fits(self, alphabet: tuple[str, ...], horizon: int) -> None:
        if self.tenure is not None:
            allowed = "window, cumulative or spell in an open study"
            raise StudyError(f"release.{self.name}.kind", format_value(self.kind), allowed)
        _check_flow_horizon(self.kind, horizon)
        automaton = self.automaton(alphabet)
        periods = transitions_of(automaton, horizon)
        if not any(period.free for period in periods):
            got = f"{format_value(self.pattern)}, in which all histories of {horizon} periods are alike"
        elif automaton.states - 1 not in periods[-1].after:
            got = f"{format_value(self.pattern)}, which no history of {horizon} periods can match"
        else:
            got = ""
        if got:
            allowed = "a pattern that some histories match and others do not, or more periods"
            raise StudyError(f"release.{self.name}.pattern", got, allowed)

    def automaton(self, alphabet: tuple[str, ...]) -> Automaton:
        """The automaton of the pattern over the symbols of the alphabet. Its last state is "has matched"."""
        try:
            return Automaton.of_table(compile_pattern(self.pattern, alphabet))
        except PatternError as error:
            raise StudyError(
                f"release.{self.name}.pattern", f"{format_value(self.pattern)}, {error.problem}", error.remedy
            ) from None

    def fingerprint_values(self) -> Mapping[str, Any]:
        return {"pattern": self.pattern} | self.flow_values()


KIND_CLASSES = (WindowRelease, CumulativeRelease, SpellRelease, PatternRelease)

RELEASE_KINDS: Mapping[str, type[Release]] = {kind.kind: kind for kind in KIND_CLASSES}
"""The class of each kind, by the value of `kind` in the study file."""


def _check_measure(name: str, measure: object) -> None:
    key, replaced = f"release.{name}.measure", {"contrast": "flow", "histogram": "paper"}
    if isinstance(measure, str) and measure in replaced:
        raise StudyError(key, format_value(measure), f'"{replaced[measure]}", which replaces it')
    study_check.choice(key, measure, get_args(Measure), joiner=", ", quote='"')


def _check_open_measure(name: str, measure: Measure) -> None:
    if measure != "flow":
        raise StudyError(f"release.{name}.measure", format_value(measure), '"flow" in an open study')


def _check_no_open_weights(name: str, weights: Weights | None, tune: Tune) -> None:
    """Raise StudyError if weights are set in an open study, where every transition has the same weight."""
    for key, got, default in (("weights", weights, None), ("tune", tune, "largest")):
        if got != default:
            raise StudyError(f"release.{name}.{key}", format_value(got), "nothing in an open study")


def open_transitions(classes: int, states: int) -> int:
    """Number of transitions of an open automaton: entering, and for each state reporting and leaving."""
    return classes + states * (classes + 1)


def open_pair_steps(classes: int, states: int, tenure: int) -> int:
    """About the number of steps that the exact cost of a release of an open study takes."""
    return (states * classes * tenure) ** 2


def check_open_automaton(key: str, got: object, classes: int, states: int, tenure: int) -> None:
    """Raise StudyError if the matrices of a release in an open study, or its exact cost, would be too large to compute."""
    transitions = open_transitions(classes, states)
    if transitions > MAX_OPEN_TRANSITIONS:
        value = f"{format_value(got)}, with {transitions:,} ways to enter, report or leave"
        raise StudyError(key, value, f"at most {MAX_OPEN_TRANSITIONS:,} in an open study: lower it")
    steps = open_pair_steps(classes, states, tenure)
    if steps > MAX_PAIR_STEPS:
        value = f"{format_value(got)} with a tenure of {tenure}, whose exact cost takes {steps:,} steps"
        raise StudyError(key, value, f"at most {MAX_PAIR_STEPS:,} steps: lower it, or the tenure")


def _check_weights(name: str, weights: object, tune: object) -> None:
    if weights is not None:
        study_check.choice(f"release.{name}.weights", weights, get_args(Weights), joiner=", ", quote='"')
    study_check.choice(f"release.{name}.tune", tune, get_args(Tune), joiner=", ", quote='"')


def _flow_values(weights: Weights | None, tune: Tune) -> dict[str, Any]:
    values = {} if weights is None else {"weights": weights}
    return values if tune == "largest" else values | {"tune": tune}


def _check_flow_horizon(kind: str, horizon: int) -> None:
    if horizon > MAX_FLOW_HORIZON:
        raise StudyError("study.horizon", format_value(horizon), f"at most {MAX_FLOW_HORIZON} with a {kind} release")


def check_release_name(key: str, value: object) -> None:
    """Check a release's name. Its file is next to `errors.csv`, which `replay --repeat` writes."""
    study_check.name(key, value)
    study_check.require(key, value, value != "errors", "another name, since errors.csv holds the errors of a replay")


def _checked_share(name: str, share: object) -> Fraction:
    if isinstance(share, float | Decimal) and isfinite(share) and 0 < share <= 1:
        share = Fraction(str(share))  # as written: the nearest float would not add up to exactly 1 with the others
    if not (isinstance(share, Fraction) and 0 <= share <= 1):
        raise StudyError(f"release.{name}.share", format_value(share), "a fraction above 0 and at most 1")
    return share


def check_shares(releases: Sequence[Release]) -> None:
    """Raise StudyError if the releases together may spend more than the study's budget."""
    left = Fraction(1)
    for release in releases:
        if release.share > left:
            allowed = f"at most {format_value(left)}, what the releases before it leave of the budget"
            raise StudyError(f"release.{release.name}.share", format_value(release.share), allowed)
        left -= release.share


def share_the_rest(releases: Sequence[Release]) -> tuple[Release, ...]:
    """The releases with all shares filled in: those without a stated share get equal parts of what the others leave."""
    without = [release for release in releases if release.share == EQUAL_SHARE]
    if not without:
        return tuple(releases)
    rest = 1 - sum((release.share for release in releases), Fraction(0))
    if rest <= 0:
        allowed = "lower shares of the other releases, which leave nothing of the budget"
        raise StudyError(f"release.{without[0].name}.share", "nothing", allowed)
    equal = rest / len(without)
    return tuple(release.with_share(equal) if release.share == EQUAL_SHARE else release for release in releases)
