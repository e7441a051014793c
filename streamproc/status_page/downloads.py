"""What is published, as bytes: the records of the public topics as they stand there, and releases as CSV files."""

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
from streamproc.protocol.columns import ContractRecord, decode_synthetic
from streamproc.protocol.topics import Topics
from streamproc.status_page.public_topics import PublicTopics
from streamproc.study import Study

MAX_RESPONSE_BYTES = 1_000_000
"""Of one answer of records, except that a single record always fits. A client that reads slowly keeps them in memory."""

MAX_CELLS = 50_000_000
"""Of a CSV file made here; a larger release is for `streamproc pull`."""


class TooLarge(Exception):
    """A release has more than `MOST_CELLS` cells."""


@dataclass(frozen=True)
class Records:
    """Records to be sent."""

    response: web.StreamResponse
    """With its headers, not prepared yet."""
    parts: Sequence[bytes]


async def records(topics: PublicTopics, topic: str, offset: int) -> Records:
    """Records from an offset on, each after its length in 4 bytes, big-endian. Headers say where the next ones are.

    `Streamproc-Next`: the offset to ask for next; `Streamproc-End`: where the topic ends now.
    """
    if topic not in await topics.topics():
        return _records([], offset, 0)
    end = await topics.last_stable_offset(topic, 0)
    parts, following = list[bytes](), max(offset, end)
    given = 0
    async for after, value in topics.pieces(topic, Offset(offset), MAX_RESPONSE_BYTES):
        parts += [len(value).to_bytes(4, "big"), value]
        given += len(value)
        following = int(after)
    if given < MAX_RESPONSE_BYTES:
        following = max(following, end)  # past the markers of transactions, which are no records
    return _records(parts, following, end)


def _records(parts: Sequence[bytes], following: int, end: int) -> Records:
    headers = {"Streamproc-Next": str(following), "Streamproc-End": str(end), "Cache-Control": "no-store"}
    headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(sum(map(len, parts)))}
    return Records(web.StreamResponse(headers=headers), parts)


@dataclass(frozen=True)
class File:
    """A CSV file to be sent, whose rows are encoded while they are sent."""

    response: web.StreamResponse
    """With its headers, not prepared yet."""
    pieces: AsyncIterator[bytes]


async def csv_file(topics: PublicTopics, study: Study, release: str, threads: Executor) -> File | None:
    """The release so far, in the form of CONTRACT: header `synthetic,1,...,t`. None before its first column.

    Raises TooLarge before any column is kept in memory.
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
    return File(response, _made_in(threads, pieces))


async def _count_rows(topics: PublicTopics, topic: str) -> int:
    """The synthetic people of a release, by the contract that its topic begins with; 0 if there is none."""
    if topic not in await topics.topics():
        return 0
    async for _, value in topics.pieces(topic, Offset(0), 1):
        try:
            record = decode_synthetic(value)
        except Malformed:
            return 0  # who reads the topic finds the same, and says what it is
        return record.n_star if isinstance(record, ContractRecord) else 0
    return 0


async def _made_in(threads: Executor, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    while (piece := await loop.run_in_executor(threads, _next_piece, pieces)) is not None:
        yield piece


def _next_piece(pieces: Iterator[bytes]) -> bytes | None:
    return next(pieces, None)
