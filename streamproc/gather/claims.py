"""What reports claim: the few pairs of period and symbol that occur, numbered, so that a report is two small numbers."""

from __future__ import annotations

import numpy as np

from streamproc.gather.kept import NOTHING, Symbols
from streamproc.privacy.quantities import IntArray
from streamproc.study import Study
from streamproc.wire.report_parts import tail_of


class Claims:
    """Numbers pairs of a period of the study and a symbol, known or not, as they turn up."""

    def __init__(self, study: Study) -> None:
        self._symbol = study.symbol_index
        self._numbers: dict[tuple[int, int], int] = {}
        self.by_tail: dict[bytes, int] = {}
        """The number of what a canonical report ends with; read by the gatherer's inner loop."""

    def number(self, period: int, symbol: str) -> int:
        """The number of this pair; `period` is one of the study's."""
        index = self._symbol.get(symbol, int(NOTHING))
        number = self._numbers.get((period, index))
        if number is None:
            number = self._numbers[period, index] = len(self._numbers)
            if index != NOTHING:
                self.by_tail[tail_of(period, symbol)] = number
        return number

    def look_up(self, numbers: list[int]) -> tuple[IntArray, Symbols]:
        """The periods and symbols behind these numbers."""
        pairs = np.array(list(self._numbers), dtype=np.int64).reshape(-1, 2)[numbers]
        return pairs[:, 0], pairs[:, 1].astype(np.uint8)
