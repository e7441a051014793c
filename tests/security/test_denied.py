"""What everybody is denied: the table of docs/security.md, tried on a real broker, attempt by attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from streamproc.errors import NotAllowed
from streamproc.log.connect import connect
from streamproc.log.port import Log, Offset, TopicSettings
from tests.broker.certificates import BROKER_NAME
from tests.broker.secure import MECHANISM, SecureBroker
from tests.security.conftest import begin
from tests.security.principals import (
    ANALYST,
    GATHERER,
    OPERATOR,
    PRINCIPALS,
    REPORTER,
    STEWARD,
    SYNTHESIZER,
    Secured,
    run,
)
from tests.stream.programs import Programs

pytestmark = pytest.mark.kafka

PUBLIC = {"ledger", "synthetic.recent", "synthetic.ever"}
PRIVATE = {"reports", "control", "tallies", "rejects"}

MAY_READ = {
    REPORTER: set[str](),
    GATHERER: {"reports", "control", "rejects", "ledger"},
    SYNTHESIZER: {"control", "tallies"} | PUBLIC,
    STEWARD: {"control"} | PUBLIC,
    OPERATOR: {"rejects"},
    ANALYST: PUBLIC,
}
MAY_WRITE = {
    REPORTER: {"reports"},
    GATHERER: {"tallies", "rejects"},
    SYNTHESIZER: PUBLIC,
    STEWARD: {"control"},
    OPERATOR: set[str](),
    ANALYST: set[str](),
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, guarded_broker: SecureBroker) -> Secured:
    """With its topics and one report, without which nobody could close its first period."""
    folder = tmp_path_factory.mktemp("denied")
    study = begin(folder / "home", Programs(folder), guarded_broker)
    study.do(STEWARD, "init")
    run(append(study, "reports"))
    return study


@pytest.fixture(scope="module")
def filled(study: Secured) -> Secured:
    """A study with a record in each topic, so that a reader who reads nothing was denied."""
    run(append(study, *PUBLIC, *PRIVATE))
    return study


async def append(study: Secured, *topics: str) -> None:
    async with connect(study.broker.url, environ={}) as log:
        for topic in topics:
            await log.append(f"guarded.{topic}", 0, b"a record")


async def allowed(attempt: Coroutine[Any, Any, object]) -> bool:
    """Whether it worked; anything but success and the broker's denial fails the test."""
    try:
        async with asyncio.timeout(100):
            await attempt
    except NotAllowed as denied:
        assert "AUTHORIZATION_FAILED" in str(denied)
        return False
    return True


async def read(log: Log, topic: str) -> None:
    reader = await log.reader(topic, 0, Offset(0))
    try:
        while not await reader.read():  # a record or a denial comes
            pass
    finally:
        await reader.close()


def test_only_the_steward_closes_a_period(study: Secured) -> None:
    for principal in (REPORTER, ANALYST, GATHERER, SYNTHESIZER, OPERATOR):
        ended = study.call(principal, "close", "--period", 1)
        assert ended.code == 5
        assert ended.complaint.count("\n") == 1
        assert "the broker does not allow it" in ended.complaint


@pytest.mark.parametrize("principal", PRINCIPALS)
def test_each_reads_and_writes_its_own_topics_and_no_other(filled: Secured, principal: str) -> None:
    async def attempts() -> tuple[set[str], set[str]]:
        async with filled.connect(principal) as log:
            reads = {topic for topic in PUBLIC | PRIVATE if await allowed(read(log, f"guarded.{topic}"))}
            writes = {topic for topic in PUBLIC | PRIVATE if await allowed(log.append(f"guarded.{topic}", 0, b"mine"))}
            for topic in PUBLIC | PRIVATE:
                assert not await allowed(log.delete_topic(f"guarded.{topic}"))
            assert await allowed(log.create_topic("guarded.control", TopicSettings(1))) == (principal == STEWARD)
            assert not await allowed(log.create_topic("guarded.other", TopicSettings(1)))
        return reads, writes

    assert run(attempts()) == (MAY_READ[principal], MAY_WRITE[principal])


def test_only_gatherers_are_given_partitions(filled: Secured) -> None:
    async def attempt(principal: str) -> None:
        async with filled.connect(principal) as log:
            membership = await log.join_group("guarded.gather", "guarded.reports")
            await membership.assigned(timeout=25)

    for principal in PRINCIPALS:
        assert run(allowed(attempt(principal))) == (principal == GATHERER)


def test_nobody_else_can_fence_the_synthesizer(filled: Secured) -> None:
    async def attempts() -> None:
        async with AsyncExitStack() as stack:
            mine = await stack.enter_async_context(filled.connect(SYNTHESIZER))
            transactor = await mine.transactional_producer(filled.topics.transactional_id)
            await transactor.fence()
            await transactor.begin()
            await transactor.send(filled.topics.ledger, 0, b"under way")
            for principal in PRINCIPALS:
                if principal != SYNTHESIZER:
                    theirs = await stack.enter_async_context(filled.connect(principal))
                    other = await theirs.transactional_producer(filled.topics.transactional_id)
                    assert not await allowed(other.fence())
            await transactor.commit()

    run(attempts())
    assert filled.read(ANALYST, filled.topics.ledger)[-1] == b"under way"


def librdkafka(broker: SecureBroker, principal: str) -> dict[str, str | bool]:
    return {
        "bootstrap.servers": f"{BROKER_NAME}:{broker.guest_port}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": principal,
        "sasl.password": broker.passwords[principal],
        "ssl.ca.location": str(broker.certificates.authority),
    }


def test_any_consumer_of_an_analyst_is_denied_what_is_private(filled: Secured) -> None:
    consumer = Consumer({**librdkafka(filled.broker, ANALYST), "group.id": "unused", "enable.auto.commit": False})
    try:
        for topic in sorted(PRIVATE):
            (found,) = consumer.list_topics(f"guarded.{topic}", 60).topics.values()
            assert found.error is not None
            assert found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            assert not found.partitions
        consumer.assign([TopicPartition(f"guarded.{topic}", 0, OFFSET_BEGINNING) for topic in ("ledger", *PRIVATE)])
        values = list[bytes | None]()
        while not values:
            message = consumer.poll(60)
            assert message is not None
            # It asks for the group that it must be given, though it uses none.
            if message.error() is None:
                values.append(message.value())
                assert message.topic() == "guarded.ledger"
    finally:
        consumer.close()


def test_any_producer_of_a_reporter_is_denied_the_control_topic(filled: Secured) -> None:
    answers = list[int | None]()

    def delivered(error: KafkaError | None, message: Message) -> None:
        answers.append(None if error is None else error.code())

    producer = Producer(librdkafka(filled.broker, REPORTER))
    for topic in ("reports", "control"):
        try:
            producer.produce(f"guarded.{topic}", b"a cut", partition=0, on_delivery=delivered)
        except KafkaException as denied:  # a client that has heard so by now does not even send it
            answers.append(denied.args[0].code())
        assert producer.flush(60) == 0
    assert answers == [None, KafkaError.TOPIC_AUTHORIZATION_FAILED]
