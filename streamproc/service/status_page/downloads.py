"""What is published, as bytes: the records of the public topics as they stand there, and releases as CSV files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor

import numpy as np
from aiohttp import web

from streamproc.ports.log import Offset
from streamproc.ports.panel_csv import release_csv
from streamproc.service.public import PublicStudy
from streamproc.service.status_page.answers import problem
from streamproc.service.status_page.public_topics import PublicTopics
from streamproc.study import Study

MOST_BYTES = 4_000_000
"""Of one answer of records, except that a single record always fits."""

MOST_CELLS = 50_000_000
"""Of a CSV file made here; a larger release is for `streamproc pull`."""

AT_ONCE = 1 << 20
"""Bytes of a file that are written at once."""

STALLED = 30.0
"""Seconds in which a reader must have taken that much. Files are sent to one reader after the other, because each of them
takes memory: whoever reads nothing must not keep out everybody else. A line of 35 kB a second is fast enough."""


async def records(topics: PublicTopics, topic: str, offset: int) -> web.Response:
    """Records from an offset on, each after its length in 4 bytes, big-endian. Headers say where the next ones are.

    `Streamproc-Next`: the offset to ask for next; `Streamproc-End`: where the topic ends now.
    """
    if topic not in await topics.topics():
        return web.Response(body=b"", headers=_places(offset, 0))
    end = await topics.stable_offset(topic, 0)
    parts, following = [], max(offset, end)
    given = 0
    async for after, value in topics.pieces(topic, Offset(offset), MOST_BYTES):
        parts += [len(value).to_bytes(4, "big"), value]
        given += len(value)
        following = int(after)
    if given < MOST_BYTES:
        following = max(following, end)  # past the markers of transactions, which are no records
    return web.Response(body=b"".join(parts), content_type="application/octet-stream", headers=_places(following, end))


def _places(following: int, end: int) -> dict[str, str]:
    return {"Streamproc-Next": str(following), "Streamproc-End": str(end), "Cache-Control": "no-store"}


async def csv_file(
    request: web.Request, topics: PublicTopics, study: Study, release: str, threads: Executor
) -> web.StreamResponse:
    """The release so far, in the form of CONTRACT: header `synthetic,1,...,t`."""
    public = PublicStudy(topics, study)
    try:
        await public.catch_up()
    finally:
        await public.close()
    columns = public.columns(release)
    if not columns:
        return problem(404, f"release {release}: no column is published yet")
    name = f"{study.name}-{release}-{len(columns)}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-cache"}
    response = web.StreamResponse(headers=headers)
    response.content_type, response.charset = "text/csv", "utf-8"
    await response.prepare(request)
    contract = public.contracts()[release]
    pieces = release_csv(np.stack([column.symbols for column in columns], axis=1), contract.alphabet)
    await _send(request, response, pieces, threads)
    return response


async def _send(request: web.Request, response: web.StreamResponse, pieces: Iterator[bytes], threads: Executor) -> None:
    """All of it; the connection of a reader who has stalled is cut."""
    loop = asyncio.get_running_loop()
    try:
        while (piece := await loop.run_in_executor(threads, _next_piece, pieces)) is not None:
            for start in range(0, len(piece), AT_ONCE):
                async with asyncio.timeout(STALLED):
                    await response.write(piece[start : start + AT_ONCE])
        async with asyncio.timeout(STALLED):
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()  # to close it would be to wait until the rest is read
    except ConnectionError:
        pass  # the reader is gone


def _next_piece(pieces: Iterator[bytes]) -> bytes | None:
    return next(pieces, None)
