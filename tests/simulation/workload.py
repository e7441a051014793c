"""The workload of a run: the study, the reports that clients send, and which process gathers which partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from random import Random
from typing import Literal

from streamproc.study import (
    Broker,
    CumulativeRelease,
    Missing,
    PatternRelease,
    Population,
    Privacy,
    Release,
    Schedule,
    SpellRelease,
    Study,
    WindowRelease,
)
from streamproc.study.releases import Tune, Weights
from streamproc.testing import BEGINNING

PERIOD = 1.0
"""Length of a period in seconds."""

SYMBOLS = ("symbol-calm", "symbol-torn", "symbol-worn")
STRANGE_SYMBOL = "symbol-strange"
"""A symbol outside of every alphabet."""

WEIGHTS: tuple[Weights | None, ...] = (None, "rule")
TUNED_FOR: tuple[Tune, ...] = ("largest", "mean")

Way = Literal["alone", "packed", "committed", "aborted", "left open", "foreign", "broken"]
"""How a report is written to the log: as a record of its own, packed into a batch, in a client's transaction, to a wrong
partition, or truncated."""


@dataclass(frozen=True)
class SentReport:
    """A report that a client sends `at` virtual seconds after the start."""

    at: float
    individual: str
    period: int
    symbol: str
    way: Way = "alone"


@dataclass(frozen=True)
class Workload:
    """Everything that determines a run except its faults."""

    study: Study
    roster: tuple[str, ...] | None
    clients: Sequence[Sequence[SentReport]]
    gatherers: Sequence[tuple[int, ...]]
    """For each gatherer process the partitions it is pinned to; empty if the group assigns them."""
    closes: int
    """Number of periods that the steward closes; all of them if there is a schedule."""
    silent: bool
    """Whether noise is zero."""
    longest_read: int = 1_000_000
    """Maximum number of records in one read."""
    longest_marker_lag: float = 0.0
    """Maximum delay of transaction markers in seconds."""

    @property
    def length(self) -> float:
        """Virtual seconds until all reports are sent."""
        return PERIOD * (self.study.last_period + 2)


def draw_workload(random: Random) -> Workload:
    study = _study(random)
    people = [f"person-{random.getrandbits(48):012x}" for _ in range(random.randint(4, 9))]
    strangers = [f"stranger-{random.getrandbits(48):012x}" for _ in range(2)]
    reports = [report for each in people for report in _reports_of(random, study, each)]
    reports += [report for each in strangers for report in _reports_of(random, study, each) if random.random() < 0.3]
    clients = random.randint(1, 2)
    ordered = sorted(reports, key=lambda report: report.at)
    roster = None if study.population.roster is None else tuple(people)
    workload = Workload(
        study=study,
        roster=roster,
        clients=[ordered[client::clients] for client in range(clients)],
        gatherers=_gatherers(random, study.broker.partitions),
        closes=study.last_period if study.schedule or random.random() < 0.8 else random.randint(1, study.last_period),
        silent=random.random() < 0.4,
        longest_read=random.choice((1, 3, 1_000_000, 1_000_000)),
        longest_marker_lag=random.choice((0.0, 0.0, 0.8)),
    )
    # With a grace the next period's reports come before the cut.
    ahead = random.choice((None, None, None, 1 if study.schedule is None else study.schedule.periods_ahead))
    return replace(workload, study=_limited(study, ahead))


def _study(random: Random) -> Study:
    horizon, symbols = random.randint(2, 4), random.randint(2, 3)
    alphabet = SYMBOLS[:symbols]
    releases = _releases(random, horizon)
    population = Population(
        initial=random.choice(alphabet),
        size=random.choice((None, None, 20)),
        roster="people.txt" if random.random() < 0.4 else None,
        missing=Missing(random.choice((None, None, alphabet[-1]))),
        duplicates=random.choice(("first", "last")),
    )
    schedule = None
    if random.random() < 0.35:
        every = timedelta(seconds=PERIOD)
        grace, release_after = random.choice((0, 1)), random.choice((None, 0, 2, 5))
        schedule = Schedule(
            BEGINNING,
            every,
            grace=timedelta(seconds=grace),
            release_after=None if release_after is None else timedelta(seconds=release_after),
        )
    return _shaped(alphabet, horizon, population, releases, random.randint(1, 3), schedule)


def _releases(random: Random, horizon: int) -> tuple[Release, ...]:
    """One to three releases of different kinds, each measured in any way that its kind has."""
    event, calm, torn = (SYMBOLS[1],), f"<{SYMBOLS[0]}>", f"<{SYMBOLS[1]}>"
    weights, tune = random.choice(WEIGHTS), random.choice(TUNED_FOR)
    counted: tuple[Release, ...] = (
        CumulativeRelease("counts", event, measure="paper"),
        CumulativeRelease("counts", event, weights=weights, tune=tune),
        CumulativeRelease("counts", event, most=random.randint(1, 2), weights=weights, tune=tune),
    )
    every: tuple[Release, ...] = (
        WindowRelease("windows", random.randint(1, min(3, horizon)), measure=random.choice(("flow", "flow", "paper"))),
        random.choice(counted),
        SpellRelease("spells", event, length=random.randint(1, 2), weights=weights, tune=tune),
        PatternRelease(
            "patterns", pattern=random.choice((torn, f"{torn}{{2}}", f"{calm}.?{torn}")), weights=weights, tune=tune
        ),
    )
    chosen = random.sample(range(len(every)), random.choice((1, 2, 2, 3)))
    return tuple(every[place] for place in sorted(chosen))


@lru_cache(maxsize=4096)
def _limited(study: Study, ahead: int | None) -> Study:
    return study if ahead is None else replace(study, population=replace(study.population, ahead=ahead))


@lru_cache(maxsize=4096)
def _shaped(
    alphabet: tuple[str, ...],
    horizon: int,
    population: Population,
    releases: tuple[Release, ...],
    partitions: int,
    schedule: Schedule | None,
) -> Study:
    return Study(
        name="study",
        alphabet=alphabet,
        horizon=horizon,
        population=population,
        privacy=Privacy(rho=20.0),
        releases=releases,
        broker=Broker("embedded:study", partitions),
        schedule=schedule,
    )


def _reports_of(random: Random, study: Study, individual: str) -> list[SentReport]:
    """The reports of one individual: for most periods one valid report in time."""
    said = []
    for period in range(1, study.last_period + 1):
        if random.random() < 0.12:
            continue
        for _ in range(random.choice((1, 1, 1, 1, 2))):
            at = PERIOD * (period - 1 + random.random() * (1.6 if random.random() < 0.15 else 0.9))
            claimed = (
                period
                if random.random() < 0.96
                else random.choice((0, study.last_period + 1, min(period + 1, study.last_period)))
            )
            symbol = random.choice(study.alphabet) if random.random() < 0.96 else STRANGE_SYMBOL
            said.append(SentReport(at, individual, claimed, symbol, _way(random)))
    return said


def _way(random: Random) -> Way:
    ways: tuple[Way, ...] = ("alone", "packed", "committed", "aborted", "left open", "foreign", "broken")
    return random.choices(ways, (70, 14, 4, 4, 1, 4, 3))[0]


def _gatherers(random: Random, partitions: int) -> list[tuple[int, ...]]:
    """Draw a group, a pinned process for each partition, or both; then two processes gather the same partition."""
    group: list[tuple[int, ...]] = [()] * random.randint(1, 2)
    pinned: list[tuple[int, ...]] = [(partition,) for partition in range(partitions)]
    ways: list[list[tuple[int, ...]]] = [group, pinned, group + pinned[:1]]
    return random.choices(ways, (5, 3, 2))[0]
