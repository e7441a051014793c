"""The panels that the experiments release, each with the questions that are asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments import panels
from experiments.actcal_data import ALPHABET, NoActcal, actcal
from experiments.report import Settings
from experiments.trials import Symbols
from streamproc.study import CumulativeRelease, PatternRelease, SpellRelease, WindowRelease
from streamproc.study.releases import Measure

SPELL = 6
"""Half a year: the longest spell that is told apart, and the length of the pattern."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A panel, the window it is asked about, and the symbol that counts as an event."""

    name: str
    alphabet: str
    symbols: Symbols
    k: int
    event: str
    window_questions: Mapping[str, str]
    """Questions to a window release: what tables and figures show, and the text."""
    asked: tuple[int, ...]
    """The periods at whose end the window questions are asked."""

    @property
    def horizon(self) -> int:
        """Number of periods."""
        return int(self.symbols.shape[1])

    def window(self, measure: Measure = "flow") -> WindowRelease:
        """The window release."""
        return WindowRelease("window", self.k, measure)

    def cumulative(self, measure: Measure = "flow") -> CumulativeRelease:
        """The release of running counts of events."""
        return CumulativeRelease("cumulative", (self.event,), measure=measure)

    def spell(self) -> SpellRelease:
        """The release of current spells of events."""
        return SpellRelease("spell", (self.event,), length=SPELL)

    def pattern(self) -> PatternRelease:
        """The release of whether a person has ever had `SPELL` events in a row."""
        return PatternRelease("pattern", pattern=f"{self.event}{{{SPELL}}}")


def poverty(symbols: Symbols, name: str = "poverty") -> Subject:
    """A panel of 12 months in which 1 is poor, with the paper's four questions about each quarter."""
    questions = {
        "at least one month": 'count("1") >= 1 of 3',
        "at least two months": 'count("1") >= 2 of 3',
        "two months in a row": 'run("1") >= 2 of 3',
        "all three months": 'count("1") >= 3 of 3',
    }
    return Subject(name, "01", symbols, 3, "1", questions, (3, 6, 9, 12))


def activity(symbols: Symbols, name: str = "actcal") -> Subject:
    """A panel of 12 months like `actcal`: A full time, B long part time, C short part time, D no work."""
    questions = {
        "no work in at least one month": 'count("D") >= 1 of 2',
        "no work in both months": 'count("D") >= 2 of 2',
        "found work": 'lag 1 in ("D") and now in ("A", "B", "C")',
        "full time in both months": 'count("A") >= 2 of 2',
    }
    return Subject(name, ALPHABET, symbols, 2, "D", questions, (2, 4, 6, 8, 10, 12))


def constant(people: int = 25_000, horizon: int = 12) -> Subject:
    """Everybody reports 1, always."""
    return Subject("constant", "01", panels.constant(people, horizon, 1), 3, "1", {}, ())


def both_panels(settings: Settings) -> list[Subject]:
    """The simulated poverty panel, and `actcal` unless it cannot be had, after saying so."""
    found = [poverty(panels.poverty())]
    try:
        found.append(activity(actcal(settings)))
    except NoActcal as reason:
        settings.console.print(f"left out actcal: {reason}", soft_wrap=True)
    return found
