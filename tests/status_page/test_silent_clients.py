"""Clients that ask for much and read nothing: the memory they take is bounded, others are served, and they are dropped."""

from __future__ import annotations

import asyncio
import socket
import threading
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from streamproc.log.connect import connect
from streamproc.log.port import Log, TopicSettings
from streamproc.privacy.types import Period
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import stated_contracts
from streamproc.service import http_server as listeners
from streamproc.service.http_connections import Limits
from streamproc.service.http_server import Address, Listener
from streamproc.service.load_control import Pace
from streamproc.service.metrics import PublicMetrics
from streamproc.study import Study, WindowRelease
from tests.status_page.serving import Asking, served
from tests.studies import build_study

QUICK = Pace(alone=60.0, contended=0.1)
"""Nobody is dropped for being slow alone, so that a test sees who was dropped for others."""
MB = 1_000_000


class Silent:
    """A client that has sent its request, has next to no buffer, and reads nothing."""

    def __init__(self, url: str, path: str) -> None:
        where = urlsplit(url)
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self._socket.connect((where.hostname, where.port))
        self._socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
        self._socket.setblocking(False)

    async def read_to_the_end(self) -> int:
        """The bytes that came before the server closed the connection."""
        loop, count = asyncio.get_running_loop(), 0
        try:
            while data := await loop.sock_recv(self._socket, 65_536):
                count += len(data)
        except ConnectionError:
            pass
        return count

    def close(self) -> None:
        self._socket.close()


@asynccontextmanager
async def silent_clients(count: int, url: str, path: str) -> AsyncIterator[list[Silent]]:
    clients: list[Silent] = []
    try:
        for _ in range(count):
            clients.append(Silent(url, path))
            await asyncio.sleep(0)
        yield clients
    finally:
        for client in clients:
            client.close()


