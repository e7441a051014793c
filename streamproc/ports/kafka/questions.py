"""Questions to the brokers, asked with one client that never names a topic to create it, until they are answered."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from ssl import SSLError
from typing import Any, TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError

from streamproc.ports.kafka.settings import KafkaSettings
from streamproc.ports.kafka.translation import DENIED, explained, explained_code
from streamproc.ports.log import LogUnavailable, NotAllowed

RETRIABLE = (5, 6, 7, 9, 13, 41, 56, 74, 75, 76, 78, 100, 103)
"""No leader yet, another leader or controller, another epoch; 78: a new leader does not know its high watermark yet."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two attempts, doubling."""

T = TypeVar("T")


class TryAgain(Exception):
    """Not now; the message says why, should it be the last attempt."""


class Questions:
    """`timeout` is how many seconds a question is asked for; then it is LogUnavailable."""

    def __init__(self, settings: KafkaSettings, timeout: float) -> None:
        self.timeout = timeout
        self._settings = settings
        self._client = AIOKafkaClient(request_timeout_ms=int(1000 * timeout), **settings.options())

    async def start(self) -> None:
        """Connect to any of the servers."""
        await self.until_answered("connecting", self._start)

    async def _start(self) -> None:
        await self._probe()
        try:
            await self._client.bootstrap()
        except KafkaError as error:
            raise TryAgain(str(explained(error, "connecting", LogUnavailable))) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _probe(self) -> None:
        """Connect once by hand, because a client does not tell a broker that is away from one that denies us."""
        reason = "no answer"
        for host, port, _ in self._client.hosts:
            try:
                timeout = int(1000 * self.timeout)
                connection = await create_conn(host, port, request_timeout_ms=timeout, **self._settings.security_options())
            except DENIED as error:
                raise explained(error, "connecting", NotAllowed) from None
            except SSLError as error:
                raise NotAllowed(f"connecting: TLS with {host}:{port} failed: {error.reason or error}") from None
            except (OSError, KafkaError, TimeoutError) as error:
                reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else reason
            else:
                connection.close()
                return
        raise TryAgain(f"no broker of {','.join(self._settings.servers)} can be reached: {reason}")

    async def ask(self, request: Any, what: str, node: int | None = None) -> Any:
        """One attempt at one request to `node`, or to any; the broker's answer, whatever it says."""
        try:
            return await self._client.send(self._client.get_random_node() if node is None else node, request)
        except (KafkaError, OSError, TimeoutError) as error:
            self._client.force_metadata_update()
            failure = explained(error, what, LogUnavailable)
            raise (TryAgain(str(failure)) if isinstance(failure, LogUnavailable) else failure) from None

    async def until_answered(self, what: str, attempt: Callable[[], Awaitable[T]], timeout: float | None = None) -> T:
        """What `attempt` returns, once it does not raise TryAgain any more."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self.timeout if timeout is None else timeout)
        pause = FIRST_PAUSE
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await attempt()
            except TryAgain as again:
                reason = str(again)
            except TimeoutError:
                raise LogUnavailable(f"{what}: no answer from the broker in time") from None
            if loop.time() + pause > deadline:
                raise LogUnavailable(reason)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def check(code: int, what: str) -> None:
    """Raise what an error code in an answer means, if it is one."""
    if code in RETRIABLE:
        raise TryAgain(f"{what}: Kafka's error {code}")
    if code != 0:
        raise explained_code(code, what, LogUnavailable)
