"""The noise of both measures before any data, beside the least that a Gaussian mechanism can have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.report import Settings
from experiments.trials import study_of
from streamproc.privacy.types import Period
from streamproc.releases.contracts import make_contracts
from streamproc.releases.window import WindowContract
from streamproc.storage.entropy import SystemEntropy
from streamproc.study import CumulativeRelease, Privacy, Release, WindowRelease


@dataclass(frozen=True)
class Case:
    """A kind of release of one size, and the lower bounds of its variances at rho 1 under replace-one, where known."""

    name: str
    alphabet: str
    horizon: int
    releases: dict[str, Release]
    """By how they are measured, the paper's first."""
    least_largest: float
    """No Gaussian mechanism has a smaller largest variance."""
    least_mean: float | None = None
    """No Gaussian mechanism has a smaller mean variance."""


def window_case(q: int, k: int, horizon: int, least: float) -> Case:
    """Windows by both measures."""
    releases: dict[str, Release] = {"paper": WindowRelease("release", k, "paper"), "flow": WindowRelease("release", k)}
    return Case(f"window q={q} k={k} T={horizon}", "0123"[:q], horizon, releases, least)


def cumulative_case(horizon: int, largest: float, mean: float | None = None) -> Case:
    """Running counts by the paper's mechanism, and by flow with each way to choose weights."""
    releases: dict[str, Release] = {
        "paper": CumulativeRelease("release", ("1",), measure="paper"),
        "flow, by rule": CumulativeRelease("release", ("1",), weights="rule"),
        "flow, tuned": CumulativeRelease("release", ("1",), weights="tuned"),
    }
    if mean is not None:
        releases["flow, tuned for the mean"] = CumulativeRelease("release", ("1",), weights="tuned", tune="mean")
    return Case(f"cumulative T={horizon}", "01", horizon, releases, largest, mean)


CASES = (
    window_case(2, 2, 12, 5.749),
    window_case(2, 3, 12, 5.333),
    window_case(2, 3, 24, 11.275),
    window_case(4, 2, 12, 8.438),
    cumulative_case(12, 5.630, 5.117),
    cumulative_case(24, 11.40),
    cumulative_case(48, 21.4),
)


def run(settings: Settings, cases: tuple[Case, ...] = CASES) -> None:
    """`variances.csv`."""
    rows: list[tuple[str | float, ...]] = []
    lines: list[tuple[str, ...]] = []
    for case in cases:
        for measured, release in case.releases.items():
            largest, mean = variances(case, release)
            rows.append((case.name, measured, largest, case.least_largest, mean, case.least_mean or ""))
            over = f"{largest / case.least_largest:.3f}"
            least_mean = "" if case.least_mean is None else f"{case.least_mean:.3f}"
            lines.append(
                (case.name, measured, f"{largest:.3f}", f"{case.least_largest:.3f}", over, f"{mean:.3f}", least_mean)
            )
    header = ("release", "measured", "largest", "least_largest", "mean", "least_mean")
    settings.csv("variances.csv", header, rows)
    columns = ("release", "measured", "largest", "least possible", "ratio", "mean", "least possible")
    note = "Variance of a count at rho 1, replace-one, before rounding to people and clamping; divide by rho."
    settings.show("Noise, and the least possible", columns, lines, note)


def variances(case: Case, release: Release) -> tuple[float, float]:
    """The largest and the mean variance over all counts: full windows, or "at least b" for all `b <= t`."""
    study = study_of(release, case.alphabet, case.horizon, Privacy(rho=1.0))
    contract = make_contracts(study, 1_000, SystemEntropy())[release.name]
    first = release.k if isinstance(release, WindowRelease) else 1
    if isinstance(contract, WindowContract):
        # Without rounding to whole people, which would count at a budget as large as 1.
        weights = np.eye(1, contract.mechanism.bins).ravel()
        periods = map(Period, range(first, case.horizon + 1))
        each = np.array([contract.noise_covariance(weights, t, weights, t) for t in periods])
    else:
        each = np.concatenate([contract.count_stderrs(Period(t)) for t in range(first, case.horizon + 1)]) ** 2
    return float(each.max()), float(each.mean())
