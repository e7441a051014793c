"""Ending aiokafka's consumers."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiokafka import AIOKafkaConsumer

GRACE = 5.0
"""Seconds for a consumer to end in good order; then it is left to itself."""


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Stop it. aiokafka may end with the CancelledError of one of its own tasks, which is not a request to cancel us."""
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(GRACE):
            await consumer.stop()
    except TimeoutError:
        pass
    except asyncio.CancelledError:
        if task is not None and task.cancelling():
            raise
    finally:
        # If it did not get so far; otherwise nothing is left to close.
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await consumer._client.close()
