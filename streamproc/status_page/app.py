"""The status page as a web application: its addresses and how each is served. `/api/v1/` lists the addresses of the data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from aiohttp import web

from streamproc.errors import InvalidInput, LogError, StreamprocError
from streamproc.log.port import Log
from streamproc.panel.series import MAX_POINTS, History
from streamproc.protocol.topics import Topics
from streamproc.releases.replace_one import replace_one_costs
from streamproc.service.load_control import (
    CHUNK,
    CacheKey,
    ConcurrencyLimiter,
    Overloaded,
    Pace,
    ResponseCache,
    SingleFlight,
    pieces_of,
    stream_response,
)
from streamproc.status_page import views
from streamproc.status_page.downloads import MAX_CELLS, TooLarge, csv_file, records
from streamproc.status_page.follower import Follower, PageSnapshot, PublicTopics
from streamproc.status_page.responses import (
    Asset,
    Body,
    EventStreams,
    add_security_headers,
    assets,
    error_response,
    json_bytes,
)
from streamproc.study import Study

MAX_CACHE_BYTES = 16_000_000
"""Maximum bytes of the response cache, keys included."""

MAX_QUERIES = 16
"""Maximum queries in one request of `series`."""
MAX_BINS = 100
"""Maximum bins in one response."""
MAX_PERIODS = 500
"""Maximum periods of the ledger in one response."""

ADDRESSES = {
    "/api/v1/status": "the study, what it has spent and how far it is",
    "/api/v1/series?release=R&query=Q": "answers over time with 95% intervals; query may be repeated; from, to",
    "/api/v1/bins?release=R": "the largest bins of the last period; search, limit",
    "/api/v1/ledger": "the chain, newest first; before, limit",
    "/api/v1/records/ledger?offset=0": "records of the ledger topic, unchanged",
    "/api/v1/records/synthetic/R?offset=0": "records of a release's topic, unchanged",
    "/api/v1/releases/R.csv": "a release as a CSV file",
    "/api/v1/events": "Server-Sent Events: `news` when something has changed",
}


class StatusPage:
    """The status page of one study, served on one listener."""

    def __init__(
        self,
        study: Study,
        on_change: Callable[[PageSnapshot], None] = lambda snapshot: None,
        *,
        on_outage: Callable[[LogError], None] = lambda problem: None,
        pace: Pace | None = None,
    ) -> None:
        """Create the page. `on_change` is called with every new snapshot, `on_outage` when the topics cannot be read.

        An exception from `on_outage` ends `follow`.
        """
        self._study = study
        self._costs = replace_one_costs(study)
        self._pace = pace or Pace()
        # The page has its own threads, so that many requests cannot delay the synthesizer of the same process.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="status-page")
        self._follower = Follower(study, self._threads, on_change, on_outage)
        self._streams = EventStreams(self._follower)
        self._assets = assets()
        self._computing = ConcurrencyLimiter(2, 64)
        self._reading_records = ConcurrencyLimiter(4, 64)
        self._csv_files = ConcurrencyLimiter(1, 4)
        self._large_bodies = ConcurrencyLimiter(8, 64)
        """Limits bodies of more than one chunk, because a slow client keeps its body in memory."""
        self._cache = ResponseCache[Body](MAX_CACHE_BYTES)
        self._in_flight = SingleFlight[Body]()

    def attach(self, app: web.Application) -> None:
        """Add the page's addresses and headers to an application."""
        app.on_response_prepare.append(add_security_headers(self._assets["index.html"].body.plain))
        app.on_shutdown.append(self._streams.close)
        app.on_cleanup.append(self._stop_threads)
        app.add_routes(
            [
                web.get("/", self._handle_errors(self._index)),
                web.get("/static/{name}", self._handle_errors(self._asset)),
                web.get("/api/v1/", self._handle_errors(self._addresses)),
                web.get("/api/v1/status", self._handle_errors(self._get_status)),
                web.get("/api/v1/series", self._handle_errors(self._series)),
                web.get("/api/v1/bins", self._handle_errors(self._bins)),
                web.get("/api/v1/ledger", self._handle_errors(self._ledger)),
                web.get("/api/v1/records/ledger", self._handle_errors(self._ledger_records)),
                web.get("/api/v1/records/synthetic/{release}", self._handle_errors(self._synthetic_records)),
                web.get("/api/v1/releases/{release}.csv", self._handle_errors(self._csv)),
                web.get("/api/v1/events", self._streams.serve, allow_head=False),
            ]
        )

    @asynccontextmanager
    async def following(self, log: Log) -> AsyncIterator[None]:
        """Follow the public topics in a background task while the context is open."""
        task = asyncio.create_task(self._follower.follow(log))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            self._follower.topics = None

    async def follow(self, log: Log) -> None:
        """Follow the public topics until the last column of the last period was read. The page then still shows it."""
        await self._follower.follow(log)

    async def _stop_threads(self, app: web.Application) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    # Files of the page

    async def _index(self, request: web.Request) -> web.StreamResponse:
        asset = self._assets["index.html"]
        return await self._respond_with_asset(request, asset)

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        asset = self._assets.get(request.match_info["name"])
        return error_response(404, "no such file") if asset is None else await self._respond_with_asset(request, asset)

    async def _respond_with_asset(self, request: web.Request, asset: Asset) -> web.StreamResponse:
        async def get_body() -> Body:
            return asset.body

        return await self._respond(request, get_body, asset.content_type)

    # Data

    async def _addresses(self, request: web.Request) -> web.StreamResponse:
        async def get_body() -> Body:
            return Body.of(json_bytes({"version": 1, "addresses": ADDRESSES}))

        return await self._respond(request, get_body, "application/json")

    async def _get_status(self, request: web.Request) -> web.StreamResponse:
        # No concurrency limit: there is only one such body, and a check of the status must not wait for other requests.
        return await self._respond_cached(
            request, ("status",), lambda: views.status(self._study, self._follower.snapshot, self._costs), nullcontext
        )

    async def _series(self, request: web.Request) -> web.StreamResponse:
        history, queries = self._history(request), request.query.getall("query", [])
        if not 1 <= len(queries) <= MAX_QUERIES:
            raise InvalidInput(f"query: expected 1 to {MAX_QUERIES} queries, got {len(queries)}")
        last = _number(request, "to", self._study.last_period, 1)
        # Of an open study the newest periods, since a study without an end has more than anybody looks at.
        newest = max(min(last, history.period) - MAX_POINTS + 1, 1)
        first = _number(request, "from", newest if self._study.is_open else 1, 1)
        if first > last:
            raise InvalidInput(f"from: expected a period no later than {last}, where the series ends, got {first}")
        key = ("series", history.contract.name, tuple(queries), first, last)
        return await self._respond_cached(request, key, lambda: views.answers(history, queries, first, last))

    async def _bins(self, request: web.Request) -> web.StreamResponse:
        history, limit = self._history(request), _number(request, "limit", 12, 1, MAX_BINS)
        search = request.query.get("search", "")
        key = ("bins", history.contract.name, search, limit)
        return await self._respond_cached(request, key, lambda: views.bins(history, search, limit))

    async def _ledger(self, request: web.Request) -> web.StreamResponse:
        limit = _number(request, "limit", 24, 1, MAX_PERIODS)
        before = _number(request, "before", self._study.last_period + 1, 1)
        key = ("ledger", before, limit)
        return await self._respond_cached(
            request, key, lambda: views.chain(self._follower.snapshot.ledger, before, limit, self._costs)
        )

    async def _ledger_records(self, request: web.Request) -> web.StreamResponse:
        return await self._records(request, Topics(self._study.name).ledger)

    async def _synthetic_records(self, request: web.Request) -> web.StreamResponse:
        return await self._records(request, Topics(self._study.name).synthetic(self._release(request)))

    async def _records(self, request: web.Request, topic: str) -> web.StreamResponse:
        async with self._reading_records.enter():
            batch = await records(self._topics(), topic, _number(request, "offset", 0, 0))
            return await stream_response(
                request, batch.response, pieces_of(batch.parts), self._reading_records.has_waiters, self._pace
            )

    async def _csv(self, request: web.Request) -> web.StreamResponse:
        release = self._release(request)
        async with self._csv_files.enter():
            try:
                file = await csv_file(self._topics(), self._study, release, self._threads)
            except TooLarge:
                return error_response(413, f"release {release} has more than {MAX_CELLS} cells. Use `streamproc pull`.")
            if file is None:
                return error_response(404, f"release {release}: no column is published yet")
            return await stream_response(request, file.response, file.pieces, self._csv_files.has_waiters, self._pace)

    # Parts that handlers share

    def _handle_errors(self, handler: Callable[[web.Request], Any]) -> Callable[[web.Request], Any]:
        """Return a handler that turns errors into responses: 400 with the reason, or 503 without details of the failure."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                response: web.StreamResponse = await handler(request)
                return response
            except InvalidInput as error:
                return error_response(400, str(error))
            except Overloaded:
                return error_response(503, "too many requests at once; try again")
            except StreamprocError:
                return error_response(503, "the public topics cannot be read now")

        return handle

    async def _respond_cached(
        self,
        request: web.Request,
        key: CacheKey,
        make: Callable[[], Mapping[str, Any]],
        limit: Callable[[], AbstractAsyncContextManager[None]] | None = None,
    ) -> web.StreamResponse:
        """Respond with the JSON of `make()` for the newest version: from the cache, else computed once for all clients."""
        version = self._follower.version  # `make` reads the snapshot of this version

        async def find_or_make() -> Body:
            body = self._cache.get(version, key)
            if body is None:
                body = await self._in_flight.once((version, key), lambda: self._make(version, key, make, limit))
            return body

        return await self._respond(request, find_or_make, "application/json")

    async def _respond(
        self, request: web.Request, get_body: Callable[[], Awaitable[Body]], content_type: str
    ) -> web.StreamResponse:
        """Respond with a body, or with 304 if the client has it. A large body is sent in chunks, under a concurrency limit.

        A client that waits for the limit holds no body in memory: `get_body` is called again when it is admitted.
        """
        response = _small_response(request, await get_body(), content_type)
        if response is not None:
            return response
        async with self._large_bodies.enter():
            content, headers = (await get_body()).negotiate_encoding(request)
            headers |= {"Content-Type": f"{content_type}; charset=utf-8", "Content-Length": str(len(content))}
            streamed = web.StreamResponse(headers=headers)
            return await stream_response(request, streamed, pieces_of([content]), self._large_bodies.has_waiters, self._pace)

    async def _make(
        self,
        version: int,
        key: CacheKey,
        make: Callable[[], Mapping[str, Any]],
        limit: Callable[[], AbstractAsyncContextManager[None]] | None,
    ) -> Body:
        async with (limit or self._computing.enter)():
            body = await asyncio.get_running_loop().run_in_executor(self._threads, lambda: Body.of(json_bytes(make())))
        self._cache.put(version, key, body)
        return body

    def _topics(self) -> PublicTopics:
        if self._follower.topics is None:
            raise Overloaded
        return self._follower.topics

    def _release(self, request: web.Request) -> str:
        name = request.match_info.get("release") or request.query.get("release", "")
        return self._study.release(name).name

    def _history(self, request: web.Request) -> History:
        name = self._release(request)
        history = self._follower.snapshot.histories.get(name)
        if history is None or not history.counts:
            raise InvalidInput(f"release {name}: no column is published yet")
        return history


def _small_response(request: web.Request, body: Body, content_type: str) -> web.Response | None:
    """Return a 304 if the client has the body, or the body if it is one chunk; None for a larger one."""
    content, headers = body.negotiate_encoding(request)
    headers["Content-Type"] = f"{content_type}; charset=utf-8"
    if body.matches_etag(request):
        return web.Response(status=304, headers=headers)
    return web.Response(body=content, headers=headers) if len(content) <= CHUNK else None


def _number(request: web.Request, name: str, default: int, low: int, high: int = 10**18 - 1) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19 and low <= int(text) <= high):
        raise InvalidInput(f"{name}: expected a whole number from {low} to {high}")
    return int(text)
