"""The two kinds of release, and how releases share a study's budget."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Literal, get_args

from streamproc.errors import StudyError
from streamproc.privacy.counters import CounterName
from streamproc.privacy.cumulative import Allocation
from streamproc.privacy.window import Measure
from streamproc.validation import (
    check_choice,
    check_name,
    check_no_repeat,
    check_positive,
    check_symbol,
    check_whole,
    format_value,
)

MAX_HORIZON = 10_000
"""Periods of a study."""


@dataclass(frozen=True)
class WindowRelease:
    """Synthetic people whose last `k` symbols are distributed like the panel's, at every period from `k` on."""

    name: str
    k: int
    """Periods in a window."""
    measure: Measure = "contrast"
    beta: float = 0.05
    """Chance that any bin is ever clamped; it sets the padding."""
    share: Fraction = Fraction(1)
    """Of the study's budget, exactly as written."""

    kind: ClassVar[Literal["window"]] = "window"

    def __post_init__(self) -> None:
        check_release_name("release.name", self.name)
        check_whole(f"release.{self.name}.k", self.k, 1, MAX_HORIZON)
        check_choice(f"release.{self.name}.measure", self.measure, get_args(Measure))
        check_positive(f"release.{self.name}.beta", self.beta, 1, below=True)
        _check_share(self.name, self.share)


@dataclass(frozen=True)
class CumulativeRelease:
    """Synthetic people whose number of ones so far is distributed like the panel's, at every period."""

    name: str
    event: tuple[str, ...]
    """The symbols that count as a one."""
    counter: CounterName = "sqrt"
    allocation: Allocation = "equal-max"
    share: Fraction = Fraction(1)
    """Of the study's budget, exactly as written."""

    kind: ClassVar[Literal["cumulative"]] = "cumulative"

    def __post_init__(self) -> None:
        check_release_name("release.name", self.name)
        _check_event(f"release.{self.name}.event", self.event)
        check_choice(f"release.{self.name}.counter", self.counter, get_args(CounterName))
        check_choice(f"release.{self.name}.allocation", self.allocation, get_args(Allocation))
        _check_share(self.name, self.share)


Release = WindowRelease | CumulativeRelease


def check_release_name(key: str, value: object) -> None:
    """A release's name is also that of its file, next to `errors.csv`, which `replay --repeat` writes."""
    check_name(key, value)
    if value == "errors":
        raise StudyError(key, format_value(value), "another name, since errors.csv holds the errors of a replay")


def _check_event(key: str, event: object) -> None:
    if not (isinstance(event, tuple) and event):
        raise StudyError(key, format_value(event), "a list of symbols, at least one and not the whole alphabet")
    for symbol in event:
        check_symbol(key, symbol)
    check_no_repeat(key, event)


def _check_share(name: str, share: object) -> None:
    # A float would not add up to exactly 1 with the others.
    if not (isinstance(share, Fraction) and 0 < share <= 1):
        raise StudyError(f"release.{name}.share", format_value(share), "a fraction above 0 and at most 1")


def check_shares(releases: Sequence[Release]) -> None:
    """Together, releases spend at most the study's budget."""
    left = Fraction(1)
    for release in releases:
        if release.share > left:
            allowed = f"at most {format_value(left)}, what the releases before it leave of the budget"
            raise StudyError(f"release.{release.name}.share", format_value(release.share), allowed)
        left -= release.share


def share_the_rest(releases: Sequence[Release], open_places: Collection[int]) -> tuple[Release, ...]:
    """The releases, those at `open_places` with equal shares of what the others leave."""
    if not open_places:
        return tuple(releases)
    rest = 1 - sum((r.share for place, r in enumerate(releases) if place not in open_places), Fraction(0))
    if rest <= 0:
        name = releases[min(open_places)].name
        allowed = "a share, but the other releases leave nothing of the budget: lower theirs"
        raise StudyError(f"release.{name}.share", "nothing", allowed)
    equal = rest / len(open_places)
    return tuple(replace(r, share=equal) if place in open_places else r for place, r in enumerate(releases))
