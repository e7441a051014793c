"""Panels of open studies, and how many of their people are in what a question asks, by plain Python over their reports."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from streamproc.offline import ReplayResult, replay_study, tallies_of
from streamproc.panel import Panel
from streamproc.privacy.noise import Entropy
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.query import (
    AtLeast,
    EventCount,
    InSpell,
    LastSymbols,
    Query,
    at_least,
    count_of,
    exactly,
    in_spell,
    since_entry,
)
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, Release, SpellRelease, Study, WindowRelease
from tests.releases.open_histories import Person, Reports, flows_at, histories_at, open_study, people_of, random_reports

RELEASES: dict[str, Release] = {
    "k1": WindowRelease("r", 1),
    "k2": WindowRelease("r", 2),
    "k3": WindowRelease("r", 3),
    "spell": SpellRelease("r", ("1",), length=3),
    "cumulative": CumulativeRelease("r", ("1",), most=3),
}
"""A release of each kind of an open study, and windows of each width."""

QUESTIONS: dict[str, list[Query]] = {
    "k1": [exactly("1")],
    "k2": [exactly("1"), exactly("0", "1"), since_entry("1")],
    "k3": [exactly("1"), count_of("1", at_least=2, of=3), exactly("1", "1"), since_entry("1", "0")],
    "spell": [in_spell(1), in_spell(2)],
    "cumulative": [at_least(1), at_least(3), EventCount(2)],
}
"""Shares that each of them can be asked for."""

History = tuple[int, ...]
"""The symbols of a person since entry, as places in an alphabet of two."""


class Truth:
    """The people of an open study, report by report."""

    def __init__(self, study: Study, reports: Reports) -> None:
        self._study, self._reports = study, reports

    @cached_property
    def _people(self) -> list[Person]:
        return people_of(self._study, self._reports)

    def people(self, query: Query, period: int) -> tuple[int, int]:
        """How many people the question is true of, and how many it asks about."""
        histories = histories_at(self._people, period)
        asked = [history for history in histories if len(history) >= getattr(query, "width", 1)]
        return sum(map(_holds(query), asked)), len(asked)

    def flows(self, period: int) -> list[int]:
        """How many people are present, entered and left."""
        return flows_at(self._people, period)

    def retention(self, period: int, tenure: int) -> tuple[int, int]:
        """How many are present, and how many entered in the last `tenure` periods."""
        entered = [self.flows(place)[1] for place in range(max(period - tenure, 0) + 1, period + 1)]
        return self.flows(period)[0], sum(entered)


def _holds(query: Query) -> Callable[[History], bool]:
    if isinstance(query, LastSymbols):
        return lambda history: query.holds(tuple(map(str, history[-query.width :])))
    if isinstance(query, InSpell):
        return lambda history: len(history) >= query.length and all(history[-query.length :])
    if isinstance(query, AtLeast):
        return lambda history: sum(history) >= query.b
    if isinstance(query, EventCount):
        return lambda history: sum(history) == query.b
    symbols = getattr(query, "symbols")  # noqa: B009
    return lambda history: tuple(map(str, history)) == symbols


def replayed(study: Study, reports: Reports, entropy: Entropy) -> ReplayResult:
    """A replay of an open study."""
    return replay_study(study, stated_contracts(study, 0, insecure=True), tallies_of(study, reports), entropy)


def open_panel(
    kind: str, *, periods: int = 12, people: int = 600, seed: int = 1, rho: float = 1.0, tenure: int = 4
) -> Panel:
    """The panel of a small open study with one of `RELEASES`."""
    study = open_study(RELEASES[kind], tenure=tenure, rho=rho)
    return replayed(study, random_reports(people, periods, seed), SeededEntropy(seed)).panels["r"]
