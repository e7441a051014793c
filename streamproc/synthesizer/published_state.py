"""Reads what a study has published, for a synthesizer that starts. Nothing here writes to the log."""

from __future__ import annotations

from streamproc.errors import LedgerConflict, TopicLost, VerificationFailed
from streamproc.log.port import Log, read_to_end
from streamproc.protocol.ledger_verifier import LedgerVerifier
from streamproc.protocol.topics import Topics
from streamproc.storage.clock import Clock
from streamproc.study import Study
from streamproc.synthesizer.recovery import LedgerSnapshot

OPEN_TXN_TIMEOUT_S = 120
"""Seconds to wait for open transactions to end. It is longer than the time after which brokers abort a transaction."""


async def wait_for_open_transactions(log: Log, topic: str, clock: Clock) -> bool:
    """Wait until the topic has no open transaction; return False after `OPEN_TXN_TIMEOUT_S` seconds.

    Kafka acknowledges a commit before it writes the commit markers, so a read_committed reader may briefly see the old
    state.
    """
    if topic not in await log.topics():
        return True
    for _ in range(OPEN_TXN_TIMEOUT_S):
        if await log.last_stable_offset(topic, 0) == await log.high_watermark(topic, 0):
            return True
        await clock.sleep(1.0)
    return False


async def read_published_state(log: Log, study: Study, *, keep: int | None = 1) -> LedgerSnapshot:
    """Read and verify the whole ledger, and find out which topics were ever used.

    Of the ledger of an open study only the newest `keep` periods are kept, or all of them if it is None.
    Raises TopicLost if the first records of the ledger are gone, LedgerConflict if the ledger is not valid.
    """
    topics = Topics(study.name)
    existing = await log.topics()
    written = [topics.tallies, topics.rejects, *(topics.synthetic(r.name) for r in study.releases)]
    used = tuple([topic for topic in written if topic in existing and await log.high_watermark(topic, 0) > 0])
    if topics.ledger not in existing:
        return LedgerSnapshot(None, used, ())
    if await log.start_offset(topics.ledger, 0) > 0:
        raise TopicLost(topics.ledger, "its first records are gone; it must be kept forever")
    verifier = LedgerVerifier(keep)
    try:
        async for record in read_to_end(log, topics.ledger):
            verifier.add(record.value)
    except VerificationFailed as failed:
        raise LedgerConflict(f"topic {topics.ledger} is not a valid ledger: {failed}") from None
    # This comes after the ledger was read: another synthesizer may be running, which writes columns before ledger records.
    unused = [topic for topic in written if topic in existing and topic not in used]
    empty = tuple([topic for topic in unused if await log.high_watermark(topic, 0) == 0])
    return LedgerSnapshot(verifier.verified(), used, empty)
