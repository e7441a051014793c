"""The kind `window`: synthetic people whose last `k` symbols are distributed like those of the real people.

The counts of a period `t >= k` are those of the `q^k` windows of `k` symbols, by the base-`q` number of the window (oldest
symbol most significant). The first `k` columns are released together, in period `k`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast, get_args

import numpy as np
import numpy.typing as npt

from streamproc.errors import StudyError, UnsupportedQuery
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period, Rho
from streamproc.privacy.window import Measure, WindowMechanism
from streamproc.releases.kind import MAX_ROWS, NUMBER_BYTES, Arrays, BoolArray, Contract, ReleaseState, Tallier
from streamproc.releases.query import LastSymbols, Query, count_of, exactly
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
from streamproc.releases.window_accuracy import clamped_windows, window_stderr
from streamproc.releases.window_synthesis import (
    WindowState,
    compare_windows,
    estimated_counts,
    max_window_rows,
    padding_of,
    step_window,
)
from streamproc.study import Release, Study, WindowRelease, bin_labels
from streamproc.study.releases import MAX_BINS, MAX_HORIZON
from streamproc.validation import Validator

ROW_COUNT_STDDEVS = 10
"""Standard deviations that the number of synthetic people may be off under `histogram`; more has probability below 1e-22."""

ARRAYS_PER_BIN = 16
"""Maximum number of arrays with an entry for each bin that a step holds while it rounds, clamps and assigns."""

MAX_HEADLINES = 8
"""Maximum number of symbols whose shares describe a column on one line."""


class WindowTallier(Tallier):
    """Counts the windows of `k` symbols of real people."""

    def __init__(self, study: Study, release: WindowRelease) -> None:
        self.window = release.k
        self._size = int(study.q**release.k)

    @property
    def size(self) -> int:
        return self._size

    def tally(
        self, period: Period, windows: Codes, symbols: npt.NDArray[np.uint8], state: npt.NDArray[Any] | None
    ) -> tuple[None, IntArray]:
        counted = last_symbols(windows, self._size) if period >= self.window else windows[:0]
        return None, np.bincount(counted, minlength=self._size).astype(np.int64)

    def is_possible(self, counts: IntArray, people: int, period: Period) -> bool:
        """Whether everybody is in exactly one window, or nobody is while windows are incomplete."""
        return int(counts.sum()) == (people if period >= self.window else 0)


class WindowCounter(ColumnCounter):
    """Counts the windows of synthetic people."""

    def __init__(self, q: int, k: int) -> None:
        self._q, self._k, self._bins = q, k, q**k
        self._columns = 0
        self.codes = np.zeros(0, dtype=narrowest_dtype(self._bins))

    def add(self, column: Column) -> IntArray | None:
        if not self._columns:
            self.codes = np.zeros(len(column), dtype=narrowest_dtype(self._bins))
        codes = last_symbols(self.codes, self._bins // self._q)
        codes *= codes.dtype.type(self._q)
        codes += column
        self.codes, self._columns = codes, self._columns + 1
        return np.bincount(codes, minlength=self._bins).astype(np.int64) if self._columns >= self._k else None


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
        periods = "1 period" if release.first_column == 1 else f"{release.first_column} periods"
        return Description(
            summary=f"windows of {periods}",
            counts_title=f"Every bin: {periods}, oldest first",
            padded=True,
            clamping_narrows_intervals=True,
            zero_out="Everybody is in exactly one bin in every period, so there is no input in which a history is left out.",
        )

    # Made from a study

    @classmethod
    def make_mechanism(cls, study: Study, release: Release, rho: Rho) -> WindowMechanism:
        assert isinstance(release, WindowRelease)
        return WindowMechanism.calibrated(
            q=study.q,
            k=release.k,
            horizon=study.horizon,
            measure=release.measure,
            adjacency=study.privacy.adjacency,
            rho=rho,
        )

    @classmethod
    def make(cls, study: Study, release: Release, n: int, rho: Rho, *, insecure: bool) -> WindowContract:
        assert isinstance(release, WindowRelease)
        mechanism = cls.make_mechanism(study, release, rho)
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

    def own_values(self) -> dict[str, Any]:
        return {
            "k": self.mechanism.k,
            "measure": self.mechanism.measure,
            "n_pad": self.n_pad,
            "sigma_first": self.mechanism.sigma_first,
            "sigma_later": self.mechanism.sigma_later,
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> WindowContract:
        q = len(alphabet)
        check.choice("measure", values["measure"], get_args(Measure))
        check.whole("k", values["k"], 1, min(values["horizon"], MAX_BINS.bit_length()))
        bins = q ** values["k"]
        check.require("k", values["k"], bins <= MAX_BINS, f"at most {MAX_BINS} windows")
        check.whole("n_pad", values["n_pad"], 0, MAX_ROWS)
        rows, most = values["n"] + bins * values["n_pad"], max_window_rows(bins)
        check.require("n_pad", values["n_pad"], rows <= most, f"padding for at most {most} synthetic people")
        check.positive_float("sigma_first", values["sigma_first"])
        check.positive_float("sigma_later", values["sigma_later"])
        mechanism = WindowMechanism(
            q,
            values["k"],
            values["horizon"],
            values["measure"],
            Adjacency(values["adjacency"]),
            values["sigma_first"],
            values["sigma_later"],
        )
        return cls(
            name=values["release"],
            alphabet=alphabet,
            n=values["n"],
            rho=Rho(values["rho"]),
            mechanism=mechanism,
            insecure=values["insecure"],
            n_pad=values["n_pad"],
        )

    # Rows and columns

    @property
    def expected_rows(self) -> int:
        """`n + m n_pad`: under `contrast` the number of synthetic people, under `histogram` its expectation."""
        return self.n + self.mechanism.bins * self.n_pad

    @property
    def n_star(self) -> int | None:
        return self.expected_rows if self.mechanism.measure == "contrast" else None

    @property
    def first_column(self) -> Period:
        return Period(self.mechanism.k)

    # Synthesis

    def initial_state(self) -> WindowState:
        return WindowState.initial(self.mechanism)

    def step(self, state: ReleaseState, tally: IntArray, noise: NoiseSource) -> tuple[WindowState, Step]:
        return step_window(self, cast(WindowState, state), tally, noise)

    def rows(self, state: ReleaseState) -> int | None:
        return len(cast(WindowState, state).windows) if state.period >= self.mechanism.k else None

    def released_counts(self, state: ReleaseState) -> IntArray | None:
        return cast(WindowState, state).counts if state.period >= self.mechanism.k else None

    def measurement_sizes(self, period: Period) -> list[int]:
        return [self.mechanism.bins] if period >= self.mechanism.k else []

    # State files

    def state_arrays(self, state: ReleaseState) -> Arrays:
        window_state = cast(WindowState, state)
        return {"windows": window_state.windows, "counts": window_state.counts}

    def state_from_arrays(self, period: Period, arrays: Mapping[str, npt.NDArray[Any]]) -> WindowState:
        return WindowState(period, arrays["windows"], arrays["counts"])

    def rebuild_state(
        self, columns: Sequence[Column], tallies: Sequence[IntArray], measurements: Sequence[Measurements]
    ) -> WindowState:
        period, counts = Period(len(tallies)), None
        if period < self.mechanism.k:
            return replace(self.initial_state(), period=period)
        counter = self.new_counter()
        for column in columns[-self.mechanism.k :]:
            counts = counter.add(column)
        assert counts is not None
        return WindowState(period, counter.codes, counts)

    @property
    def row_bytes(self) -> int:
        return np.dtype(narrowest_dtype(self.mechanism.bins)).itemsize

    def state_numbers(self, period: Period) -> int:
        return self.mechanism.bins * (1 if period < self.mechanism.k else 2)

    def step_memory(self, period: Period, rows: int) -> StepMemory:
        mechanism = self.mechanism
        if period < mechanism.k:
            return StepMemory(0, 0)
        groups = 1 if period == mechanism.k else mechanism.bins // mechanism.q
        kept = rows * (self.row_bytes + self.columns_in(period)) + 3 * NUMBER_BYTES * mechanism.bins
        working = NUMBER_BYTES * ARRAYS_PER_BIN * mechanism.bins + 2 * rows * self.row_bytes
        moved = max_moved_rows(rows, mechanism.bins, groups)
        return StepMemory(kept, working + NUMBER_BYTES * ARRAYS_PER_MOVED_ROW * moved)

    def max_rows(self, known: int | None) -> int:
        if known is not None:
            return known
        if self.n_star is not None:
            return self.n_star
        deviation = self.mechanism.sigma_first * math.sqrt(self.mechanism.bins)
        return self.expected_rows + math.ceil(ROW_COUNT_STDDEVS * deviation) + self.mechanism.bins

    # Counts and estimates

    def new_counter(self) -> WindowCounter:
        return WindowCounter(self.mechanism.q, self.mechanism.k)

    def columns_behind(self, period: Period) -> range:
        return range(max(period - self.mechanism.k, 0), max(period, self.mechanism.k))

    def true_counts(self, tallies: Sequence[IntArray]) -> Sequence[IntArray]:
        return tallies[self.mechanism.k - 1 :]

    def labels(self, period: Period) -> list[str]:
        return bin_labels(self.alphabet, self.mechanism.k)

    def compare(self, released: ReleasedPeriod) -> Comparison:
        numerators, denominator = estimated_counts(self, released.measured[0], released.counts_before)
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
        if not isinstance(query, LastSymbols):
            raise UnsupportedQuery(
                f"{query.name}: release {self.name} is of kind {self.kind}, whose synthetic people follow real ones over "
                f"{self.mechanism.k} periods only; ask a cumulative release"
            )
        k = self.mechanism.k
        if query.width > k:
            raise UnsupportedQuery(
                f"{query.name}: looks back over {query.width} periods, but release {self.name} was measured over windows of "
                f"k = {k}; longer windows of its synthetic people mean nothing about real ones"
            )
        foreign = sorted(query.symbols.difference(self.alphabet))
        if foreign:
            known = ", ".join(self.alphabet)
            raise UnsupportedQuery(
                f"{query.name}: {foreign[0]!r} is not a symbol of release {self.name}, whose symbols are {known}"
            )
        if period < query.width:
            raise UnsupportedQuery(f"{query.name}: needs {query.width} periods, but period {period} comes before that")
        yes = [query.holds(window) for window in itertools.product(self.alphabet, repeat=query.width)]
        newer = self.mechanism.q ** max(k - period, 0)  # the symbols of the first k periods are all released at period k
        weights: FloatArray = np.array(yes, dtype=float)[np.arange(self.mechanism.bins) // newer % len(yes)]
        return weights

    def stderr(self, weights: FloatArray, period: Period) -> float:
        return window_stderr(self.mechanism, weights, period)

    def count_stderrs(self, period: Period) -> FloatArray:
        """All bins have the same error, because renaming symbols maps any bin to any other."""
        one_bin = np.eye(1, self.mechanism.bins).ravel()
        return np.full(self.mechanism.bins, self.stderr(one_bin, period))

    def steady_period(self, period: Period) -> Period:
        """The variance from rounding is constant from `k` periods after the first step on."""
        return Period(min(period, 2 * self.mechanism.k))

    def first_period(self, query: Query) -> Period:
        return Period(cast(LastSymbols, query).width)

    def parse_query(self, name: str) -> NamedQuery:
        """Accepts `bin:LABEL`; `symbol:S`, the newest symbol; `ever:S` and `always:S`, in the last `k` periods."""
        form, _, rest = name.partition(":")
        k = self.mechanism.k
        if form == "bin":
            symbols = rest.split("|") if any(len(symbol) > 1 for symbol in self.alphabet) else list(rest)
            if len(symbols) == k and set(symbols) <= set(self.alphabet):
                return NamedQuery(name, _window_in_words(symbols), exactly(*symbols))
        elif rest in self.alphabet:
            if form == "symbol":
                return NamedQuery(name, f"{quoted(rest)} in the newest period", exactly(rest))
            if form == "ever":
                label = f"{quoted(rest)} at least once in the last {k} periods"
                return NamedQuery(name, label, count_of({rest}, at_least=1, of=k))
            if form == "always":
                label = f"{quoted(rest)} in each of the last {k} periods"
                return NamedQuery(name, label, count_of({rest}, at_least=k, of=k))
        raise UnsupportedQuery(f"query: release {self.name} answers bin:, symbol:, ever: and always: of its symbols")

    def query_of(self, label: str) -> str:
        return f"bin:{label}"

    def suggested_queries(self) -> Iterator[str]:
        newest_first = self.alphabet[::-1]
        yield from (f"symbol:{symbol}" for symbol in newest_first)
        if self.mechanism.k > 1:
            for symbol in newest_first:
                yield f"ever:{symbol}"
                yield f"always:{symbol}"

    def headline_queries(self) -> Sequence[NamedQuery]:
        return [NamedQuery(symbol, symbol, exactly(symbol)) for symbol in self.alphabet[:MAX_HEADLINES]]

    # Noise

    @property
    def variances(self) -> float:
        return self.mechanism.bin_variance


def quoted(symbol: str) -> str:
    """A symbol in quotation marks, so that it is not mistaken for a number or a word of the sentence."""
    return f"“{symbol}”"


def _window_in_words(symbols: list[str]) -> str:
    return ", then ".join(map(quoted, symbols)) if len(symbols) > 1 else f"{quoted(symbols[0])} in the newest period"
