"""A reader, and what brokers answer that are behind the others."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.errors import OffsetOutOfRangeError

from streamproc.errors import LogUnavailable
from streamproc.log.connect import connect
from streamproc.log.kafka.consumer import PartitionConsumer
from streamproc.log.port import Offset
from tests.broker import KafkaBroker
from tests.log.backends import new_topic, values

pytestmark = pytest.mark.kafka


async def test_an_offset_that_only_one_broker_does_not_have_is_not_lost(
    kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was replaced while it stood still does not know what the new one took in."""
    async with connect(kafka_broker.url) as log:
        topic = await new_topic(log)
        await log.append(topic, 0, b"first")
        reader = await log.reader(topic, 0, Offset(0))
        assert isinstance(reader, PartitionConsumer)

        async def behind(*_: Any, **__: Any) -> None:
            raise OffsetOutOfRangeError({})

        with monkeypatch.context() as answers:
            answers.setattr(reader._consumer, "getmany", behind)
            with pytest.raises(LogUnavailable, match="behind the others"):
                await reader.read()
        assert values(await reader.read(timeout=30.0)) == [b"first"]
