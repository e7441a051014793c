"""A broker that does not answer, and one that comes back."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from streamproc.errors import Fenced, LogUnavailable, OutcomeUnknown
from streamproc.log.connect import connect
from streamproc.log.port import Log, Offset, Reader, TransactionalProducer
from tests.broker import KafkaBroker
from tests.broker.fixture import running
from tests.log.backends import new_topic, read_all, values

pytestmark = pytest.mark.kafka


async def read_after_outage(reader: Reader) -> list[bytes | None]:
    """The next records; a reader that met an outage is used on."""
    async with asyncio.timeout(90):
        while True:
            try:
                found = await reader.read(timeout=0.5)
            except LogUnavailable:
                continue
            if found:
                return values(found)


async def append_after_outage(log: Log, topic: str, value: bytes) -> None:
    async with asyncio.timeout(60):
        while True:
            with suppress(LogUnavailable, OutcomeUnknown):
                await log.append(topic, 0, value)
                return


async def read_all_after_outage(log: Log, topic: str) -> list[bytes | None]:
    """A broker that was silent for as long as its session has to become ready first."""
    async with asyncio.timeout(60):
        while True:
            with suppress(LogUnavailable):
                return await read_all(log, topic)


async def in_mid_transaction(
    stack: AsyncExitStack, url: str, patient: Log
) -> tuple[str, Log, Reader, TransactionalProducer]:
    """A topic, and a connection with a short timeout that reads and writes it; retried until a busy broker keeps up."""
    async with asyncio.timeout(120):
        while True:
            topic = await new_topic(patient)
            with suppress(LogUnavailable, OutcomeUnknown):
                hasty = await stack.enter_async_context(connect(url, timeout=2.0))
                await hasty.append(topic, 0, b"first")
                reader = await hasty.reader(topic, 0, Offset(1))
                producer = await hasty.transactional_producer(f"{topic}.synthesizer")
                await producer.fence()
                await producer.begin()
                await producer.send(topic, 0, b"in")
                return topic, hasty, reader, producer


async def test_while_a_broker_is_silent_calls_end_in_time_and_say_what_they_know(kafka_broker: KafkaBroker) -> None:
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(connect(kafka_broker.url))
        topic, hasty, reader, producer = await in_mid_transaction(stack, kafka_broker.url, log)
        # Not both at a silent broker: the transaction would wait for its partition, not for the answer.
        kafka_broker.freeze()
        try:
            async with asyncio.timeout(60):
                with pytest.raises(OutcomeUnknown):
                    await producer.commit()
                with pytest.raises(OutcomeUnknown):
                    await hasty.append(topic, 0, b"unknown")
                with pytest.raises(LogUnavailable):
                    await hasty.high_watermark(topic, 0)
                with pytest.raises(LogUnavailable):
                    await reader.read(timeout=0.1)
                await producer.close()
        finally:
            kafka_broker.thaw()

        successor = await log.transactional_producer(f"{topic}.synthesizer")
        await successor.fence()
        assert await log.last_stable_offset(topic, 0) == await log.high_watermark(topic, 0)
        await successor.begin()
        await successor.send(topic, 0, b"after")
        await successor.commit()
        # Whatever became of the unknown ones, each is there once at most, and the rest exactly once.
        found = await read_all_after_outage(log, topic)
        assert [value for value in found if value in (b"first", b"after")] == [b"first", b"after"]
        assert max(found.count(b"in"), found.count(b"unknown")) <= 1
        assert (await read_after_outage(reader))[:1] == [found[1]]
        with pytest.raises((OutcomeUnknown, Fenced)):
            await producer.commit()
        await append_after_outage(hasty, topic, b"again")


async def killed_and_back(broker: KafkaBroker, log: Log, topic: str) -> None:
    await log.append(topic, 0, b"before")
    reader = await log.reader(topic, 0, Offset(0))
    assert await read_after_outage(reader) == [b"before"]

    await asyncio.to_thread(broker.kill)
    with pytest.raises((LogUnavailable, OutcomeUnknown)):
        await log.append(topic, 0, b"lost")
    with pytest.raises(LogUnavailable):
        await reader.read(timeout=0.1)
    with pytest.raises(LogUnavailable):
        await log.topics()
    await asyncio.to_thread(broker.start)

    await log.append(topic, 0, b"after")
    assert await read_after_outage(reader) == [b"after"]
    assert await read_all(log, topic) == [b"before", b"after"]


@pytest.mark.slow
async def test_a_killed_broker_is_waited_for_and_lost_nothing(tmp_path: Path) -> None:
    with running(KafkaBroker, tmp_path / "broker") as broker:
        async with connect(broker.url, timeout=3.0) as log:
            await killed_and_back(broker, log, await new_topic(log))
