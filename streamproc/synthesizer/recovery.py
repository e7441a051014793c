"""Looking: the public topics of a study as they are now. Reads only, creates nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from streamproc.errors import Refused, VerificationFailed
from streamproc.log.port import Log, read_to_end
from streamproc.privacy.types import Period
from streamproc.protocol.ledger_verifier import VerifiedLedger, verify_chain
from streamproc.protocol.topics import Topics
from streamproc.storage.clock import Clock
from streamproc.study import Study

OPEN_TXN_TIMEOUT_S = 120
"""Seconds in which what somebody left open on our topics must end: brokers abort it after the time-out of transactions."""


@dataclass(frozen=True)
class LedgerSnapshot:
    """What a look found."""

    ledger: VerifiedLedger | None
    """None if the topic is absent or empty."""
    used: tuple[str, ...]
    """Topics other than reports and control that have ever held a record, if only of an aborted transaction.

    Not the ledger: what it holds is in `ledger`, and without a committed record it can only have held a study record of one
    who did not get to begin.
    """
    empty: tuple[str, ...] = ()
    """Likewise: those that are there and have never held a record."""

    @property
    def published_state(self) -> PublishedState | None:
        """What the table of start-up moves needs to know."""
        if self.ledger is None:
            return None
        return PublishedState(self.ledger.period, self.ledger.head, self.ledger.intents)


async def wait_for_open_transactions(log: Log, topic: str, clock: Clock) -> bool:
    """Wait until nothing on the topic is in an open transaction; False if something stays so.

    A commit is acknowledged before it can be read: until its markers are written, who reads what is committed finds what was
    there before.
    """
    if topic not in await log.topics():
        return True
    for _ in range(OPEN_TXN_TIMEOUT_S):
        if await log.last_stable_offset(topic, 0) == await log.high_watermark(topic, 0):
            return True
        await clock.sleep(1.0)
    return False


async def read_published_state(log: Log, study: Study) -> LedgerSnapshot:
    """Read the ledger from its start, and see which topics were ever used."""
    topics = Topics(study.name)
    there = await log.topics()
    ours = [topics.tallies, topics.rejects, *(topics.synthetic(r.name) for r in study.releases)]
    used = tuple([topic for topic in ours if topic in there and await log.high_watermark(topic, 0) > 0])
    if topics.ledger not in there:
        return LedgerSnapshot(None, used, ())
    if await log.start_offset(topics.ledger, 0) > 0:
        raise Refused(f"topic {topics.ledger}: its first records are gone; it must be kept for ever")
    values = [record.value async for record in read_to_end(log, topics.ledger)]
    # Asked after the ledger was read: a synthesizer may be at work, and its columns are there before its ledger record is.
    unused = [topic for topic in ours if topic in there and topic not in used]
    empty = tuple([topic for topic in unused if await log.high_watermark(topic, 0) == 0])
    try:
        return LedgerSnapshot(verify_chain(values), used, empty)
    except VerificationFailed as failed:
        raise Refused(f"topic {topics.ledger} does not hold together: {failed}") from None


def require_same_study(seen: LedgerSnapshot, study: Study, fingerprint: bytes, *, insecure: bool) -> None:
    """Refuse to go on with a ledger of another study, or from one side of `insecure` to the other."""
    if seen.ledger is None:
        return
    if seen.ledger.study.fingerprint != fingerprint:
        raise Refused(f"study {study.name}: its ledger was begun with other values; a study cannot change once it has begun")
    if seen.ledger.study.insecure != insecure:
        began, now = ("with", "without") if seen.ledger.study.insecure else ("without", "with")
        raise Refused(f"study {study.name}: it was begun {began} a seed and cannot go on {now} one")


def check_columns_exist(seen: LedgerSnapshot, study: Study) -> None:
    """Refuse to go on behind columns that are gone: whoever reads a release from its start must find all of it."""
    topics = Topics(study.name)
    for topic, name in ((topics.synthetic(release.name), release.name) for release in study.releases):
        if seen.ledger is not None and seen.ledger.column_digests(name) and topic in seen.empty:
            raise Refused(
                f"topic {topic}: is empty, but the ledger has columns of it; it must be kept for ever, and never be created "
                "anew"
            )


@dataclass(frozen=True)
class LocalState:
    """The state folder's last word."""

    period: Period
    """`D`: the last period drawn."""
    digest: bytes
    """Of that period's ledger record (record 0 before period 1)."""
    previous: bytes
    """Of the ledger record before it."""
    published: bool
    """Whether it is known to be published."""
    abandoned: tuple[bytes, ...] = ()
    """Draws of the next period that were announced and lost, whose cost the steward has accepted."""


