"""Clients that start only where a broker is ready."""

from __future__ import annotations

from types import MethodType
from typing import Any

from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.errors import KafkaConnectionError


class NotReady(KafkaConnectionError):  # type: ignore[misc]
    """A broker answers, but knows of no broker that serves."""


def wait_for_ready(client: Any) -> None:
    """Make an AIOKafkaClient fail to start, rather than start without knowing any broker.

    A broker that is starting or shutting down tells of none, not even of itself. aiokafka then keeps that connection and,
    once it is lost, has no address left to turn to: it would never find a broker again.
    """
    client.bootstrap = MethodType(_bootstrap, client)


async def _bootstrap(self: Any) -> None:
    await AIOKafkaClient.bootstrap(self)
    if not self.cluster.brokers():
        kept = self._conns.pop(("bootstrap", ConnectionGroup.DEFAULT), None)
        if kept is not None:
            kept.close()
        raise NotReady("no broker is ready yet")
