"""Purge: after the last period delete everything private. What was released stays, and still verifies."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from streamproc.client.public_reader import PublicReader
from streamproc.errors import NotAllowed, Refused
from streamproc.log.port import Log
from streamproc.service.completion import check_same
from streamproc.service.deployment import Deployment


@dataclass(frozen=True)
class Purged:
    """What is gone now and was there before."""

    topics: Sequence[str]
    state: bool
    """Whether the state folder held anything."""


async def purge_study(deployment: Deployment) -> Purged:
    """Delete the private topics and the state folder of a study that is over.

    Refuses before period `T` is released, and deletes nothing while what was released does not verify, or while a role still
    works in the state folder. Whatever stops it half-way, it can be run again, and on each machine that has a state folder.
    """
    async with deployment.connect() as log:
        await _check_over(deployment, log)
        with deployment.idle_state_folder() as disk:
            held = disk.check_only_own_files()
            topics = await _delete_topics(deployment, log)
            disk.clear()
    return Purged(topics, held)


async def _check_over(deployment: Deployment, log: Log) -> None:
    public = PublicReader(log, deployment.study)
    try:
        await public.catch_up()
    finally:
        await public.close()
    study = deployment.study
    if public.period < study.horizon:
        raise Refused(
            f"study {study.name}: {public.period} of {study.horizon} periods are released; only a study that is over can "
            "be purged"
        )
    await asyncio.to_thread(public.check_complete)
    await check_same(deployment, log, public)


async def _delete_topics(deployment: Deployment, log: Log) -> list[str]:
    """Control goes last: it holds the key by which a study with a roster is told from another."""
    topics = deployment.topics
    private = [topics.reports, topics.tallies, topics.rejects, topics.control]
    there = [topic for topic in private if topic in await log.topics()]
    for topic in private:
        try:
            # Also what is gone: an embedded log may have been stopped before its file forgot it.
            await log.delete_topic(topic)
        except NotAllowed:
            if topic in there:
                raise  # otherwise a user who may delete nothing still clears a state folder
    return there
