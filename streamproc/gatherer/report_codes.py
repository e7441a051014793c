"""What reports claim: a period and a symbol, as one number, so that a report is two numbers."""

from __future__ import annotations

import numpy as np

from streamproc.gatherer.byte_hash_table import ByteHashTable
from streamproc.gatherer.report_buffer import NO_SYMBOL, Symbols
from streamproc.privacy.types import IntArray
from streamproc.protocol.byte_strings import ByteStrings
from streamproc.protocol.report_fast_path import tail_of
from streamproc.study import Study

_SYMBOLS = 256
"""More than alphabets have, and than `NOTHING` is."""


_MAX_PERIODS = 512
"""Periods whose reports are recognised at once at most: with them go a few kB of memory each, and anybody may claim any."""


class ReportCodes:
    """Turns pairs of a period of the study and a symbol, known or not, into numbers and back."""

    def __init__(self, study: Study, key: bytes) -> None:
        """`key` is the study's secret key."""
        self._key = key
        self._symbol = study.symbol_index
        self._horizon = study.horizon
        self._expected: set[int] = set()
        self._by_tail = ByteHashTable(self._key)

    def prepare_periods(self, *periods: int) -> None:
        """Make the reports of these periods quick to recognise, as far as they are the study's."""
        for period in periods:
            if period not in self._expected and 1 <= period <= self._horizon:
                if len(self._expected) >= _MAX_PERIODS:
                    self._expected, self._by_tail = set(), ByteHashTable(self._key)
                self._expected.add(period)
                tails = ByteStrings.of([tail_of(period, symbol) for symbol in self._symbol])
                self._by_tail.put(tails, np.array([self.encode(period, symbol) for symbol in self._symbol]))

    def encode(self, period: int, symbol: str) -> int:
        """The number of this pair; `period` is one of the study's, and more of it will come."""
        self.prepare_periods(period)
        return period * _SYMBOLS + self._symbol.get(symbol, int(NO_SYMBOL))

    def lookup(self, tails: ByteStrings) -> IntArray:
        """The numbers of what canonical reports end with; -1 for what was not expected."""
        return self._by_tail.find(tails)

    def decode(self, numbers: IntArray) -> tuple[IntArray, Symbols]:
        """The periods and symbols behind these numbers."""
        return numbers // _SYMBOLS, (numbers % _SYMBOLS).astype(np.uint8)
