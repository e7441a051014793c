"""Questions to the brokers, asked with one client that never names a topic to create it, until they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError

from streamproc.ports.kafka.knock import knock
from streamproc.ports.kafka.patience import for_a_question, milliseconds
from streamproc.ports.kafka.ready import NotReady, wait_for_ready
from streamproc.ports.kafka.settings import PREFIX, KafkaSettings
from streamproc.ports.kafka.translation import explained, explained_code
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
        self._patience = for_a_question(timeout)
        self._client = AIOKafkaClient(request_timeout_ms=milliseconds(self._patience), **settings.options())
        wait_for_ready(self._client)

    async def start(self) -> None:
        """Connect to any of the servers."""
        await self.until_answered("connecting", self._start)

    async def _start(self) -> None:
        await self._probe()
        try:
            await self._client.bootstrap()
        except NotReady:
            raise TryAgain("connecting: no broker is ready yet") from None
        except KafkaError:
            security = f"{PREFIX}SECURITY {self._settings.security}"
            raise TryAgain(f"connecting: the broker answered and then hung up; is {security} what it wants?") from None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _probe(self) -> None:
        """Whether any broker lets us in. Raises NotAllowed, or TryAgain with the reason."""
        denied, reason = None, "no answer"
        for host, port, _ in self._client.hosts:
            try:
                return await knock(host, port, self._settings, self._patience)
            except NotAllowed as denial:
                denied = denied or denial
            except LogUnavailable as away:
                reason = str(away)
        raise denied or TryAgain(f"no broker of {','.join(self._settings.servers)} can be reached: {reason}")

    async def _knock_at(self, node: int) -> None:
        """Whether that broker lets us in, under the address that the others tell. Raises NotAllowed, or TryAgain."""
        broker = self._client.cluster.broker_metadata(node)
        if broker is None:
            return await self._probe()
        try:
            await knock(broker.host, broker.port, self._settings, self._patience)
        except LogUnavailable as away:
            raise TryAgain(f"broker {broker.host}:{broker.port} cannot be reached: {away}") from None

    async def check_welcome(self) -> None:
        """Raise NotAllowed if brokers that we reach do not let us in any more, as after a password was changed."""
        with suppress(TryAgain, TimeoutError):
            async with asyncio.timeout(self.timeout):
                await self._probe()

    async def ask(self, request: Any, what: str, node: int | None = None) -> Any:
        """One attempt at one request to `node`, or to any; the broker's answer, whatever it says."""
        node = self._client.get_random_node() if node is None else node
        try:
            return await self._client.send(node, request)
        except (KafkaError, OSError, TimeoutError) as error:
            self._client.force_metadata_update()
            if isinstance(error, (KafkaConnectionError, NodeNotReadyError)):
                await self._knock_at(node)  # a client says no more than that it has no connection
            failure = explained(error, what, LogUnavailable)
            raise (TryAgain(str(failure)) if isinstance(failure, LogUnavailable) else failure) from None

    async def until_answered(self, what: str, attempt: Callable[[], Awaitable[T]], timeout: float | None = None) -> T:
        """What `attempt` returns, once it does not raise TryAgain any more."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self.timeout if timeout is None else timeout)
        pause, reason = FIRST_PAUSE, f"{what}: no answer from the broker in time"
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await attempt()
            except TryAgain as again:
                reason = str(again)
            except TimeoutError:
                raise LogUnavailable(reason) from None
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
