"""Steps of a window release: synthetic people whose last symbols follow noisy counts.

A window is coded as a number in base `q`, its oldest symbol the most significant. A row whose window is `c` has the
overlap `c mod q^(L-1)` with its next window of `L` symbols; appending symbol `a` gives `overlap * q + a`. The rows of an
overlap are a group, and its total was fixed by what was released before.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import IntArray, Period
from streamproc.privacy.window import WindowPaperMechanism
from streamproc.privacy.window_flow import WindowFlowMechanism
from streamproc.releases.kind import MAX_ROWS, BoolArray
from streamproc.releases.row_assignment import Codes, assign_symbols, last_symbols, narrowest_dtype, shuffled_rows
from streamproc.releases.step import Column, Comparison, Step

if TYPE_CHECKING:
    from streamproc.releases.window import WindowContract

WindowMechanism: TypeAlias = WindowFlowMechanism | WindowPaperMechanism

MAX_NUMERATOR = 2**62
"""Maximum of numbers that are computed from counts. The noise mechanism would silently saturate at the 64-bit limit."""


@dataclass(frozen=True, eq=False)
class WindowState:
    """The state between periods. It is immutable."""

    period: Period
    windows: Codes
    """Each synthetic row's current window; empty before the first column."""
    counts: IntArray
    """Number of rows with each window; empty before the first column."""

    @classmethod
    def initial(cls, mechanism: WindowMechanism) -> WindowState:
        """The state before period 1."""
        none = np.zeros(0, dtype=narrowest_dtype(mechanism.bins))
        return cls(Period(0), none, np.zeros(0, dtype=np.int64))


