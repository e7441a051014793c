"""What reports claim: the few pairs of period and symbol that occur, numbered, so that a report is two small numbers."""

from __future__ import annotations

import numpy as np

from streamproc.gather.kept import NOTHING, Symbols
from streamproc.gather.lookup import Lookup
from streamproc.privacy.quantities import IntArray
from streamproc.study import Study
from streamproc.wire.report_parts import tail_of
from streamproc.wire.spans import Spans


class Claims:
    """Numbers pairs of a period of the study and a symbol, known or not, as they turn up."""

    def __init__(self, study: Study) -> None:
        self._symbol = study.symbol_index
        self._numbers: dict[tuple[int, int], int] = {}
        self._by_tail = Lookup()

    def number(self, period: int, symbol: str) -> int:
        """The number of this pair; `period` is one of the study's."""
        index = self._symbol.get(symbol, int(NOTHING))
        number = self._numbers.get((period, index))
        if number is None:
            number = self._numbers[period, index] = len(self._numbers)
            if index != NOTHING:
                self._by_tail.put(Spans.of([tail_of(period, symbol)]), np.array([number]))
        return number

    def numbers(self, tails: Spans) -> IntArray:
        """The numbers of what canonical reports end with; -1 for what has not turned up yet."""
        return self._by_tail.find(tails)

    def look_up(self, numbers: IntArray) -> tuple[IntArray, Symbols]:
        """The periods and symbols behind these numbers."""
        pairs = np.array(list(self._numbers), dtype=np.int64).reshape(-1, 2)[numbers]
        return pairs[:, 0], pairs[:, 1].astype(np.uint8)
