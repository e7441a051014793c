"""Window releases that are measured as in the paper: a noisy histogram of the full windows in every period from `k` on.

The first `k` columns are released together, in period `k`. The number of synthetic people depends on the noise of that
period.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period, Rho
from streamproc.privacy.window import WindowPaperMechanism
from streamproc.releases.kind import MAX_ROWS
from streamproc.releases.query import declared
from streamproc.releases.step import Measurements
from streamproc.releases.window import WindowContract, WindowTallier, windows_in
from streamproc.releases.window_accuracy import carried_back_to
from streamproc.releases.window_synthesis import MAX_NUMERATOR, overlap_totals
from streamproc.study import Release, Study, WindowRelease, bin_labels
from streamproc.validation import Validator

ROW_COUNT_STDDEVS = 10
"""Standard deviations that the number of synthetic people may be off; more has probability below 1e-22."""


class WindowPaperTallier(WindowTallier):
    """Counts the full windows of real people; nobody before period `k`."""


@dataclass(frozen=True, kw_only=True)
class WindowPaperContract(WindowContract):
    """The public parameters of a window release that is measured as in the paper."""

    mechanism: WindowPaperMechanism

    measure: ClassVar[str] = "paper"

    @classmethod
    def make_mechanism(cls, study: Study, release: Release, rho: Rho) -> WindowPaperMechanism:
        assert isinstance(release, WindowRelease)
        k = release.k
        declared(study, release, lambda query: windows_in(query, release.name, study.alphabet, k))
        return WindowPaperMechanism.calibrated(
            q=study.q, k=release.k, horizon=study.last_period, adjacency=study.privacy.adjacency, rho=rho
        )

    # Written and read

    def own_values(self) -> dict[str, Any]:
        return {"k": self.mechanism.k, "n_pad": self.n_pad, "sigma": self.mechanism.sigma}

    @classmethod
    def from_values(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> WindowPaperContract:
        cls.check_sizes(values, len(alphabet), check)
        check.positive_float("sigma", values["sigma"])
        adjacency = Adjacency(values["adjacency"])
        return cls(
            name=values["release"],
            alphabet=alphabet,
            n=values["n"],
            rho=Rho(values["rho"]),
            mechanism=WindowPaperMechanism(len(alphabet), values["k"], values["horizon"], adjacency, values["sigma"]),
            insecure=values["insecure"],
            n_pad=values["n_pad"],
        )

    # Rows and columns

    @property
    def n_star(self) -> int | None:
        return None

    @property
    def first_column(self) -> Period:
        return Period(self.mechanism.k)

    def bins_at(self, period: Period) -> int:
        return self.mechanism.bins

    def columns_behind(self, period: Period) -> range:
        return range(max(period - self.mechanism.k, 0), max(period, self.mechanism.k))

    def labels(self, period: Period) -> list[str]:
        return bin_labels(self.alphabet, self.mechanism.k)

    def true_counts(self, tallies: Sequence[IntArray]) -> Sequence[IntArray]:
        return tallies[self.mechanism.k - 1 :]

    def max_rows(self, known: int | None) -> int:
        if known is not None:
            return known
        deviation = self.mechanism.sigma * math.sqrt(self.mechanism.bins)
        return self.expected_rows + math.ceil(ROW_COUNT_STDDEVS * deviation) + self.mechanism.bins

    # Synthesis

    def measurement_sizes(self, period: Period) -> list[int]:
        return [self.mechanism.bins] if period >= self.mechanism.k else []

    def measure_tally(self, period: Period, counts: IntArray, noise: NoiseSource) -> Measurements:
        return [noise.gaussian(counts + self.n_pad, self.mechanism.sigma)]

    def estimated_counts(self, period: Period, measured: Measurements, before: IntArray | None) -> tuple[IntArray, int]:
        """The noisy counts in period `k`; later `y_a + (total - sum y) / q` in each group of an overlap."""
        q, noisy = self.mechanism.q, measured[0]
        largest = max(int(noisy.max()), -int(noisy.min()))
        if self.mechanism.bins * (MAX_ROWS + 2 * largest) >= 2 * MAX_NUMERATOR:
            noisy = noisy.astype(object)
        if before is None:
            return noisy[None, :], 1
        totals, groups = overlap_totals(before, self.mechanism.bins // q), noisy.reshape(-1, q)
        numerators: IntArray = q * groups + totals[:, None] - groups.sum(axis=1, keepdims=True)
        return numerators, q

    def rounding_denominator(self, period: Period) -> int:
        return self.mechanism.q if period > self.mechanism.k else 1

    # Queries

    def newer_windows(self, period: Period) -> int:
        """The symbols of the first `k` periods are all released at period `k`."""
        return int(self.mechanism.q ** max(self.mechanism.k - period, 0))

    def noise_covariance(self, weights: FloatArray, period: Period, other: FloatArray, earlier: Period) -> float:
        """The errors of a period's bins have covariance `sigma^2 I` at every step.

        The error of a count is that of the differences within its group, which is new, plus that of the group's total,
        spread evenly. So an earlier error is part of a later one with the weights that carry back to it.
        """
        carried = carried_back_to(self, weights, period, earlier)
        return float(self.mechanism.bin_variance * np.dot(carried, other))

    def steady_period(self, period: Period) -> Period:
        """The variance from rounding is constant from `k` periods after the first step on."""
        return Period(min(period, 2 * self.mechanism.k))
