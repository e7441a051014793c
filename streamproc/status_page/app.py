"""The page's addresses. `/api/v1/` lists those of the data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from aiohttp import web

from streamproc.errors import InvalidInput, LogError, StreamprocError
from streamproc.log.port import Log
from streamproc.panel.history import History
from streamproc.protocol.topics import Topics
from streamproc.releases.replace_one import replace_one_costs
from streamproc.service.load_control import CacheKey, ConcurrencyLimiter, Overloaded, ResponseCache, SingleFlight
from streamproc.service.response_streaming import CHUNK, Pace, pieces_of, stream_response
from streamproc.status_page import views as documents
from streamproc.status_page.downloads import MAX_CELLS, TooLarge, csv_file, records
from streamproc.status_page.follower import Follower, PageSnapshot
from streamproc.status_page.public_topics import PublicTopics
from streamproc.status_page.responses import Asset, Body, adding_headers, assets, error_response, json_bytes
from streamproc.status_page.sse import EventStreams
from streamproc.study import Study

MAX_CACHE_BYTES = 16_000_000
"""Bytes of questions and answers that are kept for whoever asks the same."""

MAX_QUERIES = 16
MAX_BINS = 100
MAX_PERIODS = 500

ADDRESSES = {
    "/api/v1/status": "the study, what it has spent, how far it is",
    "/api/v1/series?release=R&query=Q": "answers over time with 95% intervals; query may be repeated; from, to",
    "/api/v1/bins?release=R": "the largest bins of the last period; search, limit",
    "/api/v1/ledger": "the chain, newest first; before, limit",
    "/api/v1/records/ledger?offset=0": "records of the ledger topic as they stand there",
    "/api/v1/records/synthetic/R?offset=0": "records of a release's topic as they stand there",
    "/api/v1/releases/R.csv": "a release as a file",
    "/api/v1/events": "Server-Sent Events: `news` when something has changed",
}


class StatusPage:
    """The page of one study, on one listener."""

    def __init__(
        self,
        study: Study,
        tell: Callable[[PageSnapshot], None] = lambda shown: None,
        *,
        away: Callable[[LogError], None] = lambda problem: None,
        pace: Pace | None = None,
    ) -> None:
        """`tell` is called with whatever the page shows from now on; `away` when the topics cannot be read.

        What `away` raises ends `follow`.
        """
        self._study = study
        self._costs = replace_one_costs(study)
        self._pace = pace or Pace()
        # Its own threads: whoever asks much here must not keep the synthesizer waiting for one.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="status-page")
        self._follower = Follower(study, self._threads, tell, away)
        self._streams = EventStreams(self._follower)
        self._assets = assets()
        self._work, self._reading, self._files = (
            ConcurrencyLimiter(2, 64),
            ConcurrencyLimiter(4, 64),
            ConcurrencyLimiter(1, 4),
        )
        self._large = ConcurrencyLimiter(8, 64)
        """Documents that are sent in more than one chunk: a slow client keeps one in memory that others may not need."""
        self._kept, self._making = ResponseCache[Body](MAX_CACHE_BYTES), SingleFlight[Body]()

    def attach(self, app: web.Application) -> None:
        """Serve it there."""
        app.on_response_prepare.append(adding_headers(self._assets["index.html"].body.plain))
        app.on_shutdown.append(self._streams.close)
        app.on_cleanup.append(self._let_go)
        app.add_routes(
            [
                web.get("/", self._guarded(self._index)),
                web.get("/static/{name}", self._guarded(self._asset)),
                web.get("/api/v1/", self._guarded(self._addresses)),
                web.get("/api/v1/status", self._guarded(self._get_status)),
                web.get("/api/v1/series", self._guarded(self._series)),
                web.get("/api/v1/bins", self._guarded(self._bins)),
                web.get("/api/v1/ledger", self._guarded(self._ledger)),
                web.get("/api/v1/records/ledger", self._guarded(self._ledger_records)),
                web.get("/api/v1/records/synthetic/{release}", self._guarded(self._synthetic_records)),
                web.get("/api/v1/releases/{release}.csv", self._guarded(self._csv)),
                web.get("/api/v1/events", self._streams.serve, allow_head=False),
            ]
        )

    @asynccontextmanager
    async def following(self, log: Log) -> AsyncIterator[None]:
        """Read the public topics beside whatever else the process does."""
        task = asyncio.create_task(self._follower.follow(log))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            self._follower.topics = None

    async def follow(self, log: Log) -> None:
        """Read the public topics until the last column of the last period is there; what is shown stays."""
        await self._follower.follow(log)

    async def _let_go(self, app: web.Application) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    # the page itself

    async def _index(self, request: web.Request) -> web.StreamResponse:
        asset = self._assets["index.html"]
        return await self._answer_asset(request, asset)

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        asset = self._assets.get(request.match_info["name"])
        return error_response(404, "no such file") if asset is None else await self._answer_asset(request, asset)

    async def _answer_asset(self, request: web.Request, asset: Asset) -> web.StreamResponse:
        async def get_body() -> Body:
            return asset.body

        return await self._answer(request, get_body, asset.kind)

    # its data

    async def _addresses(self, request: web.Request) -> web.StreamResponse:
        async def get_body() -> Body:
            return Body.of(json_bytes({"version": 1, "addresses": ADDRESSES}))

        return await self._answer(request, get_body, "application/json")

    async def _get_status(self, request: web.Request) -> web.StreamResponse:
        # There is only one of it, and whoever wants to know whether all is well must not have to wait behind others.
        return await self._made(
            request, ("status",), lambda: documents.status(self._study, self._follower.shown, self._costs), nullcontext
        )

    async def _series(self, request: web.Request) -> web.StreamResponse:
        history, queries = self._history(request), request.query.getall("query", [])
        if not 1 <= len(queries) <= MAX_QUERIES:
            raise InvalidInput(f"query: 1 to {MAX_QUERIES} are expected, got {len(queries)}")
        first, last = _number(request, "from", 1, 1), _number(request, "to", self._study.horizon, 1)
        if first > last:
            raise InvalidInput(f"from: a period no later than {last}, where the series ends, was expected, got {first}")
        question = ("series", history.contract.name, tuple(queries), first, last)
        return await self._made(request, question, lambda: documents.answers(history, queries, first, last))

    async def _bins(self, request: web.Request) -> web.StreamResponse:
        history, limit = self._history(request), _number(request, "limit", 12, 1, MAX_BINS)
        search = request.query.get("search", "")
        question = ("bins", history.contract.name, search, limit)
        return await self._made(request, question, lambda: documents.bins(history, search, limit))

    async def _ledger(self, request: web.Request) -> web.StreamResponse:
        limit = _number(request, "limit", 24, 1, MAX_PERIODS)
        before = _number(request, "before", self._study.horizon + 1, 1)
        question = ("ledger", before, limit)
        return await self._made(
            request, question, lambda: documents.chain(self._follower.shown.ledger, before, limit, self._costs)
        )

    async def _ledger_records(self, request: web.Request) -> web.StreamResponse:
        return await self._records(request, Topics(self._study.name).ledger)

    async def _synthetic_records(self, request: web.Request) -> web.StreamResponse:
        return await self._records(request, Topics(self._study.name).synthetic(self._release(request)))

    async def _records(self, request: web.Request, topic: str) -> web.StreamResponse:
        async with self._reading.enter():
            found = await records(self._topics(), topic, _number(request, "offset", 0, 0))
            return await stream_response(
                request, found.response, pieces_of(found.parts), self._reading.has_waiters, self._pace
            )

    async def _csv(self, request: web.Request) -> web.StreamResponse:
        release = self._release(request)
        async with self._files.enter():
            try:
                found = await csv_file(self._topics(), self._study, release, self._threads)
            except TooLarge:
                return error_response(413, f"release {release} has more than {MAX_CELLS} cells: use `streamproc pull`")
            if found is None:
                return error_response(404, f"release {release}: no column is published yet")
            return await stream_response(request, found.response, found.pieces, self._files.has_waiters, self._pace)

    # what they share

    def _guarded(self, handler: Callable[[web.Request], Any]) -> Callable[[web.Request], Any]:
        """A wrong question is told so, and nothing that fails shows its inside."""

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                found: web.StreamResponse = await handler(request)
                return found
            except InvalidInput as wrong:
                return error_response(400, str(wrong))
            except Overloaded:
                return error_response(503, "too many ask at once; try again")
            except StreamprocError:
                return error_response(503, "the public topics cannot be read now")

        return answer

    async def _made(
        self,
        request: web.Request,
        question: CacheKey,
        make: Callable[[], Mapping[str, Any]],
        turn: Callable[[], AbstractAsyncContextManager[None]] | None = None,
    ) -> web.StreamResponse:
        """Answer with what was made of the newest version, or is being made for another client, or is made now."""
        version = self._follower.version  # what `make` reads is of this version

        async def find_or_make() -> Body:
            body = self._kept.get(version, question)
            if body is None:
                body = await self._making.once((version, question), lambda: self._make(version, question, make, turn))
            return body

        return await self._answer(request, find_or_make, "application/json")

    async def _answer(self, request: web.Request, get_body: Callable[[], Awaitable[Body]], kind: str) -> web.StreamResponse:
        """The body, or 304 if the browser has it; a large one in chunks, when it is our turn.

        A client that waits for its turn holds no body in memory: `get_body` is called again when it is admitted.
        """
        response = _respond_at_once(request, await get_body(), kind)
        if response is not None:
            return response
        async with self._large.enter():
            content, headers = (await get_body()).negotiate_encoding(request)
            headers |= {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))}
            streamed = web.StreamResponse(headers=headers)
            return await stream_response(request, streamed, pieces_of([content]), self._large.has_waiters, self._pace)

    async def _make(
        self,
        version: int,
        question: CacheKey,
        make: Callable[[], Mapping[str, Any]],
        turn: Callable[[], AbstractAsyncContextManager[None]] | None,
    ) -> Body:
        async with (turn or self._work.enter)():
            body = await asyncio.get_running_loop().run_in_executor(self._threads, lambda: Body.of(json_bytes(make())))
        self._kept.put(version, question, body)
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
        history = self._follower.shown.histories.get(name)
        if history is None or not history.counts:
            raise InvalidInput(f"release {name}: nothing is published yet")
        return history


def _respond_at_once(request: web.Request, body: Body, kind: str) -> web.Response | None:
    """304 if the client has the body, or a body of one chunk; None for a larger one."""
    content, headers = body.negotiate_encoding(request)
    headers["Content-Type"] = f"{kind}; charset=utf-8"
    if body.matches_etag(request):
        return web.Response(status=304, headers=headers)
    return web.Response(body=content, headers=headers) if len(content) <= CHUNK else None


def _number(request: web.Request, name: str, default: int, low: int, high: int = 10**18 - 1) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19 and low <= int(text) <= high):
        raise InvalidInput(f"{name}: a whole number from {low} to {high} was expected")
    return int(text)
