"""The values that the interface of kinds passes around: the outcome of one period, comparisons, sizes, named queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.query import Query
from streamproc.releases.row_assignment import Codes

Column: TypeAlias = npt.NDArray[np.uint8]
"""One symbol (alphabet index) for each synthetic individual."""

Measurements: TypeAlias = Sequence[IntArray]
"""The noisy integers of one period, in the arrays in which the mechanism measured them."""


@dataclass(frozen=True, eq=False)
class PresentPeople:
    """The synthetic people who are present in the panel of an open study after a period."""

    numbers: npt.NDArray[np.uint32]
    """Their row numbers, ascending."""
    states: npt.NDArray[np.uint16]
    """The state of each of them in the automaton of the release."""
    ages: npt.NDArray[np.uint16]
    """Number of periods in which each of them was present."""


@dataclass(frozen=True, eq=False)
class PanelState:
    """The panel of an open study after a period, and the estimates: what a reader needs to continue. All of it is public."""

    period: Period
    rows: int
    """Number of synthetic people so far, also those who have left."""
    present: PresentPeople
    estimates: FloatArray
    """Estimated real people in each state of the automaton."""


@dataclass(frozen=True, eq=False)
class Step:
    """The public outcome of one period of one release."""

    period: Period
    columns: Sequence[Column]
    """The columns that are released in this period, oldest first."""
    measurements: Measurements
    """The noisy integers that the columns are made from. Their cost is accounted for, so they are public."""
    counts: IntArray
    """The released counts, padding included; empty if no column was released."""
    clamped: int
    """Number of counts that were changed to a possible value."""
    estimates: FloatArray | None = None
    """Estimates of the counts before clamping, in people; None if the released counts are the estimates up to rounding."""


class Description(NamedTuple):
    """A release in words for readers of the status page; known before the first report."""

    summary: str
    """What it counts, such as "windows of 3 periods"."""
    counts_title: str
    """The heading above all of its counts."""
    padded: bool
    """Whether synthetic people are added to every count, so that the smallest count shows how near clamping is."""
    clamping_narrows_intervals: bool
    """Whether intervals of clamped periods are too narrow; otherwise they account for clamping."""
    zero_out: str
    """Which inputs adjacency zero-out relates, as a sentence."""


class Comparison(NamedTuple):
    """The result of comparing released counts with the counts that their measurements imply."""

    different: int
    """Number of counts that differ from their rounded estimate."""
    impossible: int
    """Number of counts that clamping cannot explain."""
    compared: int
    """Number of counts among which the impossible ones were looked for."""


@dataclass(frozen=True, eq=False)
class ReleasedPeriod:
    """One period of a release as a reader of public values sees it, for comparing its counts with its measurements."""

    period: Period
    column: Column
    codes_before: Codes
    """The counter's codes of the synthetic people before the column."""
    counts: IntArray
    """The released counts of the period."""
    counts_before: IntArray | None
    """The released counts of the period before; None if there are none."""
    measured: Measurements
    estimator: Estimator | None
    """The estimator after this period's measurements; None if the released counts are the estimates up to rounding."""


class StepMemory(NamedTuple):
    """The memory that one step needs, in bytes."""

    kept: int
    """Memory that is still in use after the step."""
    working: int
    """Additional memory while the step runs."""


class NamedQuery(NamedTuple):
    """A query with its name for programs and its meaning in words."""

    name: str
    label: str
    query: Query


class ColumnCounter(ABC):
    """Counts columns, one period after the other."""

    codes: Codes
    """A small number for each synthetic person, which is all that later counts depend on."""

    @property
    def rows(self) -> int:
        """Number of synthetic people so far, in an open study also those who have left."""
        return len(self.codes)

    @abstractmethod
    def add(self, column: Column) -> IntArray | None:
        """Add the next period's column. Returns the counts of that period, or None if it has none yet."""


class Estimator(ABC):
    """Estimates counts from measurements, one period after the other."""

    @abstractmethod
    def add(self, measured: Measurements) -> None:
        """Add the measurements of the next period."""

    @abstractmethod
    def estimates(self) -> FloatArray:
        """Estimates of the counts of the last period, unclamped and unbiased, in people."""
