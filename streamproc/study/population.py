"""Who takes part in a study, and what stands in for a report that did not come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from streamproc.study.checks import check_choice, check_path, check_symbol, check_whole
from streamproc.study.release import MAX_HORIZON

Duplicates = Literal["first", "last"]

MAX_PEOPLE = 2**30


@dataclass(frozen=True)
class Missing:
    """How a missing report is filled: with the symbol before it, or always with `fill`. Never from other people."""

    fill: str | None = None
    """The fixed symbol; None carries the person's own last symbol on."""

    def __post_init__(self) -> None:
        if self.fill is not None:
            check_symbol("population.missing", self.fill)

    def __str__(self) -> str:
        return "carry" if self.fill is None else f"fill:{self.fill}"


@dataclass(frozen=True, kw_only=True)
class Population:
    """Who takes part."""

    initial: str
    """What `carry` takes before a person's first report."""
    size: int | None = None
    """People expected: for planning, and checked against a panel file."""
    roster: str | None = None
    """File with an id a line; None admits whoever reports in period 1."""
    missing: Missing = Missing()
    duplicates: Duplicates = "first"
    """Which of a person's reports for one period counts."""
    ahead: int | None = None
    """A report for a period further ahead of the last one closed before it is rejected; None rejects none for that."""

    def __post_init__(self) -> None:
        if self.size is not None:
            check_whole("population.size", self.size, 1, MAX_PEOPLE)
        if self.roster is not None:
            check_path("population.roster", self.roster)
        check_symbol("population.initial", self.initial)
        check_choice("population.duplicates", self.duplicates, get_args(Duplicates))
        if self.ahead is not None:
            check_whole("population.ahead", self.ahead, 1, MAX_HORIZON)
