"""Reads the gatherers' tallies and adds them up, once every partition has sent the tally of a period."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamproc.errors import Malformed, StudyWithoutPeople, TallyConflict
from streamproc.log.port import Log, Offset
from streamproc.log.topic_tail import TopicTail
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.tallies import Conflict, Tally, TallyAssembler, decode_tally
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import make_tallier
from streamproc.study import Study

RECHECKED_PERIODS = 64
"""Open studies: a tally that comes again is compared with the first one for so many periods after its own.

An open study has any number of periods, and comparing needs memory for each of them. A gatherer that starts again sends
at most the tallies after its last checkpoint.
"""


@dataclass(frozen=True)
class StudyTally:
    """One period of the whole study: the sum over all partitions. It is exact, and so it is secret."""

    period: Period
    people: int
    """Number of individuals in the study. In an open study, those who are present after the period."""
    counts: dict[str, IntArray]
    """Counts of each release, by its name."""
    last: bool = False
    """Whether an open study ends with this period."""


def population_size(tally: StudyTally) -> int:
    """The number of individuals `n`, from the tally of any period. Raises StudyWithoutPeople if it is 0.

    In an open study it changes from period to period.
    """
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
        self._assemblers: dict[int, TallyAssembler] = defaultdict(TallyAssembler)
        """One for each period, so that it can be dropped."""
        self._waiting: dict[int, dict[int, Tally]] = defaultdict(dict)
        self._reported: Counter[int] = Counter()
        self._watermark = Period(0)
        self._people: dict[int, int] = {}
        """Number of individuals of each partition, which never changes in a closed study."""
        self._forgotten = Period(0)
        self._dropped = Period(0)
        """Tallies up to this period are not read any more."""

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
        return self._watermark

    def forget(self, through: Period) -> None:
        """Drop the tallies of the periods up to `through`.

        Those that are read later are still checked; in an open study, if they are not older than `RECHECKED_PERIODS`.
        """
        self._forgotten = max(self._forgotten, through)
        _drop(self._waiting, self._forgotten)
        if self._study.is_open:
            self._dropped = Period(max(self._forgotten - RECHECKED_PERIODS, 0))
            _drop(self._assemblers, self._dropped)
            _drop(self._reported, self._dropped)
            # Every period that was forgotten was complete.
            self._watermark = max(self._watermark, self._dropped)

    async def poll(self, *, timeout: float) -> None:
        """Read the tallies that were appended, waiting up to `timeout` seconds for one. Raises TallyConflict."""
        for record in await self._tail.poll(timeout=timeout):
            try:
                chunk = decode_tally(record.value)
                if chunk.period <= self._dropped:
                    continue
                tally = self._assemblers[chunk.period].add(chunk)
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
        """The sum of a period's tallies; None before the tallies of all partitions were read.

        Raises TallyConflict if they disagree on whether it is the last period.
        """
        tallies = self._waiting.get(period, {})
        if len(tallies) < self._study.broker.partitions:
            return None
        counts = {
            release.name: np.sum([tally.counts[release.name] for tally in tallies.values()], axis=0)
            for release in self._study.releases
        }
        if len({tally.last for tally in tallies.values()}) > 1:
            problem = "only some of its tallies say that the study ends with it"
            raise TallyConflict(f"period {period}: {problem}", period=period)
        return StudyTally(period, sum(tally.people for tally in tallies.values()), counts, tallies[0].last)

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
        if not self._study.is_open and self._people.setdefault(tally.partition, tally.people) != tally.people:
            raise _conflict(tally, "its number of people changed")
        if not self._is_consistent(tally):
            raise _conflict(tally, "tally does not match the study (period, releases, number of bins, or total)")
        self._reported[tally.period] += 1
        if self._reported[tally.period] == self._study.broker.partitions:
            self._watermark = max(self._watermark, tally.period)
        if tally.period > self._forgotten:
            self._waiting[tally.period][tally.partition] = tally

    def _is_consistent(self, tally: Tally) -> bool:
        """Whether a tally has a period and the releases of the study, and counts that its number of people can have.

        In a window release everybody is counted once, from period `k` on. In a cumulative release everybody is counted at
        most once, because one period adds at most one to an individual's sum. In an open study everybody who is present
        after the period has entered or stayed in it.
        """
        study, counts = self._study, tally.counts
        if tally.period > study.last_period or (tally.last and not study.is_open):
            return False
        if {release.name for release in study.releases} != set(counts):
            return False
        for release in study.releases:
            tallier, counted = make_tallier(study, release), counts[release.name]
            if len(counted) != tallier.size or not tallier.is_possible(counted, tally.people, tally.period):
                return False
        return True


def _drop(by_period: dict[int, Any] | Counter[int], through: Period) -> None:
    for period in [period for period in by_period if period <= through]:
        del by_period[period]


def _conflict(tally: Tally | Conflict, problem: str) -> TallyConflict:
    message = f"partition {tally.partition}, period {tally.period}: {problem}"
    return TallyConflict(message, partition=tally.partition, period=tally.period)
