"""Looking: the public topics of a study as they are now. Reads only, creates nothing."""

from __future__ import annotations

from dataclasses import dataclass

from streamproc.actor.startup import InLedger
from streamproc.errors import Refused, VerificationFailed
from streamproc.ports.clock import Clock
from streamproc.ports.log import Log
from streamproc.ports.reading import everything
from streamproc.study import Study
from streamproc.wire.chain import VerifiedLedger, verify_chain
from streamproc.wire.topics import Topics

QUIET_WITHIN = 120
"""Seconds in which what somebody left open on our topics must end: brokers abort it after the time-out of transactions."""


@dataclass(frozen=True)
class Seen:
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
    def in_ledger(self) -> InLedger | None:
        """What the table of start-up moves needs to know."""
        if self.ledger is None:
            return None
        return InLedger(self.ledger.period, self.ledger.head, self.ledger.intents)


async def settled_down(log: Log, topic: str, clock: Clock) -> bool:
    """Wait until nothing on the topic is in an open transaction; False if something stays so.

    A commit is acknowledged before it can be read: until its markers are written, who reads what is committed finds what was
    there before.
    """
    if topic not in await log.topics():
        return True
    for _ in range(QUIET_WITHIN):
        if await log.stable_offset(topic, 0) == await log.end_offset(topic, 0):
            return True
        await clock.sleep(1.0)
    return False


async def look(log: Log, study: Study) -> Seen:
    """Read the ledger from its start, and see which topics were ever used."""
    topics = Topics(study.name)
    there = await log.topics()
    ours = [topics.tallies, topics.rejects, *(topics.synthetic(r.name) for r in study.releases)]
    used = tuple([topic for topic in ours if topic in there and await log.end_offset(topic, 0) > 0])
    if topics.ledger not in there:
        return Seen(None, used, ())
    if await log.start_offset(topics.ledger, 0) > 0:
        raise Refused(f"topic {topics.ledger}: its first records are gone; it must be kept for ever")
    values = [record.value async for record in everything(log, topics.ledger)]
    # Asked after the ledger was read: a synthesizer may be at work, and its columns are there before its ledger record is.
    unused = [topic for topic in ours if topic in there and topic not in used]
    empty = tuple([topic for topic in unused if await log.end_offset(topic, 0) == 0])
    try:
        return Seen(verify_chain(values), used, empty)
    except VerificationFailed as failed:
        raise Refused(f"topic {topics.ledger} does not hold together: {failed}") from None


def check_same_study(seen: Seen, study: Study, fingerprint: bytes, *, insecure: bool) -> None:
    """Refuse to go on with a ledger of another study, or from one side of `insecure` to the other."""
    if seen.ledger is None:
        return
    if seen.ledger.study.fingerprint != fingerprint:
        raise Refused(f"study {study.name}: its ledger was begun with other values; a study cannot change once it has begun")
    if seen.ledger.study.insecure != insecure:
        began, now = ("with", "without") if seen.ledger.study.insecure else ("without", "with")
        raise Refused(f"study {study.name}: it was begun {began} a seed and cannot go on {now} one")


def check_columns_kept(seen: Seen, study: Study) -> None:
    """Refuse to go on behind columns that are gone: whoever reads a release from its start must find all of it."""
    topics = Topics(study.name)
    for topic, name in ((topics.synthetic(release.name), release.name) for release in study.releases):
        if seen.ledger is not None and seen.ledger.column_digests(name) and topic in seen.empty:
            raise Refused(
                f"topic {topic}: is empty, but the ledger has columns of it; it must be kept for ever, and never be created "
                "anew"
            )
