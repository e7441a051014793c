"""A reader of a long open study starts at its newest summary, and says that it trusts it for what came before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from streamproc.client import newest_summary
from streamproc.client.public_reader import PublicReader
from streamproc.errors import InvalidInput, VerificationFailed
from streamproc.log.topic_tail import TopicTail
from streamproc.protocol import snapshots
from streamproc.protocol.tallies import Tally
from streamproc.storage.entropy import SeededEntropy
from streamproc.testing import in_virtual_time
from tests.stream_model.open_study import open_study, partition_tallies, reports, send_tallies
from tests.stream_model.simulated_study import SimulatedStudy

EVERY = 4
STUDY = open_study()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SUMMARY_EVERY", EVERY)
    monkeypatch.setattr(newest_summary, "FIRST_STEP", 3)


def tallies(periods: int = 14) -> list[list[Tally]]:
    return partition_tallies(STUDY, reports(STUDY, 200, periods, 1), last=False)


async def run_until(simulated: SimulatedStudy, sent: Sequence[Sequence[Tally]], period: int) -> None:
    """Run the synthesizer until so many periods are released."""
    running = asyncio.create_task(simulated.synthesizer(entropy=SeededEntropy(3)).run())
    await send_tallies(simulated, sent)
    while simulated.ledger().period < period:
        await simulated.clock.sleep(0.5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_reader_that_starts_at_a_summary_checks_everything_after_it() -> None:
    async def scenario() -> None:
        simulated = await SimulatedStudy(STUDY).begin()
        everything = tallies()
        await run_until(simulated, [sent[:10] for sent in everything], 10)
        late = await PublicReader.start_at_summary(simulated.log, STUDY)
        assert late.trusted == 8 and late.period == 8
        await late.catch_up()
        assert late.period == 10 and [column.period for column in late.columns("w")] == [9, 10]

        await run_until(simulated, [sent[10:] for sent in everything], 14)
        await late.catch_up()
        late.check_complete()
        whole = await PublicReader.read_all(simulated.log, STUDY)
        whole.check_complete()
        assert late.ledger is not None and whole.ledger is not None
        assert late.ledger.head == whole.ledger.head and late.ledger.period == 14
        assert whole.trusted == 0
        for release in STUDY.releases:
            name = release.name
            assert late.n_star(name) == whole.n_star(name)
            assert [column.digest for column in late.columns(name)] == [each.digest for each in whole.columns(name)[8:]]
            histories = []
            for public in (late, whole):
                audit = public.new_audit(name)
                assert audit is not None and public.ledger is not None
                for column in public.columns(name):
                    audit.add_column(column.symbols, public.ledger)
                histories.append(audit.builder.history())
            some, all_of_it = histories
            assert (some.first, some.period, some.rows) == (9, 14, all_of_it.rows)
            for period in range(9, 15):
                ours, theirs = some.place_of(period), all_of_it.place_of(period)
                assert some.counts[ours].tolist() == all_of_it.counts[theirs].tolist()
        with pytest.raises(InvalidInput, match="a panel needs every column"):
            late.panel("w")
        newest = await PublicReader.start_at_summary(simulated.log, STUDY, only="c")
        assert newest.trusted == 12
        for each in (late, newest):
            await each.close()

    in_virtual_time(scenario())


def test_a_study_without_a_summary_is_read_from_its_start() -> None:
    async def scenario() -> None:
        simulated = await SimulatedStudy(STUDY).begin()
        reader = await PublicReader.start_at_summary(simulated.log, STUDY)
        assert reader.trusted == 0 and reader.ledger is None
        await run_until(simulated, [sent[:3] for sent in tallies()], 3)
        reader = await PublicReader.start_at_summary(simulated.log, STUDY)
        await reader.catch_up()
        assert reader.trusted == 0 and reader.period == 3
        reader.check_complete()

    in_virtual_time(scenario())


def test_only_the_end_of_a_topic_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        simulated = await SimulatedStudy(STUDY).begin()
        await run_until(simulated, [sent[:13] for sent in tallies()], 13)
        log, starts = simulated.connection("analyst"), []
        opened = log.reader

        async def reader(topic: str, partition: int, offset: int) -> object:
            starts.append((topic, offset))
            return await opened(topic, partition, offset)  # type: ignore[arg-type]

        monkeypatch.setattr(log, "reader", reader)
        late = await PublicReader.start_at_summary(log, STUDY)
        assert late.trusted == 12
        end = await log.high_watermark(simulated.topics.ledger, 0)
        searched = [offset for topic, offset in starts if topic == simulated.topics.ledger and offset]
        assert searched and min(searched) > end / 2

    in_virtual_time(scenario())


def test_a_snapshot_that_is_not_that_of_the_summary_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        simulated = await SimulatedStudy(STUDY).begin()
        await run_until(simulated, [sent[:9] for sent in tallies()], 9)
        right = snapshots.SnapshotAssembler.digest
        monkeypatch.setattr(snapshots.SnapshotAssembler, "digest", property(lambda self: bytes(32)))
        with pytest.raises(VerificationFailed, match="the snapshot of period 8 is not the one that the ledger states"):
            await PublicReader.start_at_summary(simulated.log, STUDY)
        monkeypatch.setattr(snapshots.SnapshotAssembler, "digest", right)

        other = await SimulatedStudy(open_study(tenure=3)).begin()
        await run_until(other, [sent[:9] for sent in partition_tallies(other.study, reports(STUDY, 90, 9), last=False)], 9)
        with pytest.raises(InvalidInput, match="began with other values|begun with other values"):
            await PublicReader.start_at_summary(other.log, STUDY)

    in_virtual_time(scenario())


def test_a_tail_may_begin_in_the_middle_of_a_topic() -> None:
    async def scenario() -> None:
        simulated = await SimulatedStudy(STUDY).begin()
        await run_until(simulated, [sent[:2] for sent in tallies()], 2)
        tail = TopicTail(simulated.log, simulated.topics.ledger, 4)
        assert tail.position == 4
        assert min(record.offset for record in await tail.poll(timeout=0)) >= 4

    in_virtual_time(scenario())
