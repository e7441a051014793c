"""Designs the measurements of the flow mechanism: from weights on transitions and states to integer matrices.

Write `x_t` for the counts of the transitions of period `t` and `N_t` for those of the states after it. Weights `w` on
transitions and quadratic forms `m` on states define a precision on all errors `d` that conserve flow:

    P(d) = sum_t sum_e w_(t,e) dx_t[e]^2 + sum_t dN_t' m_t dN_t.

This is what least squares would reach if every transition of every period were measured, with variance `1 / w`, and every
count were estimated from all measurements, later ones included. For Gaussian noise only the covariance matters, so the same
covariance is produced period by period: the recursion of linear-quadratic control, backwards from the last period, gives
matrices `W_t` such that measuring `W_t x_t` with independent noise of variance 1 in each period has exactly this precision.

The matrices are rounded to integers. Everything that protects people (`streamproc.privacy.flow`) is computed from the
rounded matrices, so a bad choice of weights, or a mistake in this module, costs accuracy and never privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamproc.privacy.automaton import Transitions
from streamproc.privacy.types import FloatArray, IntArray

MATRIX_BITS = 15
"""Bits of the largest entry, besides its sign: entries are stored as 16-bit integers."""


@dataclass(frozen=True, eq=False)
class FlowWeights:
    """The weights of a precision, up to a common factor."""

    transitions: tuple[FloatArray, ...]
    """`w`: one for each transition of each period."""
    states: tuple[FloatArray, ...]
    """`m`: a positive semidefinite matrix, states by states, for each period."""


def rule_weights(periods: Sequence[Transitions]) -> FlowWeights:
    """Weights that are good for any automaton: `lambda_t` grows with `t`, the last one and the final states weigh more."""
    horizon = len(periods)
    weights = np.sqrt(0.2 + np.arange(1, horizon + 1) / horizon)
    weights[-1] *= 1.3
    final = 1.4 * float(weights.mean())
    transitions = tuple(np.full(len(period), weight) for period, weight in zip(periods, weights, strict=True))
    states = [np.zeros((len(period.after), len(period.after))) for period in periods]
    np.fill_diagonal(states[-1], final)
    return FlowWeights(transitions, tuple(states))


@dataclass(frozen=True, eq=False)
class PeriodDesign:
    """One period of the recursion, before rounding."""

    precision: FloatArray
    """`M_t = F' Q F`: the inverse of the covariance of what the period adds to the error."""
    gain: FloatArray
    """`K_t`: how the open counts depend on the states before."""


def recursion(periods: Sequence[Transitions], weights: FlowWeights) -> list[PeriodDesign]:
    """The backward recursion. Raises ValueError if the weights leave some count without a measurement."""
    later = weights.states[-1]
    designs: list[PeriodDesign] = []
    for t in reversed(range(len(periods))):
        period = periods[t]
        form = np.diag(weights.transitions[t]) + later[np.ix_(period.target, period.target)]
        spread, contrasts = form @ period.spread, period.contrasts
        precision = contrasts.T @ form @ contrasts
        crossed = contrasts.T @ spread
        try:
            np.linalg.cholesky(precision)
            gain: FloatArray = -np.linalg.solve(precision, crossed).astype(np.float64)
        except np.linalg.LinAlgError:
            raise ValueError(f"the weights of period {t + 1} and later leave a count without a measurement") from None
        designs.append(PeriodDesign(precision, gain))
        later = period.spread.T @ spread + gain.T @ crossed
        later = (later + later.T) / 2
        if t:
            later = later + weights.states[t - 1]
    return designs[::-1]


def design_matrices(periods: Sequence[Transitions], weights: FlowWeights) -> tuple[IntArray, ...]:
    """The matrices `W_t = R_t (F_t' - K_t U_t)`, multiplied by one factor and rounded to integers of 16 bits.

    `R_t' R_t = M_t`, and `U_t` sums over the transitions that leave each state.
    """
    exact = []
    for period, design in zip(periods, recursion(periods, weights), strict=True):
        root = np.linalg.cholesky(design.precision).T
        exact.append(root @ (period.contrasts.T - design.gain[:, period.source]))
    largest = max((float(np.abs(matrix).max(initial=0)) for matrix in exact), default=0.0)
    scale = ((1 << MATRIX_BITS) - 1) / largest if largest else 1.0
    return tuple(np.rint(scale * matrix).astype(np.int64) for matrix in exact)
