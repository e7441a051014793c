"""What people reported, as arrays: one row per person, one column per period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamproc.errors import InvalidInput
from streamproc.releases.open_presence import NO_REPORT
from streamproc.study.study import Study

MISSING = -1
"""Code of a period for which a person did not report."""


@dataclass(frozen=True, eq=False, repr=False)
class People:
    """The reports of `n` people over `T` periods. They are secret, so `repr` shows the size only.

    >>> sp.read_people("people.csv", study)
    People(people=200, periods=12)
    """

    ids: tuple[str, ...] | None
    """The id of the person in each row, unique and not empty; None if the ids are not needed."""
    symbols: npt.NDArray[np.int8]
    """Read-only array of shape (n, T): alphabet indices, or MISSING."""

    def __post_init__(self) -> None:
        symbols = np.asarray(self.symbols)
        if not (symbols.dtype == np.int8 and symbols.ndim == 2 and symbols.size):
            raise InvalidInput("histories: expected an int8 array with a row per person and a column per period")
        if symbols.min() < MISSING:
            raise InvalidInput(f"histories: expected places in the alphabet, or {MISSING} where a report is missing")
        if self.ids is not None and not (len(self.ids) == len(set(self.ids)) == len(symbols) and all(self.ids)):
            raise InvalidInput("histories: expected an id per row, each once and none empty")
        symbols = symbols.view()
        symbols.flags.writeable = False
        object.__setattr__(self, "symbols", symbols)

    def __repr__(self) -> str:
        return f"People(people={self.size}, periods={self.periods})"

    @property
    def size(self) -> int:
        """Number of rows, `n`."""
        return int(self.symbols.shape[0])

    @property
    def periods(self) -> int:
        """Number of columns."""
        return int(self.symbols.shape[1])

    def enrolled(self, roster: Sequence[str]) -> People:
        """The histories of everybody on the roster, in its order. A person who is not in these histories never reported."""
        assert self.ids is not None
        row = {individual: place for place, individual in enumerate(roster)}
        if any(individual not in row for individual in self.ids):
            raise InvalidInput("histories: somebody in them is not on the roster")
        symbols = np.full((len(roster), self.periods), MISSING, dtype=np.int8)
        symbols[[row[individual] for individual in self.ids]] = self.symbols
        return People(tuple(roster), symbols)

    def filled(self, study: Study) -> npt.NDArray[np.uint8]:
        """Alphabet indices of shape (n, T). A missing report is filled from the person's own history as the study says.

        In an open study it stays `NO_REPORT`: whether the person is present and what fills it is up to `PresenceState`.
        """
        if self.symbols.max() >= study.q:
            raise InvalidInput(f"histories: expected places below {study.q}, the size of the study's alphabet")
        if study.is_open:
            return np.where(self.symbols == MISSING, NO_REPORT, self.symbols).astype(np.uint8)
        fill = study.population.missing.fill
        if fill is not None:
            fixed = np.int8(study.symbol_index[fill])
            return np.where(self.symbols == MISSING, fixed, self.symbols).astype(np.uint8)
        out = np.empty(self.symbols.shape, dtype=np.uint8)
        last: npt.NDArray[np.int8] = np.full(self.size, study.symbol_index[study.population.initial], dtype=np.int8)
        for period in range(self.periods):
            reported = self.symbols[:, period]
            last = np.where(reported == MISSING, last, reported)
            out[:, period] = last
        return out
