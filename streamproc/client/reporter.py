"""For programs that report: sends each report to its individual's home partition, acknowledged."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from streamproc.errors import InvalidInput
from streamproc.log.port import Log
from streamproc.protocol.partitioner import home_partition
from streamproc.protocol.reports import MAX_ID, encode_batches, encode_report
from streamproc.protocol.topics import Topics
from streamproc.study import Study


class Reporter:
    """Sends reports of one study. Nothing it raises carries an id or a symbol."""

    def __init__(self, log: Log, study: Study) -> None:
        self._log = log
        self._study = study
        self._topic = Topics(study.name).reports
        self._symbols = study.symbol_index
        self._homes: dict[str, int] = {}

    async def report(self, individual: str, period: int, symbol: str) -> None:
        """Send one report; returns when it is acknowledged."""
        self._check(individual, period, symbol)
        value = encode_report(individual, period, symbol)
        await self._log.append(self._topic, self._home(individual), value, individual.encode())

    async def report_all(self, individuals: Sequence[str], period: int, symbols: Sequence[str]) -> None:
        """Send everybody's report of one period, a record each; returns when all are acknowledged."""
        batches: dict[int, list[tuple[bytes | None, bytes]]] = defaultdict(list)
        for individual, symbol in zip(individuals, symbols, strict=True):
            self._check(individual, period, symbol)
            record = (individual.encode(), encode_report(individual, period, symbol))
            batches[self._home(individual)].append(record)
        await asyncio.gather(*(self._log.append_many(self._topic, home, batch) for home, batch in batches.items()))

    async def report_packed(self, individuals: Sequence[str], period: int, symbols: Sequence[str]) -> None:
        """The same, many reports to a record: far cheaper for a gateway that collects them."""
        places: dict[int, list[int]] = defaultdict(list)
        for place, (individual, symbol) in enumerate(zip(individuals, symbols, strict=True)):
            self._check(individual, period, symbol)
            places[self._home(individual)].append(place)
        for home, chosen in places.items():
            ids = [individuals[place] for place in chosen]
            indices = np.array([self._symbols[symbols[place]] for place in chosen], dtype=np.uint8)
            periods = np.full(len(chosen), period, dtype=np.uint16)
            records = [(None, value) for value in encode_batches(ids, periods, indices)]
            await self._log.append_many(self._topic, home, records)

    def _home(self, individual: str) -> int:
        home = self._homes.get(individual)
        if home is None:
            home = self._homes[individual] = home_partition(individual, self._study.broker.partitions)
        return home

    def _check(self, individual: str, period: int, symbol: str) -> None:
        if not 1 <= period <= self._study.horizon:
            raise InvalidInput(f"a report of period {period}, but the study has periods 1..{self._study.horizon}")
        if symbol not in self._symbols:
            raise InvalidInput("a report with a symbol outside the study's alphabet")
        if not 1 <= len(individual) <= MAX_ID:
            raise InvalidInput(f"a report with an id that does not have 1..{MAX_ID} characters")
