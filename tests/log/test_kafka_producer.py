"""Getting rid of a producer, whatever it has under way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from streamproc.log.kafka.producer import new_producer, stop_producer
from streamproc.log.kafka.settings import KafkaSettings


@pytest.mark.parametrize("repeated", [False, True])
async def test_a_producer_that_is_dropped_fails_what_it_holds_without_a_word(*, repeated: bool) -> None:
    """Also a batch that waits for its partition to have a leader again."""
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    producer = new_producer(KafkaSettings(("127.0.0.1:1",)), 1.0)
    producer._txn_manager.set_pid_and_epoch(1, 0)
    accumulator, place = producer._message_accumulator, TopicPartition("topic", 0)
    record = await accumulator.add_message(place, None, b"value", 1.0)
    batch = accumulator._pop_batch(place)
    if repeated:
        accumulator.reenqueue(batch)

    await stop_producer(producer, at_once=True)

    with pytest.raises(KafkaError, match="Dropped"):
        await record
    await asyncio.sleep(0)
    assert reported == []
