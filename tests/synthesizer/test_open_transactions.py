"""Starting while a transaction on the ledger is open, or has ended and cannot be read yet."""

from __future__ import annotations

import pytest

from streamproc.errors import Refused
from streamproc.testing import in_virtual_time
from tests.stream_model.simulated_study import FreshEntropy, StudyWorld
from tests.synthesizer.runs import begun, doomed, fed, two_periods


async def leave_transaction_open(world: StudyWorld, *, timeout: float) -> None:
    """Somebody else's, on the ledger, for so many seconds."""
    stranger = await world.log.transactional_producer("stranger", timeout=timeout)
    await stranger.fence()
    await stranger.begin()
    await stranger.send(world.topics.ledger, 0, b"?")


def test_a_transaction_that_times_out_while_we_wait_holds_nothing_up() -> None:
    async def start() -> None:
        past = await two_periods()
        await leave_transaction_open(past.world, timeout=100)
        began = past.world.clock.now()
        await past.world.synthesizer().run()
        assert past.world.ledger().period == 3
        assert (past.world.clock.now() - began).total_seconds() >= 99

    in_virtual_time(start())


def test_a_transaction_that_never_ends_is_refused_with_the_topic() -> None:
    async def start() -> None:
        past = await two_periods()
        await leave_transaction_open(past.world, timeout=10_000)
        with pytest.raises(Refused, match="topic study.ledger: somebody else's transaction stays open"):
            await past.world.synthesizer().run()

    in_virtual_time(start())


def test_a_commit_that_cannot_be_read_yet_is_awaited_and_not_taken_for_a_lost_record() -> None:
    """A commit is acknowledged before its markers are written, and a quick restart looks in between."""

    async def look_too_early() -> None:
        world = await begun()

        async def two_lives() -> None:
            world.broker.marker_lag = lambda: 20.0
            await doomed(world, lambda number, reached: str(reached) == "after disk.write synthesizer.settled")
            world.broker.marker_lag = lambda: 0.0
            assert world.ledger().period == 0, "the commit can be read already"
            await world.synthesizer(entropy=FreshEntropy(5000)).run()

        await fed(world, two_lives())
        world.check_released()

    in_virtual_time(look_too_early())
