"""Group membership by a consumer group of Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from streamproc.errors import LogUnavailable
from streamproc.log.kafka.aiokafka_patches import disable_topic_auto_creation, require_brokers_on_bootstrap, stop_consumer
from streamproc.log.kafka.error_translation import translate_error
from streamproc.log.kafka.settings import KafkaSettings

POLL_INTERVAL_S = 0.05
"""Seconds between two checks of the assignment."""
MAX_HEARTBEAT_INTERVAL_S = 3.0
"""Maximum seconds between two heartbeats. Their responses announce a rebalance."""
MAX_POLL_INTERVAL_S = 60.0
"""Seconds without a call of `assigned` after which this member leaves the group."""


class _PauseAll(ConsumerRebalanceListener):  # type: ignore[misc]
    """Pauses all assigned partitions, because other consumers read them. aiokafka hides errors that are raised here."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer
        self.joined = False

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Do nothing."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Pause the partitions. This is also called for an empty assignment."""
        self._consumer.pause(*assigned)
        self.joined = True


class KafkaGroupMembership:
    """A consumer in the group that fetches nothing and commits nothing."""

    def __init__(
        self, settings: KafkaSettings, group: str, topic: str, timeout: float, closed: Callable[[KafkaGroupMembership], None]
    ) -> None:
        self._group, self._topic, self._timeout, self._closed = group, topic, timeout, closed
        self._last: frozenset[int] | None = None
        self._consumer = AIOKafkaConsumer(
            group_id=group,
            group_instance_id=settings.instance,
            enable_auto_commit=False,
            # aiokafka raises an error for a partition without a position. This consumer never reads from it.
            auto_offset_reset="latest",
            session_timeout_ms=int(1000 * settings.timeouts.session),
            heartbeat_interval_ms=int(1000 * min(MAX_HEARTBEAT_INTERVAL_S, settings.timeouts.session / 3)),
            max_poll_interval_ms=int(1000 * MAX_POLL_INTERVAL_S),
            request_timeout_ms=int(1000 * timeout),
            **settings.options(),
        )
        self._listener = _PauseAll(self._consumer)
        disable_topic_auto_creation(self._consumer)
        require_brokers_on_bootstrap(self._consumer)

    async def open(self) -> None:
        """Join the group. The first assignment arrives later. Raises LogUnavailable."""
        try:
            await self._consumer.start()
        except (KafkaError, OSError, TimeoutError) as error:
            raise translate_error(error, f"joining {self._group}", LogUnavailable) from None
        self._consumer.subscribe([self._topic], listener=self._listener)

    @property
    def joined(self) -> bool:
        return self._listener.joined

    async def assigned(self, *, timeout: float = 0.5) -> frozenset[int]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            await self._poll()
            assignment = frozenset(partition.partition for partition in self._consumer.assignment())
            left = deadline - loop.time()
            if assignment != (self._last or frozenset()) or left <= 0:
                self._last = assignment
                return assignment
            await asyncio.sleep(min(POLL_INTERVAL_S, left))

    async def _poll(self) -> None:
        """Signal that this member is alive, and raise errors of the group. A rebalance blocks this, hence the timeout."""
        try:
            async with asyncio.timeout(POLL_INTERVAL_S):
                await self._consumer.getmany(timeout_ms=0)
        except TimeoutError:
            pass
        except KafkaError as error:
            raise translate_error(error, f"group {self._group}", LogUnavailable) from None

    async def close(self) -> None:
        await stop_consumer(self._consumer)
        self._closed(self)
