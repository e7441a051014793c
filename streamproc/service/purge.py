"""Purge: delete everything private after the last period. What was released stays, and can still be verified."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from streamproc.client.public_reader import PublicReader
from streamproc.errors import NotAllowed, StudyNotOver
from streamproc.log.port import Log
from streamproc.service.deployment import Deployment


@dataclass(frozen=True)
class Purged:
    """What a purge has deleted."""

    topics: Sequence[str]
    """The private topics that existed."""
    state: bool
    """Whether the state folder held anything."""


async def purge_study(deployment: Deployment) -> Purged:
    """Delete the private topics and the state folder of a study that is over.

    Deletes nothing and raises StudyNotOver before the last period is released, VerificationFailed if what was released does
    not verify, StudyChanged if the ledger is another study's, and StateFolderUnusable while a role uses the state folder. It
    can be run again after it was interrupted, and on each machine that has a state folder.
    """
    async with deployment.connect() as log:
        await _check_over(deployment, log)
        with deployment.idle_state_folder() as state_folder:
            held = state_folder.check_only_own_files()
            topics = await _delete_topics(deployment, log)
            state_folder.clear()
    return Purged(topics, held)


async def _check_over(deployment: Deployment, log: Log) -> None:
    study = deployment.study
    public = await PublicReader.read_all(log, study)
    if not public.is_over:
        raise StudyNotOver(study.name, public.period, study.horizon)
    await asyncio.to_thread(public.check_complete)
    await deployment.check_ledger(log, public.ledger)


async def _delete_topics(deployment: Deployment, log: Log) -> list[str]:
    """Delete the private topics, and return those that existed.

    The control topic is deleted last: it holds the key by which a study with a roster is distinguished from another.
    """
    topics = deployment.topics
    private = [topics.reports, topics.tallies, topics.rejects, topics.control]
    there = [topic for topic in private if topic in await log.topics()]
    for topic in private:
        try:
            # Also a topic that is not listed: an interrupted embedded log may still have its records on disk.
            await log.delete_topic(topic)
        except NotAllowed:
            if topic in there:
                raise  # a user without the right to delete topics can still clear the state folder when they are gone
    return there
