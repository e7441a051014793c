"""Collecting the gatherers' tallies until every partition has reported a period."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from streamproc.errors import Malformed, Refused
from streamproc.log.port import Log, Offset, Reader
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.tallies import Conflict, Tally, TallyAssembler, decode_tally
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import make_tallier
from streamproc.study import Study


@dataclass(frozen=True)
class StudyTally:
    """One period of the whole study: the sum over all partitions. Exact, secret."""

    period: Period
    people: int
    counts: dict[str, IntArray]


def population_size(tally: StudyTally) -> int:
    """`n`, by the tally of any period; a study of nobody would spend its budget on nobody."""
    if tally.people == 0:
        raise Refused("nobody reported in period 1, so the study has no people; begin another, under another name")
    return tally.people


class TallyReader:
    """Reads the tallies topic from its start and answers period by period."""

    def __init__(self, study: Study, reader: Reader) -> None:
        self._study = study
        self._reader = reader
        self._assembler = TallyAssembler()
        self._waiting: dict[int, dict[int, Tally]] = defaultdict(dict)
        self._reported: Counter[int] = Counter()
        self._people: dict[int, int] = {}
        self._forgotten = Period(0)

    @classmethod
    async def open(cls, log: Log, study: Study) -> TallyReader:
        """An inbox that starts at the first tally ever sent; refuses if that is gone."""
        topic = Topics(study.name).tallies
        if await log.start_offset(topic, 0) > 0:
            raise Refused(f"topic {topic}: its first records are gone; it must be kept for ever")
        return cls(study, await log.reader(topic, 0, Offset(0)))

    async def close(self) -> None:
        """Stop reading."""
        await self._reader.close()

    @property
    def topic(self) -> str:
        """The study's tallies topic."""
        return Topics(self._study.name).tallies

    @property
    def position(self) -> Offset:
        """Where it has read up to."""
        return self._reader.position

    @property
    def watermark(self) -> Period:
        """The last period that every partition has tallied, of those read so far."""
        whole = [period for period, partitions in self._reported.items() if partitions == self._study.broker.partitions]
        return Period(max(whole, default=0))

    def forget(self, through: Period) -> None:
        """Let go of the tallies up to this period, which nobody will ask for; they are still checked as they come."""
        self._forgotten = max(self._forgotten, through)
        for period in [period for period in self._waiting if period <= through]:
            del self._waiting[period]

    async def poll(self, *, timeout: float) -> None:
        """Read what has come, waiting up to `timeout` seconds for something."""
        for record in await self._reader.read(timeout=timeout):
            try:
                tally = self._assembler.add(decode_tally(record.value))
            except Malformed as malformed:
                raise Refused(f"tallies offset {record.offset}: no tally: {malformed.reason}") from None
            if isinstance(tally, Conflict):
                raise Refused(
                    f"partition {tally.partition}, period {tally.period}: two different tallies; a gatherer read another "
                    "log or another study"
                )
            if tally is not None:
                self._take(tally)

    def complete(self, period: Period) -> StudyTally | None:
        """The sum for this period once every partition is in."""
        tallies = self._waiting.get(period, {})
        if len(tallies) < self._study.broker.partitions:
            return None
        counts = {
            release.name: np.sum([tally.counts[release.name] for tally in tallies.values()], axis=0)
            for release in self._study.releases
        }
        return StudyTally(period, sum(tally.people for tally in tallies.values()), counts)

    def missing(self, period: Period) -> list[int]:
        """The partitions of which no tally of this period was read; the period must not be forgotten."""
        return [each for each in range(self._study.broker.partitions) if each not in self._waiting.get(period, {})]

    def _take(self, tally: Tally) -> None:
        if tally.partition >= self._study.broker.partitions:
            raise Refused(f"a tally of partition {tally.partition}, but the study has {self._study.broker.partitions}")
        if self._people.setdefault(tally.partition, tally.people) != tally.people:
            raise Refused(f"partition {tally.partition}, period {tally.period}: its number of people changed")
        if not self._adds_up(tally):
            raise Refused(f"partition {tally.partition}, period {tally.period}: a tally that this study does not have")
        self._reported[tally.period] += 1
        if tally.period > self._forgotten:
            self._waiting[tally.period][tally.partition] = tally

    def _adds_up(self, tally: Tally) -> bool:
        """Whether it has the study's periods and releases, and everybody is in one window and got at most one more one."""
        study, counts = self._study, tally.counts
        if tally.period > study.horizon or {release.name for release in study.releases} != set(counts):
            return False
        for release in study.releases:
            tallier, counted = make_tallier(study, release), counts[release.name]
            if len(counted) != tallier.size or not tallier.is_possible(counted, tally.people, tally.period):
                return False
        return True
