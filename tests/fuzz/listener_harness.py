"""The listeners as a stranger meets them: bytes of a connection go in, bytes of an answer come out, and no socket is opened.

They run on a virtual event loop: waiting takes no time, and work for threads is done at once.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
from dataclasses import dataclass
from functools import cache

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import Application, RequestHandler

from streamproc.service.http_server import Address, Listener, operator_listener
from streamproc.service.metrics import OperatorMetrics, PublicMetrics
from streamproc.status_page import StatusPage
from streamproc.status_page.responses import KEEPALIVE_S
from streamproc.testing import VirtualLoop
from tests.stream_model.simulated_study import SimulatedStudy, random_histories
from tests.studies import build_study

TOKEN = "a-token-nobody-guesses"
"""What the operator's listener wants to see."""
PATIENCE = 2 * KEEPALIVE_S
"""Virtual seconds after which a client hangs up that has got no end of an answer."""
HERE = Address("127.0.0.1", 0)


class RecordingTransport(asyncio.Transport):
    """A connection of which what is sent is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.closed = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def close(self) -> None:
        self.closed.set()

    def abort(self) -> None:
        self.closed.set()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """It has room for all."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """All there is to read has been handed over."""

    def resume_reading(self) -> None:
        """All there is to read has been handed over."""


class RecordingLogger(logging.Logger):
    """The errors that a server would log and hide behind a 500; that a request is no HTTP is none of ours."""

    def __init__(self) -> None:
        super().__init__("site")
        self.errors: list[BaseException] = []

    def handle(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, HttpProcessingError):
            self.errors.append(error)


@dataclass(frozen=True)
class ListenerHarness:
    """A listener that is ready for connections."""

    loop: VirtualLoop
    listener: Listener
    page: StatusPage | None = None

    @property
    def app(self) -> Application:
        return self.listener.app

    def ask(self, data: bytes) -> bytes:
        """All that comes back on one connection. Raises whatever a handler raised."""
        return self.loop.run_until_complete(self._send(data))

    async def _send(self, data: bytes) -> bytes:
        if self.page is not None:
            self.page._follower.version += 1  # an answer kept for an earlier input would hide what this one does
        connection, transport, logger = self.listener.connections(), RecordingTransport(), RecordingLogger()
        connection.connection_made(transport)
        assert isinstance(connection._protocol, RequestHandler)
        connection._protocol.logger = logger
        connection.data_received(data)
        try:
            async with asyncio.timeout(PATIENCE):
                await transport.closed.wait()
        except TimeoutError:
            pass
        connection.connection_lost(None)
        await asyncio.sleep(PATIENCE)  # a stream of events finds out with its next beat
        for error in logger.errors:
            raise error
        return bytes(transport.sent)


@cache
def public_harness(alphabet: tuple[str, ...]) -> ListenerHarness:
    """The page of a study of three periods that is over, with a window release `w` and a cumulative one `c`."""
    loop = _loop()
    return loop.run_until_complete(_public_harness(loop, alphabet))


async def _public_harness(loop: VirtualLoop, alphabet: tuple[str, ...]) -> ListenerHarness:
    study = build_study(alphabet=alphabet, partitions=1)
    simulated = await SimulatedStudy(study).begin()
    synthesizer = asyncio.create_task(simulated.synthesizer().run())
    await simulated.feed(random_histories(study, 9))
    await synthesizer
    page, listener = StatusPage(study), Listener(HERE, PublicMetrics(study.name).registry, lambda: True)
    page.attach(listener.app)
    await listener._runner.setup()
    await page._follower.follow(simulated.log)
    return ListenerHarness(loop, listener, page)


@cache
def operator_harness() -> ListenerHarness:
    """The operator's listener with a token, and something private to show."""
    loop = _loop()
    return loop.run_until_complete(_operator_harness(loop))


async def _operator_harness(loop: VirtualLoop) -> ListenerHarness:
    metrics = OperatorMetrics("fuzz")
    metrics.people.labels(0).set(9)
    listener = operator_listener(HERE, metrics.registry, lambda: True, TOKEN)
    await listener._runner.setup()
    return ListenerHarness(loop, listener)


def _loop() -> VirtualLoop:
    loop = VirtualLoop()
    atexit.register(loop.close)
    return loop
