"""The page in this process, without roles: over a log, or over a copy of what is public in one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry

from streamproc.log.connect import connect
from streamproc.log.port import Log, TopicSettings, read_to_end
from streamproc.protocol.topics import Topics
from streamproc.service.http_connections import Connections, Limits
from streamproc.service.http_server import Address, Listener
from streamproc.service.load_control import Pace
from streamproc.status_page import StatusPage
from streamproc.study import Study


class Asking:
    """A client of one listener."""

    def __init__(self, session: aiohttp.ClientSession, url: str, connections: Connections) -> None:
        self._session = session
        self.url = url
        self._connections = connections

    async def wait_for_requests(self, count: int) -> None:
        """Wait until at least so many requests are under way."""
        while sum(each.idle_for() < 0 for each in self._connections) < count:
            await asyncio.sleep(0.005)

    async def wait_for_no_connections(self) -> None:
        """Wait until the listener has closed every connection."""
        while len(self._connections):
            await asyncio.sleep(0.005)

    async def get(self, path: str, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
        async with self._session.get(self.url + path, headers=headers) as answer:
            return answer.status, answer.headers, await answer.read()

    async def plain(self, path: str) -> dict[str, Any]:
        async with self._session.get(self.url + path) as answer:
            assert answer.status == 200, await answer.text()
            return dict(await answer.json())

    async def status_when(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The status once the condition holds."""
        async with asyncio.timeout(60):
            while not condition(found := await self.plain("/api/v1/status")):
                await asyncio.sleep(0.05)
        return found


@asynccontextmanager
async def served(log: Log, study: Study, *, limits: Limits | None = None, pace: Pace | None = None) -> AsyncIterator[Asking]:
    page = StatusPage(study, pace=pace)
    listener = Listener(Address("127.0.0.1", 0), CollectorRegistry(), lambda: True, limits=limits, pace=pace)
    page.attach(listener.app)
    address = await listener.start()
    try:
        async with page.following(log), aiohttp.ClientSession() as session:
            yield Asking(session, f"http://{address.host}:{address.port}", listener.connections)
    finally:
        await listener.stop()


Alter = Callable[[str, int, bytes], bytes]
"""What becomes of a record, given its topic and its number there."""


async def copy_public(log: Log, study: Study, folder: Path, alter: Alter = lambda topic, number, value: value) -> Log:
    """Another log, to be entered, that has the public topics and no other."""
    topics, copy = Topics(study.name), connect("embedded:copy", folder=folder)
    async with copy as written:
        for topic in [topics.ledger, *(topics.synthetic(release.name) for release in study.releases)]:
            await written.create_topic(topic, TopicSettings(partitions=1))
            number = 0
            async for record in read_to_end(log, topic):
                assert record.value is not None
                await written.append(topic, 0, alter(topic, number, record.value))
                number += 1
    return connect("embedded:copy", folder=folder)
