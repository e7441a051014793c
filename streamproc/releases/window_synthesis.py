"""Steps of a window release: synthetic people whose last `k` symbols follow a noisy histogram.

A window is coded as a number in base `q`, its oldest symbol the most significant. A row whose window is `c` has the
overlap `c mod q^(k-1)`; appending symbol `a` gives `overlap * q + a`. The rows of an overlap are a group, and its total was
fixed by what was released before.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from typing import TYPE_CHECKING

import numpy as np

from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import IntArray, Period
from streamproc.privacy.window import WindowMechanism
from streamproc.releases.kind import MAX_ROWS, BoolArray
from streamproc.releases.row_assignment import Codes, assign_symbols, last_symbols, narrowest_dtype, shuffled_rows
from streamproc.releases.step import Column, Comparison, Step

if TYPE_CHECKING:
    from streamproc.releases.window import WindowContract

MAX_NUMERATOR = 2**62
"""Maximum of numbers that are computed from counts. The noise mechanism would silently saturate at the 64-bit limit."""


@dataclass(frozen=True, eq=False)
class WindowState:
    """The state between periods. It is immutable."""

    period: Period
    windows: Codes
    """Each synthetic row's current window; empty before period `k`."""
    counts: IntArray
    """Number of rows with each window."""

    @classmethod
    def initial(cls, mechanism: WindowMechanism) -> WindowState:
        """The state before period 1."""
        none = np.zeros(0, dtype=narrowest_dtype(mechanism.bins))
        return cls(Period(0), none, np.zeros(mechanism.bins, dtype=np.int64))


def step_window(
    contract: WindowContract, state: WindowState, tally: IntArray, noise: NoiseSource
) -> tuple[WindowState, Step]:
    """Compute the next period; `tally` holds the exact count of each window (all zero while windows are incomplete)."""
    mechanism = contract.mechanism
    period = Period(state.period + 1)
    _check_tally(contract, period, tally)
    if period < mechanism.k:
        nothing = Step(period, (), (), np.zeros(0, dtype=np.int64), 0)
        return WindowState(period, state.windows, state.counts), nothing
    if period == mechanism.k:
        return _first_step(contract, period, tally, noise)
    return _later_step(contract, state, period, tally, noise)


def _first_step(contract: WindowContract, period: Period, tally: IntArray, noise: NoiseSource) -> tuple[WindowState, Step]:
    mechanism, rng = contract.mechanism, noise.rng()
    if mechanism.measure == "contrast":
        totals = np.array([contract.expected_rows])
        noisy = noise.gaussian(contrasts(tally[None, :]).ravel(), mechanism.sigma_first)
        numerators, denominator = _from_contrasts(noisy[None, :], totals)
    else:
        noisy = noise.gaussian(tally + contract.n_pad, mechanism.sigma_first)
        totals = np.maximum(noisy.sum(keepdims=True), 0)
        numerators, denominator = noisy[None, :], 1
    counts, clamped = clamp_groups(round_groups(numerators, denominator, rng), totals, rng)
    windows = shuffled_rows(counts[0], rng)
    columns = _columns_of(windows, mechanism)
    return WindowState(period, windows, counts[0]), Step(period, columns, (noisy,), counts[0], clamped)


def _later_step(
    contract: WindowContract, state: WindowState, period: Period, tally: IntArray, noise: NoiseSource
) -> tuple[WindowState, Step]:
    mechanism, rng = contract.mechanism, noise.rng()
    q, overlaps = mechanism.q, mechanism.bins // mechanism.q
    totals = state.counts.reshape(q, overlaps).sum(axis=0)
    by_overlap = tally.reshape(overlaps, q)
    if mechanism.measure == "contrast":
        noisy = noise.gaussian(contrasts(by_overlap).ravel(), mechanism.sigma_later)
        numerators, denominator = _from_contrasts(noisy.reshape(overlaps, q), totals)
    else:
        noisy = noise.gaussian(tally + contract.n_pad, mechanism.sigma_later)
        numerators, denominator = _from_histogram(noisy.reshape(overlaps, q), totals)
    counts, clamped = clamp_groups(round_groups(numerators, denominator, rng), totals, rng)
    groups = last_symbols(state.windows, overlaps)
    symbols = assign_symbols(groups, counts, rng)
    groups *= q
    groups += symbols
    return WindowState(period, groups, counts.ravel()), Step(period, (symbols,), (noisy,), counts.ravel(), clamped)


