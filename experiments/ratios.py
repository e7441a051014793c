"""Ours over the paper's, measured: the variance of a bin, and the error of a running count after clamping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments import panels
from experiments.actcal_data import ALPHABET, NoActcal, actcal
from experiments.answers import bins, sums
from experiments.report import Settings
from experiments.summaries import Ranged, ratio_of_means, squared_errors
from experiments.trials import Symbols, Trial
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.counters import CounterName
from streamproc.privacy.types import FloatArray, Period
from streamproc.privacy.window import Measure
from streamproc.releases.window import WindowContract
from streamproc.releases.window_accuracy import window_stderr
from streamproc.study import CumulativeRelease, WindowRelease

RHO = 0.005


@dataclass(frozen=True, eq=False)
class Subject:
    """A panel, the window it is asked about, and what counts as a one."""

    name: str
    alphabet: str
    symbols: Symbols
    k: int
    event: str


@dataclass(frozen=True)
class Ratio:
    """One line of `ratios.csv`."""

    what: str
    panel: str
    adjacency: Adjacency
    measured: Ranged
    expected: str
    """What the formulas say, or the most it may be."""

    @property
    def numbers(self) -> tuple[str, str, str, float, float, float, str]:
        m = self.measured
        return self.what, self.panel, self.adjacency.value, m.value, m.low, m.high, self.expected


def run(settings: Settings) -> None:
    """`ratios.csv`."""
    made = [ratio for subject in subjects(settings) for ratio in ratios(settings, subject)]
    settings.csv(
        "ratios.csv", ("ratio", "panel", "adjacency", "measured", "low", "high", "expected"), [r.numbers for r in made]
    )
    lines = [(r.what, r.panel, r.adjacency.value, str(r.measured), r.expected) for r in made]
    note = f"With the range of 95% confidence; {settings.runs} repetitions of each side, rho {RHO}."
    settings.show("Ours over the paper's", ("ratio", "panel", "adjacency", "measured", "expected"), lines, note)


def subjects(settings: Settings) -> list[Subject]:
    """Both panels; without `actcal`, if it cannot be had, after saying so."""
    found = [Subject("poverty", "01", panels.poverty(), 3, "1")]
    try:
        found.append(Subject("actcal", ALPHABET, actcal(settings), 2, "D"))
    except NoActcal as reason:
        settings.console.print(f"left out actcal: {reason}", soft_wrap=True)
    return found


def ratios(settings: Settings, subject: Subject) -> list[Ratio]:
    """Bin variances under both adjacencies, and the running counts under replace-one."""
    return [*window_ratios(settings, subject), counter_ratio(settings, subject)]


def window_ratios(settings: Settings, subject: Subject) -> list[Ratio]:
    """The variance of a bin, `contrast` over `histogram`, under both adjacencies."""
    made = []
    for adjacency in Adjacency:
        ours, ours_expected = _window(settings, subject, "contrast", adjacency)
        paper, paper_expected = _window(settings, subject, "histogram", adjacency)
        what = f"variance of a bin, k={subject.k}: contrast / histogram"
        expected = f"{ours_expected / paper_expected:.3f}"
        made.append(Ratio(what, subject.name, adjacency, ratio_of_means(ours, paper), expected))
    return made


def counter_ratio(settings: Settings, subject: Subject) -> Ratio:
    """The error of the running counts after clamping, `sqrt` over `tree`, both with `equal-max`."""
    sqrt, tree = _cumulative(settings, subject, "sqrt"), _cumulative(settings, subject, "tree")
    rmse = ratio_of_means(sqrt, tree, power=0.5)
    return Ratio("RMSE of at least b: sqrt / tree", subject.name, Adjacency.REPLACE_ONE, rmse, "at most 0.8")


def _window(settings: Settings, subject: Subject, measure: Measure, adjacency: Adjacency) -> tuple[FloatArray, float]:
    """The mean squared error of each repetition, and its expectation, rounding included; in shares squared."""
    trial = Trial.of(WindowRelease("window", subject.k, measure), subject.alphabet, subject.symbols, RHO, adjacency)
    what = f"{subject.name}: {measure}, {adjacency.value}"
    errors = squared_errors(trial.repeat(bins, settings.runs, what), trial.true_bins)
    assert isinstance(trial.contract, WindowContract)
    mechanism = trial.contract.mechanism
    one_bin = np.eye(mechanism.bins)[0]
    periods = map(Period, range(mechanism.k, mechanism.horizon + 1))
    expected = np.mean([window_stderr(mechanism, one_bin, period) ** 2 for period in periods])
    return errors, float(expected) / trial.contract.n**2


def _cumulative(settings: Settings, subject: Subject, counter: CounterName) -> FloatArray:
    """The mean squared error of each repetition over all `b <= t`, after clamping."""
    trial = Trial.of(CumulativeRelease("cumulative", (subject.event,), counter), subject.alphabet, subject.symbols, RHO)
    kept = trial.repeat(sums, settings.runs, f"{subject.name}: {counter}")
    possible = np.tril_indices(trial.study.horizon)
    return squared_errors(kept[:, *possible], trial.true_sums[possible])
