"""Flow over the paper's mechanism, measured after clamping: RMS error of all counts on three panels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np

from experiments import subjects
from experiments.answers import Cells
from experiments.report import Settings, percent
from experiments.subjects import Subject
from experiments.summaries import Ranged, ratio_of_means, squared_errors
from experiments.trials import Trial
from streamproc.privacy.adjacency import CLOSED_ADJACENCIES, Adjacency
from streamproc.privacy.types import FloatArray, Period
from streamproc.study import Release
from streamproc.study.releases import Measure

RHO = 0.005
MOST_CUMULATIVE = 0.45
"""The ratio that the errors of a cumulative release may have on the poverty panel and on actcal."""


@dataclass(frozen=True)
class Ratio:
    """One line of `ratios.csv`."""

    release: str
    panel: str
    adjacency: Adjacency
    paper: float
    """RMS error, as a share of the people."""
    flow: float
    measured: Ranged
    """`flow / paper`."""
    expected: float
    """What the standard errors before clamping imply."""

    @property
    def numbers(self) -> tuple[str | float, ...]:
        """The line as CSV holds it."""
        m = self.measured
        named = (self.release, self.panel, self.adjacency.value)
        return *named, self.paper, self.flow, m.value, m.low, m.high, self.expected

    @property
    def line(self) -> tuple[str, ...]:
        """The line for people."""
        named = (self.release, self.panel, self.adjacency.value)
        return *named, percent(self.paper), percent(self.flow), str(self.measured), f"{self.expected:.3f}"


def run(settings: Settings, constant_people: int = 25_000) -> None:
    """`ratios.csv`."""
    compared = [*subjects.both_panels(settings), subjects.constant(constant_people)]
    made = [ratio for subject in compared for ratio in ratios(settings, subject)]
    named = ("release", "panel", "adjacency")
    header = (*named, "rms_paper", "rms_flow", "ratio", "low", "high", "expected")
    settings.csv("ratios.csv", header, [ratio.numbers for ratio in made])
    note = (
        f"RMS error in % of people over all counts and periods, after clamping, rho {RHO}; ratio with the range of 95% "
        f"confidence, {settings.runs} repetitions of each side. Before clamping: the ratio of the standard errors. "
        f"For cumulative releases on the poverty panel and on actcal the ratio must be at most {MOST_CUMULATIVE}."
    )
    columns = (*named, "RMS paper", "RMS flow", "flow / paper", "before clamping")
    settings.show("Flow over the paper", columns, [ratio.line for ratio in made], note)


def ratios(settings: Settings, subject: Subject) -> list[Ratio]:
    """Windows under both adjacencies, and running counts under replace-one."""
    windows: dict[Measure, Release] = {measure: subject.window(measure) for measure in get_args(Measure)}
    counts: dict[Measure, Release] = {measure: subject.cumulative(measure) for measure in get_args(Measure)}
    return [
        *(
            _ratio(settings, subject, f"window, k={subject.k}", windows, adjacency, subject.k)
            for adjacency in CLOSED_ADJACENCIES
        ),
        _ratio(settings, subject, "cumulative", counts, Adjacency.REPLACE_ONE, 1),
    ]


def _ratio(
    settings: Settings, subject: Subject, name: str, releases: Mapping[Measure, Release], adjacency: Adjacency, first: int
) -> Ratio:
    errors: dict[Measure, FloatArray] = {}
    expected: dict[Measure, float] = {}
    for measure, release in releases.items():
        trial = Trial.of(release, subject.alphabet, subject.symbols, RHO, adjacency)
        what = f"{subject.name}: {release.kind}, {measure}, {adjacency.value}"
        errors[measure] = squared_errors(trial.repeat(Cells(first), settings.runs, what), trial.true_cells(first))
        periods = map(Period, range(first, subject.horizon + 1))
        expected[measure] = float(np.mean(np.concatenate([trial.contract.count_stderrs(t) for t in periods]) ** 2))
    paper, flow = (float(np.sqrt(errors[measure].mean())) for measure in ("paper", "flow"))
    measured = ratio_of_means(errors["flow"], errors["paper"], power=0.5)
    return Ratio(name, subject.name, adjacency, paper, flow, measured, (expected["flow"] / expected["paper"]) ** 0.5)
