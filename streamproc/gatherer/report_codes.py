"""Encodes a period and a symbol as one integer, so that thousands of reports are recognised by one look-up each."""

from __future__ import annotations

import numpy as np

from streamproc.gatherer.byte_hash_table import ByteHashTable
from streamproc.gatherer.report_buffer import NO_SYMBOL, Symbols
from streamproc.privacy.types import IntArray
from streamproc.protocol.reports import ByteStrings, tail_of
from streamproc.study import Study

_SYMBOLS = 256
"""More than an alphabet can have, and more than `NO_SYMBOL`."""

_MAX_PERIODS = 512
"""Maximum number of periods in the hash table. Each takes a few kB, and a report can claim any period."""


class ReportCodes:
    """Encodes a period of the study and a symbol, known or not, as one integer, and decodes it."""

    def __init__(self, study: Study, key: bytes) -> None:
        """`key` is the study's secret key."""
        self._key = key
        self._symbol = study.symbol_index
        self._horizon = study.last_period
        self._prepared: set[int] = set()
        self._by_tail = ByteHashTable(self._key)

    def prepare_periods(self, *periods: int) -> None:
        """Add the reports of these periods to the hash table. Periods outside of the study are ignored."""
        for period in periods:
            if period not in self._prepared and 1 <= period <= self._horizon:
                if len(self._prepared) >= _MAX_PERIODS:
                    self._prepared, self._by_tail = set(), ByteHashTable(self._key)
                self._prepared.add(period)
                tails = ByteStrings.of([tail_of(period, symbol) for symbol in self._symbol])
                self._by_tail.put(tails, np.array([self.encode(period, symbol) for symbol in self._symbol]))

    def encode(self, period: int, symbol: str) -> int:
        """The code of a period of the study and a symbol. The period is prepared, because more reports will claim it."""
        self.prepare_periods(period)
        return period * _SYMBOLS + self._symbol.get(symbol, int(NO_SYMBOL))

    def lookup(self, tails: ByteStrings) -> IntArray:
        """The codes of the tails of canonical reports; -1 for a tail that was not prepared."""
        return self._by_tail.find(tails)

    def decode(self, codes: IntArray) -> tuple[IntArray, Symbols]:
        """The periods and the symbols of these codes."""
        return codes // _SYMBOLS, (codes % _SYMBOLS).astype(np.uint8)
