"""Retention in an open study: of the people who entered in the last `tenure` periods, how many are still present.

Everybody who is present after a period entered in the last `tenure` periods, because nobody is present for longer. So the
people present are the numerator, and the sum of the entrants of those periods is the denominator. For no other number of
periods is the numerator measured: a release knows the states of people, not when they entered.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.kind import BoolArray
from streamproc.releases.open_flow import FLOWS, OpenContract

_PRESENT, _ENTERED = FLOWS.index("#present") - len(FLOWS), FLOWS.index("#entered") - len(FLOWS)
"""Places of these counts, from the end."""


def entry_periods(contract: OpenContract, period: Period) -> range:
    """The last `tenure` periods, `period` included."""
    return range(max(period - contract.tenure, 0) + 1, period + 1)


def retained(counts: Sequence[IntArray] | Sequence[FloatArray]) -> tuple[float, float]:
    """Who is present after the last of these periods, and who entered in them, from all counts of each period."""
    return float(counts[-1][_PRESENT]), float(sum(count[_ENTERED] for count in counts))


def retained_clamped(clamped: Sequence[BoolArray]) -> bool:
    """Whether clamping changed one of the counts of `retained`."""
    return bool(clamped[-1][_PRESENT]) or any(bool(count[_ENTERED]) for count in clamped)


def retention_covariance(contract: OpenContract, period: Period) -> tuple[float, float, float]:
    """The variance of the estimate of who is present, its covariance with that of who entered, and the latter's variance.

    The errors of the states and of the sum of the entrants are followed together from the first of the periods to the last:
    `dN_t = A dx_t` and `dS_t = dS_(t-1) + e' dx_t`, with `dx_t = L dN_(t-1) + B noise` and `dS = 0` before the first.
    """
    mechanism, transitions = contract.mechanism, contract.transitions
    states, sums = transitions.states, transitions.states + 1
    entered = contract.questions[_ENTERED]
    carry, fresh = np.zeros((sums, sums)), np.zeros((sums, transitions.free))
    carry[:states, :states] = transitions.entering_totals(mechanism.estimator.carried)
    carry[states, :states] = entered @ mechanism.estimator.carried
    carry[states, states] = 1.0
    fresh[:states] = transitions.entering_totals(mechanism.estimator.measured)
    fresh[states] = entered @ mechanism.estimator.measured
    added = mechanism.sigma**2 * (fresh @ fresh.T)
    periods = entry_periods(contract, period)
    covariance = np.zeros((sums, sums))
    covariance[:states, :states] = mechanism.state_covariance(Period(periods[0] - 1))
    for _ in periods:
        covariance = carry @ covariance @ carry.T + added
    present = covariance[:states].sum(axis=0)
    return float(present[:states].sum()), float(present[states]), float(covariance[states, states])
