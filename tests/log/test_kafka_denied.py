"""What Kafka denies is said at once: waiting would not help."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from streamproc.errors import LogUnavailable, NotAllowed
from streamproc.log.connect import connect
from streamproc.log.port import Log, Offset, TopicSettings
from tests.broker import KafkaBroker
from tests.log.backends import new_topic

pytestmark = pytest.mark.kafka


async def guest_of(stack: AsyncExitStack, broker: KafkaBroker) -> Log:
    return await stack.enter_async_context(connect(broker.guest_url, environ=broker.guest_environment()))


async def test_a_guest_without_rights_is_denied_everything(kafka_broker: KafkaBroker) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(120):
        topic = await new_topic(await stack.enter_async_context(connect(kafka_broker.url)))
        guest = await guest_of(stack, kafka_broker)
        producer = await guest.transactional_producer(f"{topic}.synthesizer")
        for attempt in (
            guest.settings_of(topic),
            guest.high_watermark(topic, 0),
            guest.reader(topic, 0, Offset(0)),
            guest.append(topic, 0, b"value"),
            guest.create_topic(f"{topic}.other", TopicSettings(1)),
            guest.delete_topic(topic),
            guest.join_group(f"{topic}.gather", topic),
            producer.fence(),
        ):
            with pytest.raises(NotAllowed) as denied:
                await attempt
            assert "\n" not in str(denied.value)
            assert denied.value.exit_code == 5
        assert topic not in await guest.topics()


async def test_seeing_a_topic_is_not_reading_writing_or_gathering_it(kafka_broker: KafkaBroker) -> None:
    async with AsyncExitStack() as stack:
        topic = await new_topic(await stack.enter_async_context(connect(kafka_broker.url)))
        kafka_broker.allow("--operation", "Describe", "--topic", topic)
        guest = await guest_of(stack, kafka_broker)
        assert await guest.high_watermark(topic, 0) == 0

        reader = await guest.reader(topic, 0, Offset(0))
        member = await guest.join_group(f"{topic}.gather", topic)
        async with asyncio.timeout(120):
            with pytest.raises(NotAllowed):
                await guest.append(topic, 0, b"value")
            with pytest.raises(NotAllowed):
                await reader.read(timeout=10)
            with pytest.raises(NotAllowed):
                await reader.read(timeout=10)
            with pytest.raises(NotAllowed):
                await member.assigned(timeout=10)


async def test_a_wrong_password_is_denied_at_once(kafka_broker: KafkaBroker) -> None:
    environ = kafka_broker.guest_environment()
    wrong = kafka_broker.folder / "wrong.password"
    wrong.write_text("not-it")
    environ["STREAMPROC_KAFKA_PASSWORD_FILE"] = str(wrong)

    async with asyncio.timeout(60):
        with pytest.raises(NotAllowed) as denied:
            await connect(kafka_broker.guest_url, environ=environ).__aenter__()
    assert "not-it" not in str(denied.value)


async def test_a_broker_that_is_not_there_is_unavailable_after_the_timeout() -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(LogUnavailable, match="no broker of 127.0.0.1:1 can be reached: .*refused") as away:
        await connect("kafka://127.0.0.1:1", environ={}, timeout=1.0).__aenter__()
    assert loop.time() - started > 0.2
    assert "\n" not in str(away.value)
