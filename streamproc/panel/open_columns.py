"""The columns of a release of an open study: checked, counted, and laid out as a table with a row per synthetic person.

A column has an entry for each synthetic person who was present after the period before, in the order of their row numbers,
then one for each who enters (`releases.open_flow`). A table has a row for every synthetic person so far and a column for
every period. Its cells are empty before a person enters, and from the period on in which the person leaves.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamproc.errors import InvalidInput
from streamproc.privacy.types import IntArray
from streamproc.releases.kind import MAX_ROWS, Contract
from streamproc.releases.open_flow import OpenContract
from streamproc.releases.open_state import OpenCounter
from streamproc.releases.step import Column


def empty_cell(alphabet: Sequence[str]) -> int:
    """The code of an empty cell of a table. In a column the same code means that the person has left."""
    return len(alphabet)


@dataclass(frozen=True, eq=False)
class OpenColumns:
    """Columns of an open study that fit together, with the counts of each period. It is immutable."""

    contract: OpenContract
    columns: tuple[Column, ...]
    counts: tuple[IntArray, ...]
    counter: OpenCounter
    """The counter after the last of the columns."""

    @classmethod
    def before_period_1(cls, contract: OpenContract) -> OpenColumns:
        """No columns yet."""
        return cls(contract, (), (), contract.new_counter())

    @property
    def rows(self) -> int:
        """Number of synthetic people so far, also those who have left."""
        return self.counter.rows

    def followed_by(self, columns: Sequence[Column]) -> OpenColumns:
        """These columns and further ones. Raises ValueError if one of them cannot come after those before it."""
        if not columns:
            return self
        counter, counts = copy.copy(self.counter), list(self.counts)  # a counter replaces its arrays, and changes none
        for column in columns:
            _check_column(self.contract, counter, column)
            counts.append(counter.add(column))
        return OpenColumns(self.contract, (*self.columns, *columns), tuple(counts), counter)

    def is_prefix_of(self, columns: Sequence[Column]) -> bool:
        """Whether the columns begin with these very arrays."""
        pairs = zip(self.columns, columns, strict=False)
        return len(self.columns) <= len(columns) and all(own is other for own, other in pairs)


def _check_column(contract: OpenContract, counter: OpenCounter, column: Column) -> None:
    here, has_left = len(counter.codes), empty_cell(contract.alphabet)
    if column.ndim != 1 or len(column) < here:
        raise ValueError(f"a column of {len(column)} entries, but {here} synthetic people are present before it")
    if column.size and int(column.max()) > has_left:
        raise ValueError(f"a column holds a symbol outside the alphabet of {len(contract.alphabet)}")
    if (column[here:] == has_left).any():
        raise ValueError("a synthetic person leaves in the period in which they enter")
    if (column[:here][counter.codes // contract.automaton.states >= contract.tenure] != has_left).any():
        raise ValueError(f"a synthetic person is present for more than {contract.tenure} periods")
    if counter.rows + len(column) - here > MAX_ROWS:
        raise ValueError(f"there are more than {MAX_ROWS} synthetic people")


def cells_of_columns(contract: Contract, columns: Sequence[Column]) -> list[Column]:
    """The columns of the table of a release, of an open study or not. The release's columns must fit together."""
    if not contract.is_open:
        return list(columns)
    empty = empty_cell(contract.alphabet)
    numbers, rows, placed = np.zeros(0, dtype=np.int64), 0, []
    for column in columns:
        entrants = len(column) - len(numbers)
        numbers = np.concatenate((numbers, np.arange(rows, rows + entrants)))
        rows += entrants
        placed.append((numbers, column))
        numbers = numbers[column != empty]
    cells = []
    for places, column in placed:
        cells.append(np.full(rows, empty, dtype=np.uint8))
        cells[-1][places] = column
    return cells


def columns_of_cells(contract: Contract, cells: Sequence[Column]) -> list[Column]:
    """The columns whose table this is. Raises InvalidInput if the rows are not those of people who enter one after another.

    Messages count the rows of the table from 0.
    """
    if not contract.is_open or not cells:
        return list(cells)
    here = np.stack(cells, axis=1) != empty_cell(contract.alphabet)
    periods = len(cells)
    first, last = here.argmax(axis=1), periods - 1 - here[:, ::-1].argmax(axis=1)
    stays = here.sum(axis=1)
    _refuse_row(stays == 0, "expected a symbol in at least one period")
    _refuse_row(stays != last - first + 1, "expected symbols in consecutive periods, and empty cells before and after them")
    _refuse_row(np.diff(first, prepend=0) < 0, "expected rows in the order in which their people enter")
    before = np.concatenate((np.zeros((len(first), 1), dtype=bool), here[:, :-1]), axis=1)
    return [cell[before[:, period] | (first == period)] for period, cell in enumerate(cells)]


def _refuse_row(wrong: npt.NDArray[np.bool_], expected: str) -> None:
    if wrong.any():
        raise InvalidInput(f"row {int(wrong.argmax())}: {expected}")