@asynccontextmanager
async def much_published(folder: Path, study: Study) -> AsyncIterator[Log]:
    """Six megabytes on a public topic. They need not be columns: records are served as they stand there."""
    async with connect("embedded:log", folder=folder) as log:
        topic = Topics(study.name).synthetic("w")
        await log.create_topic(topic, TopicSettings(partitions=1))
        for _ in range(12):
            await log.append(topic, 0, b"x" * (MB // 2))
        yield log


@pytest.fixture
def study() -> Study:
    return build_study(alphabet=("a", "b"), partitions=1)


RECORDS = "/api/v1/records/synthetic/w?offset=0"


async def test_silent_readers_of_records_take_bounded_memory_and_others_get_theirs(study: Study, tmp_path: Path) -> None:
    async with (
        much_published(tmp_path, study) as log,
        served(log, study, pace=QUICK) as asking,
        asyncio.timeout(60),
    ):
        await asking.get(RECORDS)
        tracemalloc.start()
        try:
            async with silent_clients(60, asking.url, RECORDS):
                await asking.wait_for_requests(8)  # more than are sent records at a time
                for path in ("/livez", "/readyz", "/metrics", "/", "/static/page.js", "/api/v1/status"):
                    assert (await asking.get(path))[0] == 200
                code, headers, body = await asking.get(RECORDS)
                peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        print(f"60 silent connections: {peak / MB:.1f} MB at most")
        assert peak < 30 * MB, f"{peak / MB:.0f} MB"
        assert (code, headers["Streamproc-Next"], len(body)) == (200, "2", MB + 8)


async def test_a_silent_reader_is_dropped_though_nobody_waits(study: Study, tmp_path: Path) -> None:
    """By its pace, or by the limit of every connection, whichever comes first."""
    for limits, pace in ((Limits(), Pace(alone=0.3)), (Limits(stall=0.3), QUICK)):
        async with (
            much_published(tmp_path, study) as log,
            served(log, study, limits=limits, pace=pace) as asking,
            silent_clients(2, asking.url, RECORDS) as clients,
            asyncio.timeout(60),
        ):
            await asking.wait_for_requests(len(clients))
            await asking.wait_for_no_connections()
            for client in clients:
                assert 0 < await client.read_to_the_end() < MB


async def test_a_listener_full_of_silent_readers_answers_probes_and_is_free_again(study: Study, tmp_path: Path) -> None:
    limits = Limits(connections=6, reserved=2, stall=2.0)

    async def status(asking: Asking) -> int:
        return (await asking.get("/api/v1/status", Connection="close"))[0]

    async with (
        much_published(tmp_path, study) as log,
        served(log, study, limits=limits) as asking,
        silent_clients(6, asking.url, RECORDS),
        asyncio.timeout(60),
    ):
        await asking.wait_for_requests(limits.connections)
        assert [(await asking.get(path, Connection="close"))[0] for path in ("/livez", "/readyz")] == [200, 200]
        assert await status(asking) == 503
        while await status(asking) != 200:
            await asyncio.sleep(0.05)


@asynccontextmanager
async def many_bins() -> AsyncIterator[tuple[PublicMetrics, Asking]]:
    """Metrics of a release of 65,536 bins, and where they are served."""
    study = build_study(WindowRelease("w", k=16), alphabet=("a", "b"), partitions=1, horizon=16)
    metrics = PublicMetrics(study.name)
    metrics.show_counts(stated_contracts(study, 1000, insecure=False)["w"], Period(16), np.arange(2**16))
    listener = Listener(Address("127.0.0.1", 0), metrics.registry, lambda: True, version=lambda: metrics.version, pace=QUICK)
    address = await listener.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield metrics, Asking(session, f"http://{address.host}:{address.port}", listener.connections)
    finally:
        await listener.stop()


async def test_metrics_of_65536_bins_are_encoded_once_and_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = list[int]()

    def counted(registry: CollectorRegistry) -> bytes:
        body = generate_latest(registry)
        encoded.append(len(body))
        return body

    monkeypatch.setattr(listeners, "generate_latest", counted)
    async with many_bins() as (metrics, asking), asyncio.timeout(120):
        first = (await asking.get("/metrics"))[2]
        assert encoded == [len(first)]
        assert len(first) > 5 * MB
        tracemalloc.start()
        try:
            async with silent_clients(40, asking.url, "/metrics"):
                await asking.wait_for_requests(20)  # more than are sent metrics at a time
                while (found := await asking.get("/metrics"))[0] == 503:
                    await asyncio.sleep(0.1)
                assert [(await asking.get(path))[0] for path in ("/livez", "/readyz")] == [200, 200]
                peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert found[2] == first
        assert len(encoded) == 1
        print(f"40 silent connections: {peak / MB:.1f} MB at most")
        assert peak < 30 * MB, f"{peak / MB:.0f} MB"  # the test itself reads the metrics, and has a copy
        metrics.version += 1
        assert (await asking.get("/metrics"))[2] == first
        assert len(encoded) == 2


async def test_clients_that_hang_up_start_no_further_encoding_of_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    began, at_once, most, may_end = list[int](), 0, 0, threading.Event()
    lock = threading.Lock()

    def counted(registry: CollectorRegistry) -> bytes:
        nonlocal at_once, most
        with lock:
            began.append(1)
            at_once += 1
            most = max(most, at_once)
        may_end.wait(60)
        with lock:
            at_once -= 1
        return b"encoded\n"

    monkeypatch.setattr(listeners, "generate_latest", counted)
    async with many_bins() as (_, asking), asyncio.timeout(60):
        try:
            for _ in range(8):
                async with aiohttp.ClientSession() as session:
                    with pytest.raises(TimeoutError):
                        await session.get(f"{asking.url}/metrics", timeout=aiohttp.ClientTimeout(0.05))
            await asyncio.wait_for(asyncio.to_thread(lambda: None), 10)  # the default executor has a thread for the roles
        finally:
            may_end.set()
        assert (await asking.get("/metrics"))[2] == b"encoded\n"
        print(f"{len(began)} encodings, {most} at once")
        assert (len(began), most) == (1, 1)
