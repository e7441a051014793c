"""Sends reports, each to the home partition of its individual. This is the client for programs that report."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from streamproc.errors import InvalidInput
from streamproc.log.port import Log
from streamproc.protocol.reports import MAX_ID, encode_batches, encode_report, home_partition
from streamproc.protocol.topics import Topics
from streamproc.study import Study


class Reporter:
    """Sends reports of one study. Raises InvalidInput for a wrong report; no message contains an id or a symbol."""

    def __init__(self, log: Log, study: Study) -> None:
        self._log = log
        self._study = study
        self._topic = Topics(study.name).reports
        self._symbols = study.symbol_index
        self._homes: dict[str, int] = {}

    async def report(self, individual: str, period: int, symbol: str) -> None:
        """Send one report; returns when the broker has acknowledged it."""
        self._check(individual, period, symbol)
        value = encode_report(individual, period, symbol)
        await self._log.append(self._topic, self._home(individual), value, individual.encode())

    async def report_all(self, individuals: Sequence[str], period: int, symbols: Sequence[str]) -> None:
        """Send reports of one period, one record for each; returns when the broker has acknowledged all of them."""
        batches: dict[int, list[tuple[bytes | None, bytes]]] = defaultdict(list)
        for individual, symbol in zip(individuals, symbols, strict=True):
            self._check(individual, period, symbol)
            record = (individual.encode(), encode_report(individual, period, symbol))
            batches[self._home(individual)].append(record)
        await asyncio.gather(*(self._log.append_many(self._topic, home, batch) for home, batch in batches.items()))

    async def report_packed(self, individuals: Sequence[str], period: int, symbols: Sequence[str]) -> None:
        """Send reports of one period, many in one record; returns when the broker has acknowledged all of them.

        This is much cheaper than one record for each report, for a gateway that collects reports.
        """
        indices_by_home: dict[int, list[int]] = defaultdict(list)
        for index, (individual, symbol) in enumerate(zip(individuals, symbols, strict=True)):
            self._check(individual, period, symbol)
            indices_by_home[self._home(individual)].append(index)
        for home, chosen in indices_by_home.items():
            ids = [individuals[index] for index in chosen]
            indices = np.array([self._symbols[symbols[index]] for index in chosen], dtype=np.uint8)
            periods = np.full(len(chosen), period, dtype=np.uint16)
            records = [(None, value) for value in encode_batches(ids, periods, indices)]
            await self._log.append_many(self._topic, home, records)

    def _home(self, individual: str) -> int:
        home = self._homes.get(individual)
        if home is None:
            home = self._homes[individual] = home_partition(individual, self._study.broker.partitions)
        return home

    def _check(self, individual: str, period: int, symbol: str) -> None:
        if not 1 <= period <= self._study.last_period:
            raise InvalidInput(f"a report of period {period}, but the study has periods 1..{self._study.last_period}")
        if symbol not in self._symbols:
            raise InvalidInput("a report with a symbol outside the study's alphabet")
        if not 1 <= len(individual) <= MAX_ID:
            raise InvalidInput(f"a report with an id that does not have 1..{MAX_ID} characters")
