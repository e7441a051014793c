"""The end of a study: whether period `T` is released, and whether it is the study we mean."""

from __future__ import annotations

from contextlib import aclosing, suppress

from streamproc.client.public_reader import PublicReader
from streamproc.errors import NoSuchTopic
from streamproc.log.port import Log, read_to_end
from streamproc.service.deployment import Deployment
from streamproc.synthesizer.recovery import LedgerSnapshot, require_same_study


async def is_over(deployment: Deployment, log: Log, *, draws: bool) -> bool:
    """Whether period `T` is released: then nothing is set up, and nobody needs a state folder any more.

    Refuses another study of the same name, over or not, before anything is set up for it. `draws`: asked by one who would
    draw noise, and so must be on the study's side of `insecure`.
    """
    public = PublicReader(log, deployment.study)
    try:
        await public.catch_up_ledger()
    finally:
        await public.close()
    over = public.period >= deployment.study.horizon
    if public.ledger is not None and not over:
        await deployment.check_control(log)
    await check_same(deployment, log, public, insecure=deployment.seed is not None if draws else None)
    return over


async def has_begun(deployment: Deployment, log: Log) -> bool:
    """Whether the study's ledger holds a record."""
    async with aclosing(read_to_end(log, deployment.topics.ledger)) as records:
        return await anext(records, None) is not None


async def check_same(deployment: Deployment, log: Log, public: PublicReader, insecure: bool | None = None) -> None:
    """Refuse another study of the same name.

    Without the control topic, which holds the key of the roster's digest, one with a roster cannot be told from another: so
    it is once the study was purged.
    """
    if public.ledger is None:
        return
    with suppress(NoSuchTopic):
        mark = await deployment.fingerprint(log)
        side = public.ledger.study.insecure if insecure is None else insecure
        require_same_study(LedgerSnapshot(public.ledger, ()), deployment.study, mark, insecure=side)