@dataclass(frozen=True)
class PublishedState:
    """What everybody can see."""

    period: Period
    """`L`: the last period with a ledger record; 0 if there is only record 0."""
    digest: bytes
    """Of that record."""
    intents: tuple[bytes, ...]
    """The digests announced for period `L + 1`; the first that was not abandoned binds."""


class RecoveryAction(Enum):
    """What to do next."""

    BEGIN = "begin a new study"
    GO_ON = "go on with the next period"
    MARK_PUBLISHED = "mark the last period published, then go on"
    PUBLISH = "announce and publish what is on disk"


HOW_TO_RESTORE = "put back the newest copy of the state folder, or rebuild it with `streamproc restore`"


def decide(disk: LocalState | None, ledger: PublishedState | None, *, used: tuple[str, ...]) -> RecoveryAction:
    """The next move; refuses whatever could draw a period twice or change a released column.

    `ledger` is None if it has no record at all; `used` names the topics, other than reports and control, ever used.
    """
    if ledger is None:
        if disk is not None:
            raise Refused(f"the ledger is empty, but the state folder holds period {disk.period}; was the topic recreated?")
        if used:
            raise Refused(f"the ledger is empty, but {', '.join(used)} held records before: this study has run already")
        return RecoveryAction.BEGIN
    if disk is None:
        if ledger.period == 0 and not ledger.intents:
            return RecoveryAction.GO_ON
        released = f"the ledger ends at period {ledger.period}" + (", and the next was announced" if ledger.intents else "")
        raise Refused(f"{released}, but the state folder holds nothing; {HOW_TO_RESTORE}")
    binding = next((intent for intent in ledger.intents if intent not in disk.abandoned), None)
    if disk.period == ledger.period and disk.digest == ledger.digest and binding is None:
        return RecoveryAction.GO_ON if disk.published else RecoveryAction.MARK_PUBLISHED
    next_up = disk.period == ledger.period + 1 and not disk.published and disk.previous == ledger.digest
    # Another draw announced after ours is that of a restored folder which gave ours up: to publish ours now would leave the
    # other, which may have been seen, unpaid for.
    if next_up and set(ledger.intents) - set(disk.abandoned) <= {disk.digest}:
        return RecoveryAction.PUBLISH
    raise Refused(f"{_difference(disk, ledger)}; {HOW_TO_RESTORE}")


def _difference(disk: LocalState, ledger: PublishedState) -> str:
    if disk.period < ledger.period:
        return f"the state folder is old: it ends at period {disk.period}, the ledger at {ledger.period}"
    if disk.period > ledger.period + 1 or (disk.period == ledger.period + 1 and disk.published):
        return f"the ledger is old: it ends at period {ledger.period}, the state folder at {disk.period}"
    if disk.period == ledger.period and disk.digest == ledger.digest:
        return f"period {ledger.period + 1} was announced, but its draw is not in the state folder"
    if disk.period == ledger.period + 1 and disk.previous == ledger.digest:
        return f"period {disk.period} was announced with another draw than the one in the state folder, or with both"
    return f"the state folder and the ledger hold different histories up to period {min(disk.period, ledger.period)}"
