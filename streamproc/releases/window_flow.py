"""Window releases that are measured by flow (`streamproc.privacy.window_flow`): a column in every period from the first.

Before period `k` the windows are the histories so far, and there are `q^t` bins. The number of synthetic people is known
before the study, so padding is spread evenly: `n_pad` people on each full window, `n_pad q^(k-t)` on each window of period
`t < k`. The counts of a period follow from those of the period before and the new measurements,

    p_t(c) = p_(t-1)(c without its newest symbol) / q + fresh_t(c),

summed over the oldest symbol of the windows before if these were full. Nothing that was released is revised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from streamproc.errors import UnsupportedQuery
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period, Rho
from streamproc.privacy.window_flow import MAX_WEIGHT, MIN_WEIGHT, WindowFlowMechanism
from streamproc.releases.query import Query, declared
from streamproc.releases.step import Measurements
from streamproc.releases.window import WindowContract, WindowTallier, windows_in
from streamproc.releases.window_measurements import fresh_counts, fresh_denominator, layout_of, measure_window
from streamproc.releases.window_synthesis import overlap_totals, padding_of
from streamproc.study import Release, Study, WindowRelease, bin_labels
from streamproc.validation import Validator


class WindowFlowTallier(WindowTallier):
    """Counts the windows of real people, in the first periods their histories so far."""


@dataclass(frozen=True, kw_only=True)
class WindowFlowContract(WindowContract):
    """The public parameters of a window release that is measured by flow."""

    mechanism: WindowFlowMechanism

    measure: ClassVar[str] = "flow"

    # Made from a study

    @classmethod
    def make_mechanism(cls, study: Study, release: Release, rho: Rho) -> WindowFlowMechanism:
        assert isinstance(release, WindowRelease)
        return WindowFlowMechanism.calibrated(
            q=study.q,
            k=release.k,
            horizon=study.last_period,
            adjacency=study.privacy.adjacency,
            rho=rho,
            questions=_questions(study, release),
            objective="largest" if release.weights == "rule" else release.tune,
        )

    def is_implied_by(self, study: Study, release: Release) -> bool:
        """Whether this is the contract of `release` over `n` people, with any weights that cost at most the budget."""
        assert isinstance(release, WindowRelease)
        implied = self.make(study, release, self.n, self.rho, insecure=self.insecure)
        if len(implied.mechanism.weights) != len(self.mechanism.weights):
            return False
        same_noise = replace(implied.mechanism, weights=self.mechanism.weights)
        return (
            replace(implied, mechanism=same_noise, n_pad=self.n_pad) == self
            and self.n_pad == padding_of(self.mechanism, release.beta)
            and self.mechanism.cost(Period(self.horizon)) <= self.rho
        )

    # Written and read

    def own_values(self) -> dict[str, Any]:
        return {"k": self.mechanism.k, "n_pad": self.n_pad, "weights": list(self.mechanism.weights)}

    @classmethod
    def from_values(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> WindowFlowContract:
        cls.check_sizes(values, len(alphabet), check)
        weights, steps = check.sequence("weights", values["weights"]), values["horizon"] - values["k"] + 1
        check.require("weights", values["weights"], len(weights) == steps, f"a list of {steps} numbers")
        for weight in weights:
            check.positive_float("weights", weight, MAX_WEIGHT)
            check.require("weights", weight, weight >= MIN_WEIGHT, f"numbers of at least {MIN_WEIGHT}")
        return cls(
            name=values["release"],
            alphabet=alphabet,
            n=values["n"],
            rho=Rho(values["rho"]),
            mechanism=WindowFlowMechanism(
                len(alphabet), values["k"], values["horizon"], Adjacency(values["adjacency"]), weights
            ),
            insecure=values["insecure"],
            n_pad=values["n_pad"],
        )

    # Rows and columns

    def bins_at(self, period: Period) -> int:
        return int(self.mechanism.q ** self.mechanism.length(period))

    def columns_behind(self, period: Period) -> range:
        return range(max(period - self.mechanism.k, 0), period)

    def padding(self, period: Period) -> int:
        return self.n_pad * (self.mechanism.bins // self.bins_at(period))

    def labels(self, period: Period) -> list[str]:
        return bin_labels(self.alphabet, self.mechanism.length(period))

    def true_counts(self, tallies: Sequence[IntArray]) -> Sequence[IntArray]:
        return [tally[: self.bins_at(Period(period))] for period, tally in enumerate(tallies, start=1)]

    # Synthesis

    def measurement_sizes(self, period: Period) -> list[int]:
        return [group.entries for group in layout_of(self.mechanism.q, self.mechanism.length(period)).groups]

    def measure_tally(self, period: Period, counts: IntArray, noise: NoiseSource) -> Measurements:
        q, length = self.mechanism.q, self.mechanism.length(period)
        exact = measure_window(counts, q, length)
        return [
            noise.gaussian(values, self.mechanism.sigma(period, group.span, group.size))
            for group, values in zip(layout_of(q, length).groups, exact, strict=True)
        ]

    def estimated_counts(self, period: Period, measured: Measurements, before: IntArray | None) -> tuple[IntArray, int]:
        q, length = self.mechanism.q, self.mechanism.length(period)
        fresh, denominator = fresh_counts(measured, q, length)
        totals = np.array([self.expected_rows]) if before is None else overlap_totals(before, q ** (length - 1))
        numerators: IntArray = totals[:, None] * (denominator // q) + fresh.reshape(-1, q)
        return numerators, denominator

    def rounding_denominator(self, period: Period) -> int:
        return fresh_denominator(self.mechanism.q, self.mechanism.length(period))

    # Queries

    def noise_covariance(self, weights: FloatArray, period: Period, other: FloatArray, earlier: Period) -> float:
        return self.mechanism.covariance(weights, period, other, earlier)


def _questions(study: Study, release: WindowRelease) -> list[FloatArray]:
    """The declared questions for which a release is tuned, as weights on its bins; none with `weights = "rule"`."""
    found = declared(study, release, lambda query: _weights_to_tune_for(query, study, release))
    return [] if release.weights == "rule" else found


def _weights_to_tune_for(query: Query, study: Study, release: WindowRelease) -> FloatArray:
    yes = windows_in(query, release.name, study.alphabet, release.k)
    if yes.all() or not yes.any():
        raise UnsupportedQuery(f"{query.name}: the answer is the same for everybody, so there is nothing to tune for")
    return np.tile(yes, study.q**release.k // len(yes))
