"""Reading and appending to the control topic, which has the study's secret key and its cuts."""

from __future__ import annotations

import secrets

from streamproc.errors import InvalidInput, Malformed, Refused, StudyWithoutPeople
from streamproc.log.port import Log, Offset
from streamproc.log.topic_tail import TopicTail
from streamproc.privacy.types import Period
from streamproc.protocol.control import KEY_BYTES, Cut, CutSequence, Key, decode_control
from streamproc.protocol.topics import Topics
from streamproc.study import Study


class ControlFollower:
    """Reads the control topic from its start. Ignores malformed records and cuts that are not accepted."""

    def __init__(self, study: Study, tail: TopicTail) -> None:
        self._tail = tail
        self.key: bytes | None = None
        """The first key on the topic, or None if none was read yet."""
        self.sequence = CutSequence(study.broker.partitions, study.last_period, is_open=study.is_open)

    @classmethod
    async def open(cls, log: Log, study: Study) -> ControlFollower:
        """Return a follower that has read nothing yet. Raises TopicLost if the first records were deleted."""
        tail = TopicTail(log, Topics(study.name).control)
        await tail.open()
        return cls(study, tail)

    @property
    def position(self) -> Offset:
        """Next offset to read."""
        return self._tail.position

    async def poll(self, *, timeout: float) -> list[Cut]:
        """Wait up to `timeout` seconds for records, and return the accepted cuts among them."""
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
        """Read everything below `end` and return the accepted cuts."""
        new = []
        while self._tail.position < end:
            new += await self.poll(timeout=0.5)
        return new

    async def close(self) -> None:
        """Stop reading."""
        await self._tail.close()


async def append_key(log: Log, study: Study) -> None:
    """Append a secret key if the control topic is empty. If two processes do so at the same time, the first key counts."""
    topic = Topics(study.name).control
    if await log.high_watermark(topic, 0) == 0:
        await log.append(topic, 0, Key(secrets.token_bytes(KEY_BYTES)).encode())


async def require_reports_in_period_1(log: Log, study: Study, period: Period) -> None:
    """Raise Refused before period 1 is closed without any report, unless the study has a roster or is open.

    Without a roster the members are the people who report in period 1, so the study could never continue. Into an open
    study people may come later.
    """
    if period > 1 or study.population.roster is not None or study.is_open:
        return
    reports = Topics(study.name).reports
    for partition in range(study.broker.partitions):
        if await log.high_watermark(reports, partition) > 0:
            return
    raise StudyWithoutPeople(
        f"topic {reports}: holds no report, so closing period 1 would leave the study without people; send first"
    )


async def append_cut(log: Log, study: Study, period: Period, *, last: bool = False) -> None:
    """Append a cut that closes `period` now. All reports that were acknowledged before this call are below the cut.

    `last` ends an open study with this period.
    """
    topics = Topics(study.name)
    ends = [await log.high_watermark(topics.reports, partition) for partition in range(study.broker.partitions)]
    await log.append(topics.control, 0, Cut(period, tuple(ends), last).encode())


def require_cut_accepted(control: ControlFollower, period: Period) -> None:
    """Raise an error if `period` is still open after its cut was appended and read again.

    That is InvalidInput if the study ended before it, and else Refused.
    """
    require_not_ended(control, period)
    if control.sequence.period < period:
        raise Refused(
            f"period {period}: its cut does not count, because the reports topic ends before the end of the last period; "
            "the topic must be kept forever and never be recreated"
        )


def require_not_ended(control: ControlFollower, period: Period) -> None:
    """Raise InvalidInput if the study ended before `period`."""
    if control.sequence.is_over and period > control.sequence.period:
        raise InvalidInput(ended_with(period, control.sequence.period))


def require_closed_as_last(control: ControlFollower, period: Period) -> None:
    """Raise InvalidInput unless the study ended with `period`, which is closed."""
    closed = control.sequence.period
    if not control.sequence.is_over:
        earliest = f"the study can end with period {closed + 1} at the earliest"
        raise InvalidInput(f"period {period}: is closed already, but not as the last period; {earliest}")
    if period < closed:
        raise InvalidInput(ended_with(period, closed))


def ended_with(period: Period, last: Period) -> str:
    """The message for a period of a study that ended with another one."""
    return f"period {period}: the study ended with period {last}"
