"""Ending aiokafka's consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer

GRACE = 5.0
"""Seconds for each step of an end in good order; then it is left to itself."""


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Stop it, and close its connections, which it may not get to by itself; a request to cancel us waits until then."""
    request: asyncio.CancelledError | None = None
    for end in (consumer.stop, consumer._client.close):
        try:
            await _on_its_own(end())
        except asyncio.CancelledError as cancelled:
            request = cancelled
    if request is not None:
        raise request


async def _on_its_own(work: Coroutine[Any, Any, None]) -> None:
    """In a task: aiokafka may end with the CancelledError of one of its own tasks, which is not a request to cancel us."""
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=GRACE)
    if not task.done():
        task.cancel()
    elif not task.cancelled():
        task.exception()  # asked for, or the loop would complain; a consumer that fails to end has ended
