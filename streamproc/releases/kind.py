"""The interface of a kind of release for everything that handles one: gatherer, synthesizer, ledger, panel, plan, page.

A kind is three classes, registered in `streamproc.releases.contracts`:

* a `Tallier` is the exact, secret side: the state of each real person, and what a period's tally counts;
* a `Contract` is the public side: the parameters of the release, its mechanism, how its synthetic people are made, how
  their columns are counted, and which queries they can answer with which error;
* a `ReleasePlanner` computes what a plan says about the release.

No module outside `streamproc.releases` depends on the kind of a release. Counts, estimates and queries have one form for
every kind: the released counts of a period are a vector with a label for each entry, an estimate is a vector of the same
shape, and a query is a vector of weights on it. (For a mechanism on an automaton, entries are its transitions or states.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.accountant import Mechanism
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period, Rho
from streamproc.releases.query import Query
from streamproc.releases.row_assignment import Codes
from streamproc.releases.step import (
    Column,
    ColumnCounter,
    Comparison,
    Description,
    Estimator,
    Measurements,
    NamedQuery,
    PanelState,
    ReleasedPeriod,
    Step,
    StepMemory,
)
from streamproc.study import Release, Study
from streamproc.validation import Validator

MAX_ROWS = 2**31 - 1
"""Maximum number of synthetic people, so that a row number fits everywhere it is used."""

NUMBER_BYTES = 8
"""Bytes of a count or a measurement."""

BoolArray: TypeAlias = npt.NDArray[np.bool_]

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
"""Named arrays, as a state file holds them."""


class ReleaseState(Protocol):
    """The state of a release that the synthesizer keeps between periods. It is immutable."""

    @property
    def period(self) -> Period: ...


class Tallier(ABC):
    """The exact, secret side of a release: a row for each real person, and the counts of each period."""

    window: int = 1
    """Number of a person's newest symbols that it needs. They are stored once for all releases."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of counts in a tally."""

    def initial_state(self, people: int) -> npt.NDArray[Any] | None:
        """The additional state of each person before period 1; None if the newest symbols are enough."""
        return None

    @abstractmethod
    def tally(
        self, period: Period, windows: Codes, symbols: npt.NDArray[np.uint8], state: npt.NDArray[Any] | None
    ) -> tuple[npt.NDArray[Any] | None, IntArray]:
        """The state after `period`, in which everybody reported `symbols`, and the counts of the tally.

        `windows` holds each person's newest symbols, those of this period included, as a number in base `q`.
        """

    @abstractmethod
    def is_possible(self, counts: IntArray, people: int, period: Period) -> bool:
        """Whether `people` individuals can have these counts in this period; `counts` has the right size."""