def step_window(
    contract: WindowContract, state: WindowState, tally: IntArray, noise: NoiseSource
) -> tuple[WindowState, Step]:
    """Compute the next period. `tally` holds the exact count of each window, and zeros behind them."""
    period = Period(state.period + 1)
    _check_tally(contract, period, tally)
    if period < contract.first_column:
        nothing = Step(period, (), (), np.zeros(0, dtype=np.int64), 0)
        return WindowState(period, state.windows, state.counts), nothing
    bins = contract.bins_at(period)
    measured = contract.measure_tally(period, tally[:bins], noise)
    rng = noise.rng()
    before = state.counts if period > contract.first_column else None
    numerators, denominator = contract.estimated_counts(period, measured, before)
    totals = np.maximum(numerators.sum(axis=1) // denominator, 0)
    rounded, clamped = clamp_groups(round_groups(numerators, denominator, rng), totals, rng)
    counts = rounded.astype(np.int64, copy=False)
    if before is None:
        windows = shuffled_rows(counts.ravel(), rng).astype(state.windows.dtype, copy=False)
        columns = _columns_of(windows, contract)
    else:
        windows = last_symbols(state.windows, len(counts))
        symbols = assign_symbols(windows, counts, rng)
        windows *= contract.mechanism.q
        windows += symbols
        columns = [symbols]
    released = counts.ravel()
    return WindowState(period, windows, released), Step(period, columns, measured, released, clamped)


def overlap_totals(before: IntArray, overlaps: int) -> IntArray:
    """Number of rows with each overlap, from the counts of the windows one period before."""
    totals: IntArray = before.reshape(-1, overlaps).sum(axis=0)
    return totals


def _columns_of(windows: Codes, contract: WindowContract) -> list[Column]:
    """The symbols of the first windows, oldest first."""
    q, columns = contract.mechanism.q, []
    for _ in range(contract.first_column):
        columns.append(last_symbols(windows, q).astype(np.uint8, copy=False))
        windows = windows // q
    return columns[::-1]


def _check_tally(contract: WindowContract, period: Period, tally: IntArray) -> None:
    size = contract.mechanism.bins
    bins = contract.bins_at(period) if period >= contract.first_column else 0
    people = contract.n if bins else 0
    if tally.shape != (size,) or (tally < 0).any() or tally[bins:].any() or int(tally.sum()) != people:
        raise ValueError(f"a tally of release {contract.name} needs {size} counts that add up to n")


def round_groups(numerators: IntArray, denominator: int, rng: np.random.Generator) -> IntArray:
    """Round `numerators / denominator`, one group per row, so that each row keeps its total, which is an integer.

    Each entry becomes its floor or its ceiling, the ceiling with probability equal to its fraction: the cumulative sums of
    a freshly permuted row are all shifted by one uniform `U` in `{0..denominator-1}` before they are floored. The
    permutation makes errors of any two entries of a row equally correlated.
    """
    whole, fraction = np.divmod(numerators, denominator)
    if not fraction.any():
        return whole
    order = np.argsort(rng.random(numerators.shape), axis=1)
    shift = rng.integers(0, denominator, size=(len(numerators), 1))
    carried = (np.cumsum(np.take_along_axis(fraction, order, axis=1), axis=1) + shift) // denominator
    ups = np.diff(carried, axis=1, prepend=0)
    rounded = whole.copy()
    np.put_along_axis(rounded, order, np.take_along_axis(whole, order, axis=1) + ups, axis=1)
    return rounded


def beyond_rounding(counts: IntArray, numerators: IntArray, denominator: int) -> BoolArray:
    """Which counts are neither the floor nor the ceiling of `numerators / denominator`: clamping has moved them."""
    floor, fraction = numerators // denominator, numerators % denominator
    outside: BoolArray = (counts < floor) | (counts > floor + (fraction != 0))
    return outside


def rounding_variance(denominator: int) -> float:
    """Variance of one rounded entry whose fraction is spread evenly over multiples of `1/denominator`.

    `E f (1 - f)` for `f` uniform on `{0, 1/d, ..., (d-1)/d}` is `(1 - d^-2) / 6`.
    """
    return (1 - denominator**-2) / 6


def clamp_groups(counts: IntArray, totals: IntArray, rng: np.random.Generator) -> tuple[IntArray, int]:
    """Make every entry of every row at least 0 while row `i` keeps its sum `totals[i] >= 0`.

    Returns the new counts and the number of entries that changed. This is post-processing: it uses noisy counts only.
    """
    wanting = np.flatnonzero((counts < 0).any(axis=1))
    if not len(wanting):
        return counts, 0
    clamped = counts.copy()
    for row in wanting:
        clamped[row] = _clamp(counts[row], int(totals[row]), rng)
    return clamped, int(np.count_nonzero(clamped != counts))


def _clamp(counts: IntArray, total: int, rng: np.random.Generator) -> IntArray:
    """Subtract from every entry the largest `tau >= 0` that leaves at least `total`, then 1 from randomly chosen entries."""
    if total == 0:
        return np.zeros_like(counts)
    lowered = np.maximum(counts - _largest_level(counts, total), 0)
    excess = int(lowered.sum()) - total
    lowered[rng.choice(np.flatnonzero(lowered), size=excess, replace=False)] -= 1
    return lowered


def _largest_level(counts: IntArray, total: int) -> int:
    """The largest integer `tau` with `sum max(0, counts - tau) >= total`, for `total > 0`.

    If the `j` largest stay positive, `tau <= (their sum - total) / j`; the best `j` gives the largest bound.
    """
    descending = np.sort(counts)[::-1]
    bounds = (np.cumsum(descending) - total) // np.arange(1, len(counts) + 1)
    return max(int(bounds.max()), 0)


def compare_windows(counts: IntArray, numerators: IntArray, denominator: int) -> Comparison:
    """Compare counts, one group per row, with their estimates `numerators / denominator`.

    Rounding gives the floor or the ceiling of an estimate, and keeps the total of each group. Clamping changes only groups
    in which rounding can give a negative count. It keeps their total, raises negative counts to 0 and raises no other
    count, so a clamped count is at most the ceiling, or 0.
    """
    different = beyond_rounding(counts, numerators, denominator)
    ceiling = -(-numerators // denominator)
    clampable = (numerators < 0).any(axis=1, keepdims=True) & (counts <= np.maximum(ceiling, 0))
    kept = counts.sum(axis=1, keepdims=True) * denominator == np.maximum(numerators.sum(axis=1, keepdims=True), 0)
    impossible = (different & ~clampable) | ~kept
    return Comparison(int(np.count_nonzero(different)), int(np.count_nonzero(impossible)), impossible.size)


def padding_of(mechanism: WindowMechanism, beta: float) -> int:
    """`n_pad`: people added to each bin so that with probability `1 - beta` noise makes no count of the study negative.

    The error of a full window's count is Gaussian noise of variance at most `v'` plus the rounding errors of its last `k`
    steps. The error of the step `i` steps before is spread over `q^i` bins, and adds up over the `q^d` independent groups
    that differ only in the `d <= i` symbols that the window has dropped since (`d = i` if it was full then). Each error lies
    within an interval of length 1, so it is sub-Gaussian with variance 1/4, the sum that is left with at most `q^-i / 4`.
    With

        n_pad = (sqrt(2 v') + sqrt((1 - q^-k) / (2 (1 - 1/q)))) sqrt(ln(m R / beta)),

    each of the `m R` bins of the periods with full windows falls below zero with probability at most `beta / (m R)`. Earlier
    periods need no more: before anything is clamped, a count of period `t < k`, with its padding of `n_pad q^(k-t)`, is the
    sum of the counts of period `k` that begin with it, so it is negative only if one of these is. The padding is computed in
    decimals, because the public number must be the same on every machine.
    """
    with localcontext(Context(prec=40)):
        q, k, m = Decimal(mechanism.q), mechanism.k, Decimal(mechanism.bins)
        noise = (2 * Decimal(mechanism.bin_variance)).sqrt()
        rounding = ((1 - q**-k) / (2 * (1 - 1 / q))).sqrt()
        tail = (m * mechanism.steps / Decimal(beta)).ln().sqrt()
        return int(((noise + rounding) * tail).to_integral_value(ROUND_CEILING))


def max_window_rows(bins: int) -> int:
    """Maximum number of synthetic people of a window release with this number of bins."""
    return int(min(MAX_ROWS, MAX_NUMERATOR // bins**2))
