"""Clients that create no topics."""

from __future__ import annotations

import random
from types import MethodType
from typing import Any

from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest


def never_create(client: Any) -> None:
    """Make an AIOKafkaClient ask about its topics without creating them.

    Most brokers create whatever topic a client names, with settings of their own; a consumer whose topic is deleted would
    bring it back. aiokafka has no option against it, so its one method that asks is replaced.
    """
    client._metadata_update = MethodType(_metadata_update, client)


async def _metadata_update(self: Any, cluster_metadata: Any, topics: set[str]) -> bool:
    request = MetadataRequest(list(topics) if topics else None, allow_auto_topic_creation=False)
    nodes = [broker.nodeId for broker in self.cluster.brokers()]
    for node in random.sample(nodes, len(nodes)):
        connection = await self._get_conn(node)
        if connection is None:
            continue
        try:
            metadata = await connection.send(request)
        except (KafkaError, TimeoutError):
            continue
        if metadata.brokers:
            cluster_metadata.update_metadata(metadata)
            return True
    cluster_metadata.failed_update(None)
    return False
