"""The kind `window`: synthetic people whose last `k` symbols are distributed like those of the real people.

The counts of a period are those of the windows of its newest symbols, by the base-`q` number of the window (oldest symbol
most significant). This module has what both ways to measure them have in common; see `window_flow` and `window_paper`.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from streamproc.errors import StudyError, UnsupportedQuery
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period, Rho
from streamproc.releases.kind import MAX_ROWS, NUMBER_BYTES, Arrays, BoolArray, Contract, ReleaseState, Tallier
from streamproc.releases.query import LastSymbols, Query, count_of, exactly, kind_for
from streamproc.releases.row_assignment import ARRAYS_PER_MOVED_ROW, Codes, last_symbols, max_moved_rows, narrowest_dtype
from streamproc.releases.step import (
    Column,
    ColumnCounter,
    Comparison,
    Description,
    Measurements,
    NamedQuery,
    ReleasedPeriod,
    Step,
    StepMemory,
)
from streamproc.releases.window_accuracy import carried_back_to, clamped_windows, rounding_covariance
from streamproc.releases.window_synthesis import (
    WindowMechanism,
    WindowState,
    compare_windows,
    max_window_rows,
    padding_of,
    step_window,
)
from streamproc.study import Release, Study, WindowRelease
from streamproc.study.releases import MAX_BINS, MAX_HORIZON
from streamproc.validation import Validator

ARRAYS_PER_BIN = 16
"""Maximum number of arrays with an entry for each bin that a step holds while it rounds, clamps and assigns."""

ARRAYS_PER_MEASUREMENT = 8
"""Maximum number of arrays with an entry for each measurement that a step holds while it measures and estimates."""

MAX_HEADLINES = 8
"""Maximum number of symbols whose shares describe a column on one line."""


class WindowTallier(Tallier):
    """Counts the windows of real people: `q^k` counts, of which a period with shorter windows uses the first."""

    def __init__(self, study: Study, release: WindowRelease) -> None:
        self.window = release.k
        self._q, self._size, self._first = study.q, int(study.q**release.k), release.first_column

    @property
    def size(self) -> int:
        return self._size

    def tally(
        self, period: Period, windows: Codes, symbols: npt.NDArray[np.uint8], state: npt.NDArray[Any] | None
    ) -> tuple[None, IntArray]:
        counted = last_symbols(windows, self._size) if period >= self._first else windows[:0]
        return None, np.bincount(counted, minlength=self._size).astype(np.int64)

    def is_possible(self, counts: IntArray, people: int, period: Period) -> bool:
        """Whether everybody is in exactly one window of the period, or nobody is while nothing is measured."""
        if period < self._first:
            return not counts.any()
        return int(counts.sum()) == people and not counts[self._q ** min(period, self.window) :].any()


class WindowCounter(ColumnCounter):
    """Counts the windows of synthetic people, from the first column that has counts."""

    def __init__(self, q: int, k: int, first: int) -> None:
        self._q, self._k, self._first = q, k, first
        self._columns = 0
        self.codes = np.zeros(0, dtype=narrowest_dtype(q**k))

    def add(self, column: Column) -> IntArray | None:
        if not self._columns:
            self.codes = np.zeros(len(column), dtype=self.codes.dtype)
        codes = last_symbols(self.codes, self._q ** (self._k - 1))
        codes *= codes.dtype.type(self._q)
        codes += column
        self.codes, self._columns = codes, self._columns + 1
        if self._columns < self._first:
            return None
        return np.bincount(codes, minlength=self._q ** min(self._columns, self._k)).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class WindowContract(Contract):
    """The public parameters of a window release."""

    mechanism: WindowMechanism

    kind: ClassVar[str] = "window"
    max_horizon: ClassVar[int] = MAX_HORIZON
    zero_out_has_neighbours: ClassVar[bool] = False
    zero_out_meaning: ClassVar[str] = (
        "no input of this program is such a neighbour, since everybody is in exactly one bin in every period"
    )

    @classmethod
    def describe(cls, release: Release) -> Description:
        k = cast(WindowRelease, release).k
        periods = "1 period" if k == 1 else f"{k} periods"
        return Description(
            summary=f"windows of {periods}",
            counts_title=f"Every bin: {periods}, oldest first",
            padded=True,
            clamping_narrows_intervals=True,
            zero_out="Everybody is in exactly one bin in every period, so there is no input in which a history is left out.",
        )

    # Made from a study

    @classmethod
    def make(cls, study: Study, release: Release, n: int, rho: Rho, *, insecure: bool) -> Self:
        assert isinstance(release, WindowRelease)
        mechanism = cast(WindowMechanism, cls.make_mechanism(study, release, rho))
        contract = cls(
            name=release.name,
            alphabet=study.alphabet,
            n=n,
            rho=rho,
            mechanism=mechanism,
            insecure=insecure,
            n_pad=padding_of(mechanism, release.beta),
        )
        most = max_window_rows(mechanism.bins)
        if contract.expected_rows > most:
            got = f"{release.k}, with which the release needs {contract.expected_rows:.3g} synthetic people"
            raise StudyError(f"release.{release.name}.k", got, f"at most {most:.3g}: a smaller k or a larger budget")
        return contract

    # Written and read

    @staticmethod
    def check_sizes(values: Mapping[str, Any], q: int, check: Validator) -> None:
        """Check `k` and `n_pad` of a stored contract; the common values are already checked."""
        check.whole("k", values["k"], 1, min(values["horizon"], MAX_BINS.bit_length()))
        bins = q ** values["k"]
        check.require("k", values["k"], bins <= MAX_BINS, f"at most {MAX_BINS} windows")
        check.whole("n_pad", values["n_pad"], 0, MAX_ROWS)
        rows, most = values["n"] + bins * values["n_pad"], max_window_rows(bins)
        check.require("n_pad", values["n_pad"], rows <= most, f"padding for at most {most} synthetic people")

    # Rows and columns

    @property
    def expected_rows(self) -> int:
        """`n + m n_pad`: by flow the number of synthetic people, under `paper` its expectation."""
        return self.n + self.mechanism.bins * self.n_pad

    @abstractmethod
    def bins_at(self, period: Period) -> int:
        """Number of bins of a period."""

    # Synthesis

    @abstractmethod
    def measure_tally(self, period: Period, counts: IntArray, noise: NoiseSource) -> Measurements:
        """The noisy measurements of the exact counts of a period's bins."""

    @abstractmethod
    def estimated_counts(self, period: Period, measured: Measurements, before: IntArray | None) -> tuple[IntArray, int]:
        """The counts that a period's measurements imply, before rounding and clamping: numerators and their denominator.

        Each row is a group whose total is preserved; the rows in order hold the bins in order. `before` are the counts
        released one period earlier, None with the first column. Measurements that are too large for 64-bit arithmetic give
        exact numerators as Python integers.
        """

    @abstractmethod
    def rounding_denominator(self, period: Period) -> int:
        """The denominator of `estimated_counts` in groups of `q` bins; 1 if there is nothing to round."""

    def initial_state(self) -> WindowState:
        return WindowState.initial(self.mechanism)

    def step(self, state: ReleaseState, tally: IntArray, noise: NoiseSource) -> tuple[WindowState, Step]:
        return step_window(self, cast(WindowState, state), tally, noise)

    def rows(self, state: ReleaseState) -> int | None:
        return len(cast(WindowState, state).windows) if state.period >= self.first_column else None

    def released_counts(self, state: ReleaseState) -> IntArray | None:
        return cast(WindowState, state).counts if state.period >= self.first_column else None

    # State files

    def state_arrays(self, state: ReleaseState) -> Arrays:
        window_state = cast(WindowState, state)
        return {"windows": window_state.windows, "counts": window_state.counts}

    def state_from_arrays(self, period: Period, arrays: Mapping[str, npt.NDArray[Any]]) -> WindowState:
        return WindowState(period, arrays["windows"], arrays["counts"])

    def rebuild_state(
        self, columns: Sequence[Column], tallies: Sequence[IntArray], measurements: Sequence[Measurements]
    ) -> WindowState:
        period, counts, counter = Period(len(tallies)), np.zeros(0, dtype=np.int64), self.new_counter()
        for column in columns[-self.mechanism.k :]:
            counted = counter.add(column)
            counts = counts if counted is None else counted
        return WindowState(period, counter.codes, counts)

    @property
    def row_bytes(self) -> int:
        return np.dtype(narrowest_dtype(self.mechanism.bins)).itemsize

    def state_numbers(self, period: Period) -> int:
        return (self.bins_at(period) if period >= self.first_column else 0) + sum(self.measurement_sizes(period))

    def step_memory(self, period: Period, rows: int) -> StepMemory:
        if period < self.first_column:
            return StepMemory(0, 0)
        bins, measured = self.bins_at(period), sum(self.measurement_sizes(period))
        groups = 1 if period == self.first_column else bins // self.mechanism.q
        kept = rows * (self.row_bytes + self.columns_in(period)) + NUMBER_BYTES * (2 * bins + measured)
        working = NUMBER_BYTES * (ARRAYS_PER_BIN * bins + ARRAYS_PER_MEASUREMENT * measured) + 2 * rows * self.row_bytes
        moved = max_moved_rows(rows, bins, groups)
        return StepMemory(kept, working + NUMBER_BYTES * ARRAYS_PER_MOVED_ROW * moved)

    # Counts and estimates

    def new_counter(self) -> WindowCounter:
        return WindowCounter(self.mechanism.q, self.mechanism.k, self.first_column)

    def compare(self, released: ReleasedPeriod) -> Comparison:
        numerators, denominator = self.estimated_counts(released.period, released.measured, released.counts_before)
        return compare_windows(released.counts.reshape(numerators.shape), numerators, denominator)

    def clamped_counts(
        self,
        counts_at: Callable[[Period], IntArray],
        measurements: Sequence[Measurements],
        estimates: FloatArray | None,
        period: Period,
    ) -> BoolArray:
        return clamped_windows(self, counts_at, measurements, period)

    # Queries

    def query_weights(self, query: Query, period: Period) -> FloatArray:
        """1 for each bin for which the query is true at `period`, else 0."""
        yes = windows_in(query, self.name, self.alphabet, self.mechanism.k)
        if period < cast(LastSymbols, query).width:
            width = cast(LastSymbols, query).width
            raise UnsupportedQuery(f"{query.name}: needs {width} periods, but period {period} comes before that")
        return yes[np.arange(self.bins_at(period)) // self.newer_windows(period) % len(yes)]

    def newer_windows(self, period: Period) -> int:
        """By how many bins the counts tell apart what came after `period`."""
        return 1

    @abstractmethod
    def noise_covariance(self, weights: FloatArray, period: Period, other: FloatArray, earlier: Period) -> float:
        """Covariance, from noise alone, of two sums of estimates: of `period`, and of `earlier`, which is not later."""

    def stderr(self, weights: FloatArray, period: Period) -> float:
        return float(np.sqrt(max(self.covariance(weights, period, weights, period), 0.0)))

    def covariance(self, weights: FloatArray, period: Period, other: FloatArray, earlier: Period) -> float:
        """Covariance of two answers, in people squared: of the noise and of the rounding errors that both depend on."""
        period, earlier = max(period, self.first_column), max(earlier, self.first_column)
        carried = carried_back_to(self, weights, period, earlier)
        rounding = rounding_covariance(self, carried, other, earlier)
        return self.noise_covariance(weights, period, other, earlier) + rounding

    def count_stderrs(self, period: Period) -> FloatArray:
        """All bins have the same error, because renaming symbols maps any bin to any other."""
        bins = self.bins_at(period)
        return np.full(bins, self.stderr(np.eye(1, bins).ravel(), period))

    def first_period(self, query: Query) -> Period:
        return Period(cast(LastSymbols, query).width)

    def parse_query(self, name: str) -> NamedQuery:
        """Accepts `bin:LABEL`; `symbol:S`, the newest symbol; `ever:S` and `always:S`, in the last `k` periods."""
        return window_query(name, self.name, self.alphabet, self.mechanism.k, shortest=int(self.first_column))

    def query_of(self, label: str) -> str:
        return f"bin:{label}"

    def suggested_queries(self) -> Iterator[str]:
        return window_suggestions(self.alphabet, self.mechanism.k)

    def headline_queries(self) -> Sequence[NamedQuery]:
        return window_headlines(self.alphabet)

    # Noise

    @property
    def variances(self) -> float:
        return self.mechanism.bin_variance


def window_query(name: str, release: str, alphabet: tuple[str, ...], k: int, *, shortest: int = 1) -> NamedQuery:
    """The query of this name to a window release. A bin has `shortest` to `k` symbols. Raises UnsupportedQuery."""
    form, _, rest = name.partition(":")
    if form == "bin":
        symbols = split_label(rest, alphabet)
        if shortest <= len(symbols) <= k and set(symbols) <= set(alphabet):
            return NamedQuery(name, window_in_words(symbols), exactly(*symbols))
    elif rest in alphabet:
        if form == "symbol":
            return NamedQuery(name, f"{quoted(rest)} in the newest period", exactly(rest))
        if form == "ever":
            label = f"{quoted(rest)} at least once in the last {k} periods"
            return NamedQuery(name, label, count_of({rest}, at_least=1, of=k))
        if form == "always":
            label = f"{quoted(rest)} in each of the last {k} periods"
            return NamedQuery(name, label, count_of({rest}, at_least=k, of=k))
    raise UnsupportedQuery(f"query: release {release} answers bin:, symbol:, ever: and always: of its symbols")


def split_label(label: str, alphabet: tuple[str, ...]) -> list[str]:
    """The symbols of a bin's label."""
    return label.split("|") if any(len(symbol) > 1 for symbol in alphabet) else list(label)


def window_suggestions(alphabet: tuple[str, ...], k: int) -> Iterator[str]:
    """Names of queries to a window release that a reader is likely to ask, the most informative first."""
    newest_first = alphabet[::-1]
    yield from (f"symbol:{symbol}" for symbol in newest_first)
    if k > 1:
        for symbol in newest_first:
            yield f"ever:{symbol}"
            yield f"always:{symbol}"


def window_headlines(alphabet: tuple[str, ...]) -> Sequence[NamedQuery]:
    """The queries that describe a column of a window release on one line."""
    return [NamedQuery(symbol, symbol, exactly(symbol)) for symbol in alphabet[:MAX_HEADLINES]]


def windows_in(query: Query, release: str, alphabet: tuple[str, ...], k: int) -> FloatArray:
    """1 for each window of the query's width for which it is true, else 0; raises UnsupportedQuery if `release` has none."""
    if not isinstance(query, LastSymbols):
        raise UnsupportedQuery(
            f"{query.name}: release {release} is of kind window, whose synthetic people follow real ones over "
            f"{k} periods only; ask {kind_for(query)}"
        )
    if query.width > k:
        raise UnsupportedQuery(
            f"{query.name}: looks back over {query.width} periods, but release {release} was measured over windows of "
            f"k = {k}; longer windows of its synthetic people mean nothing about real ones"
        )
    foreign = sorted(query.symbols.difference(alphabet))
    if foreign:
        known = ", ".join(alphabet)
        raise UnsupportedQuery(
            f"{query.name}: {foreign[0]!r} is not a symbol of release {release}, whose symbols are {known}"
        )
    try:
        return _known_holds(query, alphabet)
    except TypeError:  # a predicate without a hash
        return _holds(query, alphabet)


def _holds(query: LastSymbols, alphabet: tuple[str, ...]) -> FloatArray:
    holds = np.array([query.holds(window) for window in itertools.product(alphabet, repeat=query.width)], dtype=float)
    holds.flags.writeable = False
    return holds


_known_holds = lru_cache(maxsize=64)(_holds)
"""Up to 65,536 windows are tried, and a plan asks the same query in every period."""


def quoted(symbol: str) -> str:
    """A symbol in quotation marks, so that it is not mistaken for a number or a word of the sentence."""
    return f"“{symbol}”"


def window_in_words(symbols: list[str]) -> str:
    """The symbols of a window as a phrase, oldest first."""
    return ", then ".join(map(quoted, symbols)) if len(symbols) > 1 else f"{quoted(symbols[0])} in the newest period"
