"""Downloads: the unchanged records of the public topics, and releases as CSV files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from aiohttp import web

from streamproc.client.public_reader import PublicReader
from streamproc.errors import Malformed
from streamproc.files.csv import release_csv
from streamproc.log.port import Offset
from streamproc.protocol.columns import ContractRecord, LongContract, decode_synthetic
from streamproc.protocol.topics import Topics
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

    Raises TooLarge before any column is loaded into memory.
    """
    public = PublicReader(topics, study, only=release)
    try:
        await public.catch_up_ledger()
        public.check_ledger()
        rows, ledger = await _count_rows(topics, Topics(study.name).synthetic(release)), public.ledger
        if ledger is not None and rows * len(ledger.column_digests(release)) > MAX_CELLS:
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
    pieces = release_csv(np.stack([column.symbols for column in columns], axis=1), contract.alphabet)
    return File(response, _iterate_in(threads, pieces))


async def _count_rows(topics: PublicTopics, topic: str) -> int:
    """Return the number of synthetic people, from the contract at the start of a release's topic; 0 without a contract."""
    if topic not in await topics.topics():
        return 0
    async for _, value in topics.pieces(topic, Offset(0), 1):
        try:
            record = decode_synthetic(value)
        except Malformed:
            return 0  # reading the whole topic below raises the same error, with its reason
        return record.n_star if isinstance(record, ContractRecord | LongContract) else 0
    return 0


async def _iterate_in(threads: Executor, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    while (piece := await loop.run_in_executor(threads, _next_piece, pieces)) is not None:
        yield piece


def _next_piece(pieces: Iterator[bytes]) -> bytes | None:
    return next(pieces, None)
