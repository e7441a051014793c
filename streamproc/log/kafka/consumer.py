"""Consumer of one partition of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from streamproc.errors import LogUnavailable, NoSuchTopic, OffsetLost
from streamproc.log.kafka.admin import EARLIEST, LATEST, TopicAdmin, TopicMetadata
from streamproc.log.kafka.aiokafka_patches import (
    disable_topic_auto_creation,
    patch_batch_decoding,
    require_brokers_on_bootstrap,
    stop_consumer,
)
from streamproc.log.kafka.error_translation import translate_error
from streamproc.log.kafka.settings import KafkaSettings, milliseconds, produce_timeout
from streamproc.log.port import Offset, Record

FETCH_BYTES = 4 * 1024 * 1024
"""Maximum size of a fetch of a partition. A single record may be larger."""
LEADER_TIMEOUT_S, METADATA_TIMEOUT_S = 1.0, 5.0
"""Seconds to wait for the topic id: from the last known leader and, if that fails, from the current one."""


class PartitionConsumer:
    """Consumer of one partition.

    aiokafka reports only once that an offset is out of range. It does not report that reading is denied, or that a topic was
    deleted and recreated if the new topic has the offset too. So fetched records are returned only after the leader has
    confirmed that the topic still has the id that was opened.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topics: TopicAdmin,
        topic: str,
        partition: int,
        offset: Offset,
        timeout: float,
        closed: Callable[[PartitionConsumer], None],
    ) -> None:
        self._topics, self._closed = topics, closed
        self._metadata_timeout = min(METADATA_TIMEOUT_S, timeout)
        self._at = TopicPartition(topic, partition)
        self._position = offset
        self._fetched: Sequence[Record] = ()
        self._lost: OffsetLost | NoSuchTopic | None = None
        self._opened: TopicMetadata | None = None
        self._consumer = AIOKafkaConsumer(
            auto_offset_reset="none",
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_partition_fetch_bytes=FETCH_BYTES,
            request_timeout_ms=milliseconds(produce_timeout(timeout)),
            **settings.options(),
        )
        disable_topic_auto_creation(self._consumer)
        require_brokers_on_bootstrap(self._consumer)

    async def open(self) -> None:
        """Check that the offset is in the log, and start fetching. Raises OffsetLost, NoSuchTopic and LogUnavailable."""
        self._opened = await self._topics.partition_metadata(self._at.topic, self._at.partition)
        start, end = await self._extent()
        if not start <= self._position <= end:
            raise OffsetLost(self._at.topic, self._at.partition, self._position, start, end)
        try:
            await self._consumer.start()
            patch_batch_decoding(self._consumer)
        except (KafkaError, OSError, TimeoutError) as error:
            raise translate_error(error, f"reading {self._at.topic}", LogUnavailable) from None
        self._consumer.assign([self._at])
        self._consumer.seek(self._at, self._position)

    @property
    def position(self) -> Offset:
        return self._position

    @property
    def topic_id(self) -> bytes:
        assert self._opened is not None
        return self._opened.id

    async def read(self, *, max_records: int = 10_000, timeout: float = 0.5) -> Sequence[Record]:
        if self._lost is not None:
            raise self._lost
        try:
            if not self._fetched:
                self._fetched = await self._fetch(max_records, timeout)
            await self._check_topic()
        except (OffsetLost, NoSuchTopic) as lost:
            self._lost = lost
            raise
        found, self._fetched = self._fetched, ()
        self._position = Offset(await self._consumer.position(self._at))
        return found

    async def _fetch(self, count: int, timeout: float) -> Sequence[Record]:
        try:
            found = await self._consumer.getmany(self._at, timeout_ms=int(1000 * timeout), max_records=count)
        except OffsetOutOfRangeError:
            raise await self._offset_error() from None
        except KafkaError as error:
            raise translate_error(error, f"reading {self._at.topic}", LogUnavailable) from None
        records: Sequence[Record] = found.get(self._at, ())
        return records

    async def _check_topic(self) -> None:
        """Check the topic id with the leader, which learns the new id of a recreated topic before it serves its records."""
        assert self._opened is not None
        try:
            leader = self._opened.leaders[self._at.partition]
            metadata = await self._topics.topic_metadata(self._at.topic, node=leader, timeout=LEADER_TIMEOUT_S)
        except LogUnavailable:
            # A partition without a leader must raise an error, and not look like one without new records.
            metadata = await self._topics.metadata_from_leader(
                self._at.topic, self._at.partition, timeout=self._metadata_timeout
            )
        if metadata.id != self._opened.id:
            raise await self._offset_error()
        self._opened = metadata

    async def _extent(self) -> tuple[int, int]:
        topic, partition = self._at.topic, self._at.partition
        return await self._topics.offset(topic, partition, EARLIEST), await self._topics.offset(topic, partition, LATEST)

    async def _offset_error(self) -> OffsetLost | LogUnavailable:
        """Return LogUnavailable if the broker that answered is only behind the others, otherwise OffsetLost."""
        assert self._opened is not None
        start, end = await self._extent()
        if start <= self._position <= end and (await self._topics.topic_metadata(self._at.topic)).id == self._opened.id:
            return LogUnavailable(f"reading {self._at.topic}: the broker that answered is behind the others")
        return OffsetLost(self._at.topic, self._at.partition, self._position, start, end)

    async def close(self) -> None:
        await stop_consumer(self._consumer)
        self._closed(self)
