"""Reads the gatherers' tallies and adds them up, once every partition has sent the tally of a period."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from streamproc.errors import Malformed, StudyWithoutPeople, TallyConflict
from streamproc.log.port import Log, Offset
from streamproc.log.topic_tail import TopicTail
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.tallies import Conflict, Tally, TallyAssembler, decode_tally
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import make_tallier
from streamproc.study import Study


@dataclass(frozen=True)
class StudyTally:
    """One period of the whole study: the sum over all partitions. It is exact, and so it is secret."""

    period: Period
    people: int
    """Number of individuals in the study."""
    counts: dict[str, IntArray]
    """Counts of each release, by its name."""


def population_size(tally: StudyTally) -> int:
    """The number of individuals `n`, from the tally of any period. Raises StudyWithoutPeople if it is 0."""
    if tally.people == 0:
        raise StudyWithoutPeople(
            "nobody reported in period 1, so the study has no people; begin another, under another name"
        )
    return tally.people


class TallyReader:
    """Reads the tallies topic from its start, and checks every tally against the study."""

    def __init__(self, study: Study, tail: TopicTail) -> None:
        self._study = study
        self._tail = tail
        self._assembler = TallyAssembler()
        self._waiting: dict[int, dict[int, Tally]] = defaultdict(dict)
        self._reported: Counter[int] = Counter()
        self._people: dict[int, int] = {}
        self._forgotten = Period(0)

    @classmethod
    async def open(cls, log: Log, study: Study) -> TallyReader:
        """A reader that starts at the first tally. Raises NoSuchTopic, or TopicLost if the first records are gone."""
        tail = TopicTail(log, Topics(study.name).tallies)
        await tail.open()
        return cls(study, tail)

    async def close(self) -> None:
        """Stop reading."""
        await self._tail.close()

    @property
    def topic(self) -> str:
        """The study's tallies topic."""
        return self._tail.topic

    @property
    def position(self) -> Offset:
        """The offset after the last record that was read."""
        return self._tail.position

    @property
    def watermark(self) -> Period:
        """The last period of which the tallies of all partitions were read."""
        complete = [period for period, count in self._reported.items() if count == self._study.broker.partitions]
        return Period(max(complete, default=0))

    def forget(self, through: Period) -> None:
        """Drop the tallies of the periods up to `through`. Those that are read later are still checked."""
        self._forgotten = max(self._forgotten, through)
        for period in [period for period in self._waiting if period <= through]:
            del self._waiting[period]

    async def poll(self, *, timeout: float) -> None:
        """Read the tallies that were appended, waiting up to `timeout` seconds for one. Raises TallyConflict."""
        for record in await self._tail.poll(timeout=timeout):
            try:
                tally = self._assembler.add(decode_tally(record.value))
            except Malformed as malformed:
                raise TallyConflict(f"tallies offset {record.offset}: no tally: {malformed.reason}") from None
            if isinstance(tally, Conflict):
                raise _conflict(tally, "two different tallies; a gatherer read another log or another study")
            if tally is not None:
                self._add(tally)

    async def catch_up(self) -> None:
        """Read all tallies that are in the topic now. Raises TallyConflict."""
        while not await self._tail.is_caught_up():
            await self.poll(timeout=0.5)

    def complete(self, period: Period) -> StudyTally | None:
        """The sum of a period's tallies; None before the tallies of all partitions were read."""
        tallies = self._waiting.get(period, {})
        if len(tallies) < self._study.broker.partitions:
            return None
        counts = {
            release.name: np.sum([tally.counts[release.name] for tally in tallies.values()], axis=0)
            for release in self._study.releases
        }
        return StudyTally(period, sum(tally.people for tally in tallies.values()), counts)

    def missing(self, period: Period) -> list[int]:
        """The partitions of which no tally of this period was read. The period must not be forgotten."""
        return [each for each in range(self._study.broker.partitions) if each not in self._waiting.get(period, {})]

    def _add(self, tally: Tally) -> None:
        if tally.partition >= self._study.broker.partitions:
            raise TallyConflict(
                f"a tally of partition {tally.partition}, but the study has {self._study.broker.partitions}",
                partition=tally.partition,
                period=tally.period,
            )
        if self._people.setdefault(tally.partition, tally.people) != tally.people:
            raise _conflict(tally, "its number of people changed")
        if not self._is_consistent(tally):
            raise _conflict(tally, "tally does not match the study (period, releases, number of bins, or total)")
        self._reported[tally.period] += 1
        if tally.period > self._forgotten:
            self._waiting[tally.period][tally.partition] = tally

    def _is_consistent(self, tally: Tally) -> bool:
        """Whether a tally has a period and the releases of the study, and counts that its number of people can have.

        In a window release everybody is counted once, from period `k` on. In a cumulative release everybody is counted at
        most once, because one period adds at most one to an individual's sum.
        """
        study, counts = self._study, tally.counts
        if tally.period > study.last_period or {release.name for release in study.releases} != set(counts):
            return False
        for release in study.releases:
            tallier, counted = make_tallier(study, release), counts[release.name]
            if len(counted) != tallier.size or not tallier.is_possible(counted, tally.people, tally.period):
                return False
        return True


def _conflict(tally: Tally | Conflict, problem: str) -> TallyConflict:
    message = f"partition {tally.partition}, period {tally.period}: {problem}"
    return TallyConflict(message, partition=tally.partition, period=tally.period)