def contrasts(groups: IntArray) -> IntArray:
    """`u_a = g C_a - sum_b C_b` in each row of `g` bins."""
    differences: IntArray = groups.shape[1] * groups - groups.sum(axis=1, keepdims=True)
    return differences


def estimated_counts(contract: WindowContract, noisy: IntArray, before: IntArray | None) -> tuple[IntArray, int]:
    """The counts that a period's measurements imply, before rounding and clamping: numerators and their denominator.

    Each row is a group whose total is preserved; the rows in order hold the bins in order. `before` are the counts released
    one period earlier, None at the first step. Measurements that are too large for 64-bit arithmetic give exact numerators
    as Python integers.
    """
    mechanism = contract.mechanism
    g = mechanism.q if before is not None else mechanism.bins
    largest = max(abs(int(noisy.max(initial=0))), abs(int(noisy.min(initial=0))))
    if g * (MAX_ROWS + 2 * largest) >= 2 * MAX_NUMERATOR:
        noisy = noisy.astype(object)
    if before is None:
        if mechanism.measure == "histogram":
            return noisy[None, :], 1
        return _from_contrasts(noisy[None, :], np.array([contract.expected_rows]))
    overlaps = mechanism.bins // mechanism.q
    totals = before.reshape(mechanism.q, overlaps).sum(axis=0)
    by_overlap = noisy.reshape(overlaps, mechanism.q)
    return (_from_contrasts if mechanism.measure == "contrast" else _from_histogram)(by_overlap, totals)


def _from_contrasts(noisy: IntArray, totals: IntArray) -> tuple[IntArray, int]:
    """Counts `(total + y_a - mean(y)) / g` in each row: numerators over `g^2`."""
    g = noisy.shape[1]
    return g * (totals[:, None] + noisy) - noisy.sum(axis=1, keepdims=True), g * g


def _from_histogram(noisy: IntArray, totals: IntArray) -> tuple[IntArray, int]:
    """Counts `y_a + (total - sum y) / g` in each row: numerators over `g`."""
    g = noisy.shape[1]
    return g * noisy + totals[:, None] - noisy.sum(axis=1, keepdims=True), g


def _columns_of(windows: Codes, mechanism: WindowMechanism) -> list[Column]:
    """The `k` symbols of every window, oldest first."""
    columns: list[Column] = []
    for _ in range(mechanism.k):
        columns.append(last_symbols(windows, mechanism.q).astype(np.uint8, copy=False))
        windows = windows // mechanism.q
    return columns[::-1]


def _check_tally(contract: WindowContract, period: Period, tally: IntArray) -> None:
    mechanism = contract.mechanism
    people = contract.n if period >= mechanism.k else 0
    if tally.shape != (mechanism.bins,) or (tally < 0).any() or int(tally.sum()) != people:
        raise ValueError(f"a tally of release {contract.name} needs {mechanism.bins} counts that add up to n")


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
    return Comparison(int(np.count_nonzero(different)), int(np.count_nonzero((different & ~clampable) | ~kept)))


def padding_of(mechanism: WindowMechanism, beta: float) -> int:
    """`n_pad`: people added to each bin so that with probability `1 - beta` noise makes no count of the study negative.

    The error of a bin's count is Gaussian noise of variance `v'` plus the rounding errors of its last `k` steps, which fade
    by a factor of `q` a step and each lie within an interval of length 1 (sub-Gaussian with variance 1/4). With

        n_pad = (sqrt(2 v') + sqrt((1 - q^-k) / (2 (1 - 1/q)))) sqrt(ln(m R / beta)),

    each of the `m R` bins of a study falls below zero with probability at most `beta / (m R)`. It is computed in decimals,
    because the public number must be the same on every machine.
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