@dataclass(frozen=True, kw_only=True)
class Contract(ABC):
    """The public parameters of a release over `n` people, which an analyst needs in addition to the columns.

    None of it depends on private data. (Without a roster `n` is the number of people who reported in period 1.)

    >>> result["quarterly"].contract.n
    200
    """

    name: str
    alphabet: tuple[str, ...]
    """Symbols of the columns, in the order of their indices."""
    n: int
    """Number of real people."""
    rho: Rho
    """The budget of the release."""
    mechanism: Any
    """A `Mechanism` of this kind."""
    insecure: bool
    """Whether the noise can be repeated or foreseen."""
    n_pad: int = 0
    """Synthetic people added to every count so that noise rarely makes it negative; 0 if the kind has no padding."""

    kind: ClassVar[str]
    measure: ClassVar[str]
    """How the kind is measured: `flow`, the flow mechanism, or `paper`, the mechanism of the paper."""
    is_open: ClassVar[bool] = False
    """Whether it is of an open study, in which people enter and leave. `n` is 0 then, because it is not public."""
    zero_out_has_neighbours: ClassVar[bool]
    """Whether adjacency zero-out relates any two inputs of the program for this kind."""
    zero_out_meaning: ClassVar[str]
    """What adjacency zero-out means for this kind, as the second half of a sentence."""

    # Made from a study

    @classmethod
    @abstractmethod
    def make_mechanism(cls, study: Study, release: Release, rho: Rho) -> Mechanism:
        """The mechanism with the least noise at this budget; it does not depend on the number of people."""

    @classmethod
    @abstractmethod
    def make(cls, study: Study, release: Release, n: int, rho: Rho, *, insecure: bool) -> Contract:
        """The contract of a release over `n` people. Raises StudyError if its panel would be too large."""

    def is_implied_by(self, study: Study, release: Release) -> bool:
        """Whether this is the contract of `release` over `n` people, up to the last digits of floating-point values.

        A kind whose matrices or weights come from floating-point algebra, which differs between machines, accepts any
        that cost at most the budget.
        """
        implied = self.make(study, release, self.n, self.rho, insecure=self.insecure)
        return _nearly_equal(self.to_dict(), implied.to_dict())

    @classmethod
    @abstractmethod
    def describe(cls, release: Release) -> Description:
        """The release in words for readers."""

    # Written and read

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON, MessagePack and the metadata of a Parquet file."""
        return {
            "kind": self.kind,
            "measure": self.measure,
            "release": self.name,
            "alphabet": list(self.alphabet),
            "n": self.n,
            "rho": self.rho,
            "adjacency": self.mechanism.adjacency.value,
            "horizon": self.horizon,
            "insecure": self.insecure,
            **self.own_values(),
        }

    @abstractmethod
    def own_values(self) -> dict[str, Any]:
        """The values of `to_dict` that only this kind has."""

    max_horizon: ClassVar[int]
    """The longest study that can have such a release."""

    @classmethod
    @abstractmethod
    def from_values(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> Contract:
        """The contract that `to_dict` wrote; the common values are already checked.

        The implementation checks the values of its own kind with `check`.
        """

    # Rows and columns

    @property
    def horizon(self) -> int:
        """`T`."""
        return int(self.mechanism.horizon)

    @property
    @abstractmethod
    def expected_rows(self) -> int:
        """Number of synthetic people, or its expectation if it depends on the noise."""

    @property
    def n_star(self) -> int | None:
        """Number of synthetic people; None if it is not known before the first report."""
        return self.expected_rows

    @property
    def column_codes(self) -> int:
        """Number of different entries of a column: its symbols, and in an open study one more for "has left"."""
        return len(self.alphabet)

    @property
    def first_column(self) -> Period:
        """The period in which the first columns are released: those of all periods up to it."""
        return Period(1)

    # Synthesis

    @abstractmethod
    def initial_state(self) -> ReleaseState:
        """The state before period 1."""

    @abstractmethod
    def step(self, state: ReleaseState, tally: IntArray, noise: NoiseSource) -> tuple[ReleaseState, Step]:
        """Compute the next period from its exact tally. Returns the new state and the public outcome."""

    @abstractmethod
    def rows(self, state: ReleaseState) -> int | None:
        """Number of synthetic people; None before the first column."""

    @abstractmethod
    def released_counts(self, state: ReleaseState) -> IntArray | None:
        """The released counts of the last period; None before the first column."""

    @abstractmethod
    def measurement_sizes(self, period: Period) -> list[int]:
        """The length of each array that is measured in this period."""

    def split_measurements(self, flat: IntArray, period: Period) -> Measurements:
        """A period's measurements in the arrays of the mechanism, from the one list in which the ledger stores them."""
        sizes = self.measurement_sizes(period)
        return np.split(flat, np.cumsum(sizes)[:-1]) if sizes else []

    # Summaries of open studies

    def panel_state(self, state: ReleaseState) -> PanelState | None:
        """What a summary of the period says; None in a closed study, which has no summaries."""
        return None

    def panel_state_of(self, period: Period, counter: ColumnCounter, estimator: Estimator) -> PanelState:
        """The same, as a reader knows it who has counted the columns."""
        raise _no_summaries(self.name)

    def continue_from(self, panel: PanelState) -> tuple[ColumnCounter, Estimator]:
        """A counter and an estimator that continue after a summary. Raises ValueError for values that cannot be."""
        raise _no_summaries(self.name)

    # State files

    @abstractmethod
    def state_arrays(self, state: ReleaseState) -> Arrays:
        """The state as named arrays."""

    @abstractmethod
    def state_from_arrays(self, period: Period, arrays: Mapping[str, npt.NDArray[Any]]) -> ReleaseState:
        """The state whose `state_arrays` these are."""

    @abstractmethod
    def rebuild_state(
        self, columns: Sequence[Column], tallies: Sequence[IntArray], measurements: Sequence[Measurements]
    ) -> ReleaseState:
        """The state after the last of these periods, from the published values and the exact tallies."""

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """Bytes that the state keeps for each synthetic person."""

    @abstractmethod
    def state_numbers(self, period: Period) -> int:
        """Maximum number of 64-bit numbers in the state after `period` and in what the period publishes."""

    @abstractmethod
    def step_memory(self, period: Period, rows: int) -> StepMemory:
        """Maximum memory that the step of `period` needs for `rows` synthetic people."""

    def columns_in(self, period: Period) -> int:
        """Number of columns that are released in this period."""
        if period < self.first_column:
            return 0
        return int(self.first_column) if period == self.first_column else 1

    def max_rows(self, known: int | None) -> int:
        """Number of synthetic people, or its maximum while it is not known."""
        return known if known is not None else self.expected_rows

    def max_column_rows(self, state: ReleaseState) -> int:
        """Maximum number of entries of the next period's column."""
        return self.max_rows(self.rows(state))

    # Counts and estimates

    def codes_before(self, rows: int) -> Codes:
        """The counter's codes before the first column, which has so many rows."""
        return np.zeros(rows, dtype=self.new_counter().codes.dtype)

    @abstractmethod
    def new_counter(self) -> ColumnCounter:
        """A counter for the columns of this release, which starts before the first column."""

    def columns_behind(self, period: Period) -> range:
        """Indices (from 0) of the columns that determine the counts of `period`, oldest first."""
        return range(period)

    @abstractmethod
    def true_counts(self, tallies: Sequence[IntArray]) -> Sequence[IntArray]:
        """The exact counts, without padding, of periods `first_column`, `first_column + 1`, ..., from all tallies."""

    @abstractmethod
    def labels(self, period: Period) -> list[str]:
        """The label of each count of this period."""

    def new_estimator(self) -> Estimator | None:
        """An estimator of the counts before clamping, which starts before period 1.

        None if the released counts are the estimates up to rounding.
        """
        return None

    def estimates(self, measurements: Sequence[Measurements], period: Period) -> FloatArray | None:
        """The estimates of one period alone, from the measurements of periods 1, 2, ...; None as for `new_estimator`."""
        estimator = self.new_estimator()
        if estimator is None:
            return None
        for measured in measurements[:period]:
            estimator.add(measured)
        return estimator.estimates()

    def padding(self, period: Period) -> int:
        """Synthetic people that are added to every count of this period."""
        return self.n_pad

    @abstractmethod
    def compare(self, released: ReleasedPeriod) -> Comparison:
        """Compare the released counts of a period with those that its measurements imply."""

    @abstractmethod
    def clamped_counts(
        self,
        counts_at: Callable[[Period], IntArray],
        measurements: Sequence[Measurements],
        estimates: FloatArray | None,
        period: Period,
    ) -> BoolArray:
        """Which counts of `period` were changed by clamping, in that period or in an earlier one that still affects them."""

    # Queries

    @abstractmethod
    def query_weights(self, query: Query, period: Period) -> FloatArray:
        """The weight of each count of `period` in the answer; raises UnsupportedQuery if the release cannot answer."""

    def denominator_weights(self, query: Query, period: Period) -> FloatArray | None:
        """The people among whom a query asks for a share, as weights on the counts; None stands for all `n`."""
        return None

    @abstractmethod
    def stderr(self, weights: FloatArray, period: Period) -> float:
        """Standard error, in people, of the sum of the estimates of `period` with these weights."""

    @abstractmethod
    def covariance(self, weights: FloatArray, period: Period, other: FloatArray, earlier: Period) -> float:
        """Covariance, in people squared, of the noise in two answers: of `period`, and of `earlier`, which is not later."""

    @abstractmethod
    def count_stderrs(self, period: Period) -> FloatArray:
        """Standard error of the estimate of each count of `period`, in people."""

    def columns_only_halfwidth(self, weights: FloatArray, period: Period, level: float) -> float | None:
        """Half-width of an interval, in people, for a reader without measurements; None if they make no difference."""
        return None

    def steady_period(self, period: Period) -> Period:
        """The first period with the same weights and standard errors as `period` for every query."""
        return period

    @abstractmethod
    def first_period(self, query: Query) -> Period:
        """The first period in which this release can answer the query."""

    @abstractmethod
    def parse_query(self, name: str) -> NamedQuery:
        """The query of this name, such as `bin:011`; raises UnsupportedQuery."""

    @abstractmethod
    def query_of(self, label: str) -> str:
        """The name of the query for one count, by its label."""

    @abstractmethod
    def suggested_queries(self) -> Iterator[str]:
        """Names of queries that a reader is likely to ask, the most informative first."""

    @abstractmethod
    def headline_queries(self) -> Sequence[NamedQuery]:
        """The few queries that describe a column on one line."""

    # Noise

    @property
    @abstractmethod
    def variances(self) -> float | list[float]:
        """Largest noise variance of a released count over counts and periods, in people squared, or a list by weight."""

    @property
    def noise_people(self) -> float:
        """Standard deviation of the noise, in people: the largest over counts and periods."""
        return float(np.max(self.variances) ** 0.5)


