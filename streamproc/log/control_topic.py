"""The control topic: the study's secret key and its cuts, followed or appended to."""

from __future__ import annotations

import secrets

from streamproc.errors import Malformed, Refused
from streamproc.log.port import Log, Offset
from streamproc.log.topic_tail import TopicTail
from streamproc.privacy.types import Period
from streamproc.protocol.control import KEY_BYTES, Cut, CutSequence, Key, decode_control
from streamproc.protocol.topics import Topics
from streamproc.study import Study


class ControlFollower:
    """Reads the control topic from its start; what is no control record, and cuts that do not count, are ignored."""

    def __init__(self, study: Study, tail: TopicTail) -> None:
        self._tail = tail
        self.key: bytes | None = None
        """The first key appended; None before that."""
        self.sequence = CutSequence(study.broker.partitions, study.horizon)

    @classmethod
    async def open(cls, log: Log, study: Study) -> ControlFollower:
        """A follower that has read nothing yet."""
        tail = TopicTail(log, Topics(study.name).control)
        await tail.open()
        return cls(study, tail)

    @property
    def position(self) -> Offset:
        """Where it has read up to."""
        return self._tail.position

    async def poll(self, *, timeout: float) -> list[Cut]:
        """The cuts that count among what has come, waiting up to `timeout` seconds for something."""
        new = []
        for record in await self._tail.poll(timeout=timeout):
            try:
                message = decode_control(record.value)
            except Malformed:
                continue
            if isinstance(message, Key):
                self.key = self.key or message.key
            elif self.sequence.offer(message):
                new.append(message)
        return new

    async def catch_up(self, end: Offset) -> list[Cut]:
        """Read on until everything below `end` is read."""
        new = []
        while self._tail.position < end:
            new += await self.poll(timeout=0.5)
        return new

    async def close(self) -> None:
        """Stop reading."""
        await self._tail.close()


async def append_key(log: Log, study: Study) -> None:
    """Give the study its secret key, if its control topic is empty. Of two appended at once the first counts."""
    topic = Topics(study.name).control
    if await log.high_watermark(topic, 0) == 0:
        await log.append(topic, 0, Key(secrets.token_bytes(KEY_BYTES)).encode())


async def require_reports_in_period_1(log: Log, study: Study, period: Period) -> None:
    """Without a roster, who reports in period 1 is in the study: closed without a report, it could never go on."""
    if period > 1 or study.population.roster is not None:
        return
    reports = Topics(study.name).reports
    for partition in range(study.broker.partitions):
        if await log.high_watermark(reports, partition) > 0:
            return
    raise Refused(f"topic {reports}: holds no report, so closing period 1 would leave the study without people; send first")


async def append_cut(log: Log, study: Study, period: Period) -> None:
    """Close `period` here and now: everything acknowledged before this call lies below the cut."""
    topics = Topics(study.name)
    ends = [await log.high_watermark(topics.reports, partition) for partition in range(study.broker.partitions)]
    await log.append(topics.control, 0, Cut(period, tuple(ends)).encode())


def require_cut_accepted(control: ControlFollower, period: Period) -> None:
    """After a cut was appended and read again: whether the period is closed by it, or by somebody else's before it."""
    if control.sequence.period < period:
        raise Refused(
            f"period {period}: its cut does not count, because the reports topic ends before the period before did; it must "
            "be kept for ever, and never be created anew"
        )
