"""Downloads: the unchanged records of the public topics, and releases as CSV files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from aiohttp import web

from streamproc.client.public_reader import PublicReader
from streamproc.files.csv import release_csv
from streamproc.log.port import Offset
from streamproc.panel.open_columns import cells_of_columns
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.status_page.follower import PublicTopics
from streamproc.study import Study

MAX_RESPONSE_BYTES = 1_000_000
"""Maximum bytes of records in one response, or one record more. They stay in memory until the client has received them."""

MAX_CELLS = 50_000_000
"""Maximum cells of a CSV file that the page serves; `streamproc pull` writes larger releases."""


class TooLarge(Exception):
    """A release has more than `MAX_CELLS` cells."""


@dataclass(frozen=True)
class Records:
    """Records to send in a response."""

    response: web.StreamResponse
    """The response with its headers, not prepared yet."""
    parts: Sequence[bytes]
    """The body: for each record its length in 4 bytes, and its value."""


async def records(topics: PublicTopics, topic: str, offset: int) -> Records:
    """Return the records from an offset on, each preceded by its length in 4 bytes, big-endian.

    The header `Streamproc-Next` is the offset to request next, and `Streamproc-End` the one after the last committed record.
    """
    if topic not in await topics.topics():
        return _records([], offset, 0)
    end = await topics.last_stable_offset(topic, 0)
    parts, next_offset, size = list[bytes](), max(offset, end), 0
    async for following, value in topics.pieces(topic, Offset(offset), MAX_RESPONSE_BYTES):
        parts += [len(value).to_bytes(4, "big"), value]
        size += len(value)
        next_offset = int(following)
    if size < MAX_RESPONSE_BYTES:
        next_offset = max(next_offset, end)  # skips transaction markers, which are not records
    return _records(parts, next_offset, end)


def _records(parts: Sequence[bytes], next_offset: int, end: int) -> Records:
    headers = {"Streamproc-Next": str(next_offset), "Streamproc-End": str(end), "Cache-Control": "no-store"}
    headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(sum(map(len, parts)))}
    return Records(web.StreamResponse(headers=headers), parts)


@dataclass(frozen=True)
class File:
    """A CSV file to send. Its rows are encoded while they are sent."""

    response: web.StreamResponse
    """The response with its headers, not prepared yet."""
    pieces: AsyncIterator[bytes]


async def csv_file(topics: PublicTopics, study: Study, release: str, threads: Executor) -> File | None:
    """Return the release so far as CSV with header `synthetic,1,...,t`; None before its first column.

    In an open study a cell is empty before a synthetic person enters and after they have left. Raises TooLarge before any
    column is loaded into memory.
    """
    public = PublicReader(topics, study, only=release)
    try:
        await public.catch_up_ledger()
        public.check_ledger()
        if public.ledger is not None and _cells(public.ledger, release) > MAX_CELLS:
            raise TooLarge
        await public.catch_up()
    finally:
        await public.close()
    columns = public.columns(release)
    if not columns:
        return None
    name = f"{study.name}-{release}-{len(columns)}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-cache"}
    response = web.StreamResponse(headers=headers)
    response.content_type, response.charset = "text/csv", "utf-8"
    contract = public.contracts()[release]
    cells = cells_of_columns(contract, [column.symbols for column in columns])
    pieces = release_csv(np.stack(cells, axis=1), (*contract.alphabet, ""))
    return File(response, _iterate_in(threads, pieces))


def _cells(ledger: VerifiedLedger, release: str) -> int:
    """Number of cells of a release: its rows so far times its columns."""
    last = ledger.periods[-1].releases[release].n_star if ledger.periods else None
    return (last or 0) * len(ledger.column_digests(release))


async def _iterate_in(threads: Executor, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    while (piece := await loop.run_in_executor(threads, _next_piece, pieces)) is not None:
        yield piece


def _next_piece(pieces: Iterator[bytes]) -> bytes | None:
    return next(pieces, None)