def _no_summaries(name: str) -> ValueError:
    return ValueError(f"release {name} is of a closed study, which has no summaries")


def _nearly_equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_nearly_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_nearly_equal(one[key], other[key]) for key in one)
    return bool(one == other)


class ReleasePlanner(ABC):
    """What a plan says about a release, before any data."""

    @abstractmethod
    def __init__(self, contract: Any, release: Any) -> None:
        """Make a planner from the contract of a release and the release as the study declares it."""

    @abstractmethod
    def typical_queries(self) -> Iterator[NamedQuery]:
        """Queries whose errors a plan states. Some may be equivalent for a small release."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings and sizes of this release that `plan --json` shows."""

    @abstractmethod
    def describe(self) -> Sequence[str]:
        """The kind and its settings as short phrases."""

    @abstractmethod
    def alternatives(self, *, long_too: bool, tuned: bool) -> Sequence[AlternativeWay]:
        """The ways to measure this release at the same budget.

        Without `long_too`, ways whose exact cost is slow to compute over many periods are left out; without `tuned`, those
        whose weights have to be tuned for the comparison.
        """

    def padding_advice(self) -> Sequence[str]:
        """Settings with which the padding would not be larger than the number of people."""
        return ()


class AlternativeWay(Protocol):
    """One way to measure a release: a dataclass whose fields `plan --json` shows, in their order."""

    headings: ClassVar[Mapping[str, str]]
    """Headings of the fields that a table shows, in the order of its columns."""
    caption: ClassVar[str]
    """The text below that table."""

    @property
    def measure(self) -> str:
        """How the release is measured."""
        ...

    @property
    def chosen(self) -> bool:
        """Whether the study uses this way."""
        ...
