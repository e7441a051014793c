"""Requests of the Kafka protocol that aiokafka lacks or encodes wrongly: metadata with topic ids, and offsets."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)


class Uuid:
    """Kafka's UUID: sixteen bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


_PARTITION = Schema(
    ("error_code", Int16),
    ("partition", Int32),
    ("leader", Int32),
    ("leader_epoch", Int32),
    ("replicas", CompactArray(Int32)),
    ("isr", CompactArray(Int32)),
    ("offline_replicas", CompactArray(Int32)),
    ("tags", TaggedFields),
)
_TOPIC = Schema(
    ("error_code", Int16),
    ("topic", CompactString("utf-8")),
    ("topic_id", Uuid),
    ("is_internal", Boolean),
    ("partitions", CompactArray(_PARTITION)),
    ("authorized_operations", Int32),
    ("tags", TaggedFields),
)
_BROKER = Schema(
    ("node_id", Int32),
    ("host", CompactString("utf-8")),
    ("port", Int32),
    ("rack", CompactString("utf-8")),
    ("tags", TaggedFields),
)


class TopicsResponse(Response):  # type: ignore[misc]
    """Metadata, version 12."""

    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(_BROKER)),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        ("topics", CompactArray(_TOPIC)),
        ("tags", TaggedFields),
    )


class TopicsRequestStruct(RequestStruct):  # type: ignore[misc]
    """Metadata, version 12."""

    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 12
    RESPONSE_TYPE = TopicsResponse
    SCHEMA = Schema(
        ("topics", CompactArray(Schema(("topic_id", Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields)))),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class TopicsRequest(Request[TopicsRequestStruct]):  # type: ignore[misc]
    """Requests metadata of some topics, or of all (None), without creating them. Needs brokers of version 3.1 or newer.

    Version 12, which brokers have since 3.1, is the first that supports topic ids.
    """

    API_KEY = 3

    def __init__(self, topics: list[str] | None) -> None:
        self._topics = topics

    def build(self, request_struct_class: Any) -> Any:
        named: list[Any] | None = None if self._topics is None else [(bytes(16), topic, {}) for topic in self._topics]
        return request_struct_class(named, False, False, {})


class OffsetsResponse(Response):  # type: ignore[misc]
    """ListOffsets, version 5."""

    API_KEY = 2
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("timestamp", Int64),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                    ),
                ),
            ),
        ),
    )


class OffsetsRequestStruct(RequestStruct):  # type: ignore[misc]
    """ListOffsets, version 5."""

    API_KEY = 2
    API_VERSION = 5
    RESPONSE_TYPE = OffsetsResponse
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("isolation_level", Int8),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                ("partitions", Array(("partition", Int32), ("current_leader_epoch", Int32), ("timestamp", Int64))),
            ),
        ),
    )


class OffsetsRequest(Request[OffsetsRequestStruct]):  # type: ignore[misc]
    """Requests one offset of a partition. A leader of another epoch than `epoch` returns an error.

    The request of aiokafka encodes the epoch with 64 instead of 32 bits.
    """

    API_KEY = 2

    def __init__(self, topic: str, partition: int, epoch: int, which: int, *, committed: bool) -> None:
        self._topics = [(topic, [(partition, epoch, which)])]
        self._isolation = int(committed)

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class(-1, self._isolation, self._topics)
