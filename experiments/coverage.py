"""How often the 95% intervals hold the truth: of window answers, and of running counts, flat ones too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments import panels
from experiments.answers import AtLeastIntervals, bin_answers
from experiments.ratios import RHO, Subject, subjects
from experiments.report import Settings
from experiments.summaries import Ranged, covered, mean
from experiments.trials import Trial
from streamproc.study import CumulativeRelease, WindowRelease

WEIGHTS = (1, 2, 3, 6)
FLAT_PEOPLE = 2_000
LONG_HORIZON = 30
KINDS = ("at least b, with the ledger", "at least b, columns alone", "at least b, value +- 1.96 stderr (not offered)")


@dataclass(frozen=True)
class Coverage:
    """One line of `coverage.csv`."""

    interval: str
    panel: str
    intervals: int
    """How many, over all repetitions."""
    share: Ranged
    worst: float
    """Of the cell (question and period) that is covered least often."""

    @classmethod
    def of(cls, interval: str, panel: str, holds: npt.NDArray[np.bool_]) -> Coverage:
        """From (runs, cells): whether each interval held the truth."""
        return cls(interval, panel, holds.size, mean(holds.mean(axis=1)), float(holds.mean(axis=0).min()))


def run(settings: Settings) -> None:
    """`coverage.csv`."""
    known = subjects(settings)
    flat = [
        Subject("nobody ever, T=12", "01", panels.constant(FLAT_PEOPLE, 12, 0), 1, "1"),
        Subject("a third once, T=12", "01", panels.once(FLAT_PEOPLE, 12, 1 / 3), 1, "1"),
        Subject(f"a third once, T={LONG_HORIZON}", "01", panels.once(FLAT_PEOPLE, LONG_HORIZON, 1 / 3), 1, "1"),
    ]
    made = [window(settings, subject) for subject in known]
    made += [line for subject in [*known, *flat] for line in cumulative(settings, subject)]
    made.sort(key=lambda line: ("bins", *KINDS).index(line.interval))
    header = ("interval", "panel", "intervals", "covered", "low", "high", "worst_cell")
    rows = [(c.interval, c.panel, c.intervals, c.share.value, c.share.low, c.share.high, c.worst) for c in made]
    settings.csv("coverage.csv", header, rows)
    lines = [(c.interval, c.panel, c.intervals, str(c.share), f"{c.worst:.3f}") for c in made]
    note = (
        f"With the range of 95% confidence; {settings.runs} repetitions, rho {RHO}, replace-one. Worst cell: the question "
        "and period covered least often, of many, so chance alone puts it somewhat below."
    )
    settings.show(
        "Intervals of level 0.95 that hold the truth",
        ("interval", "panel", "intervals", "covered", "worst cell"),
        lines,
        note,
    )


def window(settings: Settings, subject: Subject) -> Coverage:
    """All bins at all periods, `contrast`."""
    trial = Trial.of(WindowRelease("window", subject.k), subject.alphabet, subject.symbols, RHO)
    answers = trial.repeat(bin_answers, settings.runs, f"coverage, {subject.name}: bins")
    holds = covered(answers[..., 1:], trial.true_bins)
    return Coverage.of("bins", subject.name, holds.reshape(len(holds), -1))


def cumulative(settings: Settings, subject: Subject) -> list[Coverage]:
    """At least 1, 2, 3 and 6 ones at every period from `b` on, `sqrt`; three kinds of interval."""
    trial = Trial.of(CumulativeRelease("cumulative", (subject.event,)), subject.alphabet, subject.symbols, RHO)
    kept = trial.repeat(AtLeastIntervals(WEIGHTS), settings.runs, f"coverage, {subject.name}: at least b")
    truth = trial.true_sums.T[np.array(WEIGHTS) - 1]
    holds = covered(kept, truth)
    periods = np.arange(1, trial.study.horizon + 1)
    possible = periods >= np.array(WEIGHTS)[:, None]
    return [Coverage.of(kind, subject.name, holds[:, place, possible]) for place, kind in enumerate(KINDS)]
