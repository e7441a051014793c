"""Restore: read everything a lost state folder held from the topics, and write it anew."""

from __future__ import annotations

import asyncio

from streamproc.client.public_reader import PublicReader
from streamproc.errors import NoSuchTopic, Refused
from streamproc.log.port import Log
from streamproc.privacy.types import Period
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.releases.contracts import stated_contracts
from streamproc.service.deployment import Deployment
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.study import Study
from streamproc.synthesizer.checkpoint import STATE_FILE, Checkpoint, mark_published, restore_checkpoint, write_checkpoint
from streamproc.synthesizer.recovery import read_published_state, require_same_study, wait_for_open_transactions
from streamproc.synthesizer.tally_reader import StudyTally, TallyReader, population_size


async def restore_state(deployment: Deployment, *, accept_cost: bool) -> Period:
    """Rebuild the synthesizer's state folder; answers with the period it stands at.

    One that fails or dies, wherever, has restored nothing and can be tried again, or has restored everything. Where it is
    plain that there is nothing to restore, no folder is made.
    """
    _check_lost(deployment, deployment.state_folder())
    async with deployment.connect() as log:
        await _ledger(deployment, log, accept_cost=accept_cost)
        with deployment.locked_state_folder() as disk:
            # All of it again: what was read before the lock may have been restored or purged by somebody else meanwhile.
            _check_lost(deployment, disk)
            mark, ledger = await _ledger(deployment, log, accept_cost=accept_cost)
            stored = await _rebuild(deployment.study, log, ledger)
            # The mark comes first: it says nothing without the state, whose one write is then the whole of the restore.
            await asyncio.to_thread(mark_published, disk, mark, stored.pending)
            await asyncio.to_thread(write_checkpoint, disk, mark, stored)
    return ledger.period


def _check_lost(deployment: Deployment, disk: LocalStateFolder) -> None:
    if disk.read(STATE_FILE) is not None:
        raise Refused(
            f"state folder {deployment.state}: holds a state already; if a synthesizer refuses it and there is no newer "
            "copy to put back, move the folder away, keep it, and restore again"
        )


async def _ledger(deployment: Deployment, log: Log, *, accept_cost: bool) -> tuple[bytes, VerifiedLedger]:
    """The study's fingerprint and what was released of it.

    Refused if nothing was, if an announced draw was lost and is not paid for, or if there are no tallies any more.
    """
    study = deployment.study
    mark = await deployment.fingerprint(log)
    # What is lost can be told only when nothing is about to appear.
    if not await wait_for_open_transactions(log, deployment.topics.ledger, deployment.clock):
        raise Refused(f"topic {deployment.topics.ledger}: a transaction stays open on it; is a synthesizer running?")
    seen = await read_published_state(log, study)
    ledger = seen.ledger
    if ledger is None:
        raise Refused(f"study {study.name}: has no ledger, so there is nothing to restore")
    require_same_study(seen, study, mark, insecure=ledger.study.insecure)
    if not ledger.period and not ledger.intents:
        raise Refused(f"study {study.name}: has released nothing yet, so there is nothing to restore; start it")
    if ledger.intents and not accept_cost:
        raise Refused(
            f"period {ledger.period + 1} was announced, so its lost draw may have been seen; another exceeds "
            "the budget: accept that with --accept-cost, or find the state folder"
        )
    if deployment.topics.tallies not in await log.topics():
        raise _no_tallies(deployment.topics.tallies)
    return mark, ledger


def _no_tallies(topic: str) -> Refused:
    return Refused(f"topic {topic}: is gone, so the state cannot be rebuilt; was the study purged?")


async def _rebuild(study: Study, log: Log, ledger: VerifiedLedger) -> Checkpoint:
    tallies = await _tallies(study, log, ledger.period)
    public = PublicReader(log, study)
    try:
        await public.catch_up()
        await asyncio.to_thread(public.check_complete)
        implied = stated_contracts(study, population_size(tallies[0]), insecure=ledger.study.insecure)
        # A published contract states the noise that was drawn: it decides the cost, to the last digit.
        known = {name: public.contracts().get(name, contract) for name, contract in implied.items()}
        # No further than this ledger goes: a synthesizer elsewhere may have released another period since it was read.
        columns = {
            name: [column.symbols for column in public.columns(name)[: len(ledger.column_digests(name))]] for name in known
        }
    finally:
        await public.close()
    measurements = {
        name: [
            contract.split_measurements(ledger.measurements[name, Period(t)], Period(t)) for t in range(1, ledger.period + 1)
        ]
        for name, contract in known.items()
    }
    return restore_checkpoint(ledger, known, columns, measurements, tallies[: ledger.period])


async def _tallies(study: Study, log: Log, through: Period) -> list[StudyTally]:
    """The exact tallies of periods `1..through`, and at least that of period 1; refused if any is gone."""
    try:
        inbox = await TallyReader.open(log, study)
    except NoSuchTopic as missing:
        raise _no_tallies(missing.topic) from None
    try:
        end = await log.last_stable_offset(inbox.topic, 0)
        while inbox.position < end:
            await inbox.poll(timeout=0.5)
        found = [inbox.complete(Period(t)) for t in range(1, max(through, 1) + 1)]
    finally:
        await inbox.close()
    whole = [tally for tally in found if tally is not None]
    if len(whole) < len(found):
        raise Refused(f"topic {inbox.topic}: the tallies of some period are gone, so the state cannot be rebuilt")
    return whole
