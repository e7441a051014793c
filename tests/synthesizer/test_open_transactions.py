"""Starting while a transaction on the ledger is open, or has ended and cannot be read yet."""

from __future__ import annotations

import pytest

from streamproc.errors import Refused
from streamproc.testing import in_virtual_time
from tests.stream_model.simulated_study import FreshEntropy, SimulatedStudy
from tests.synthesizer.study_runs import begin_study, run_two_periods, run_until_crash, run_with_tallies


async def leave_transaction_open(simulated: SimulatedStudy, *, timeout: float) -> None:
    """Somebody else's, on the ledger, for so many seconds."""
    stranger = await simulated.log.transactional_producer("stranger", timeout=timeout)
    await stranger.fence()
    await stranger.begin()
    await stranger.send(simulated.topics.ledger, 0, b"?")


def test_a_transaction_that_times_out_while_we_wait_holds_nothing_up() -> None:
    async def start() -> None:
        partial_run = await run_two_periods()
        await leave_transaction_open(partial_run.simulated, timeout=100)
        began = partial_run.simulated.clock.now()
        await partial_run.simulated.synthesizer().run()
        assert partial_run.simulated.ledger().period == 3
        assert (partial_run.simulated.clock.now() - began).total_seconds() >= 99

    in_virtual_time(start())


def test_a_transaction_that_never_ends_is_refused_with_the_topic() -> None:
    async def start() -> None:
        partial_run = await run_two_periods()
        await leave_transaction_open(partial_run.simulated, timeout=10_000)
        with pytest.raises(Refused, match="topic study.ledger: somebody else's transaction stays open"):
            await partial_run.simulated.synthesizer().run()

    in_virtual_time(start())


def test_a_commit_that_cannot_be_read_yet_is_awaited_and_not_taken_for_a_lost_record() -> None:
    """A commit is acknowledged before its markers are written, and a quick restart looks in between."""

    async def look_too_early() -> None:
        simulated = await begin_study()

        async def two_lives() -> None:
            simulated.broker.marker_lag = lambda: 20.0
            await run_until_crash(
                simulated, lambda number, reached: str(reached) == "after folder.write synthesizer.settled"
            )
            simulated.broker.marker_lag = lambda: 0.0
            assert simulated.ledger().period == 0, "the commit can be read already"
            await simulated.synthesizer(entropy=FreshEntropy(5000)).run()

        await run_with_tallies(simulated, two_lives())
        simulated.check_released()

    in_virtual_time(look_too_early())
