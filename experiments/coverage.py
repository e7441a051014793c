"""How often the 95% intervals hold the truth: of answers, on flat panels too, and of differences between two periods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments import panels, subjects
from experiments.answers import Differences, Intervals, Together
from experiments.report import Settings
from experiments.subjects import SPELL, Subject
from experiments.summaries import Ranged, covered, mean
from experiments.trials import Trial
from streamproc.study import Release, bin_labels

RHO = 0.005
COUNTED = (1, 2, 3, 6)
FLAT_PEOPLE = 2_000
LONG_HORIZON = 30
WAYS = ("with the measurements", "columns alone", "value +- 1.96 stderr (not offered)")
DIFFERENCE = "difference of two periods"


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
    known = subjects.both_panels(settings)
    made = [line for subject in known for line in panel_coverage(settings, subject)]
    made += [line for subject in flat_subjects() for line in cumulative_coverage(settings, subject)]
    made.sort(key=lambda line: line.interval)
    header = ("interval", "panel", "intervals", "covered", "low", "high", "worst_cell")
    rows = [(c.interval, c.panel, c.intervals, c.share.value, c.share.low, c.share.high, c.worst) for c in made]
    settings.csv("coverage.csv", header, rows)
    lines = [(c.interval, c.panel, c.intervals, str(c.share), f"{c.worst:.3f}") for c in made]
    note = (
        f"With the range of 95% confidence; {settings.runs} repetitions, rho {RHO}, replace-one, flow. Worst cell: the "
        "question and period covered least often, of many, so chance alone puts it somewhat below."
    )
    columns = ("interval", "panel", "intervals", "covered", "worst cell")
    settings.show("Intervals of level 0.95 that hold the truth", columns, lines, note)


def flat_subjects() -> list[Subject]:
    """Panels on which clamping can move counts in one direction only."""

    def flat(name: str, share: float, horizon: int) -> Subject:
        return Subject(name, "01", panels.once(FLAT_PEOPLE, horizon, share), 1, "1", {}, ())

    return [
        flat("nobody ever, T=12", 0, 12),
        flat("a third once, T=12", 1 / 3, 12),
        flat(f"a third once, T={LONG_HORIZON}", 1 / 3, LONG_HORIZON),
    ]


def panel_coverage(settings: Settings, subject: Subject) -> list[Coverage]:
    """Answers of window and cumulative releases, and differences of all kinds."""
    bins = tuple(_bin_question(label) for label in bin_labels(tuple(subject.alphabet), subject.k))
    spells = tuple(f"spell >= {length}" for length in range(1, SPELL + 1))
    # Overlapping windows and distant ones; for the other kinds, neighbours and the first and last answers.
    k, last = subject.k, subject.horizon
    return [
        *_of_release(settings, subject, subject.window(), bins, ((k, k + 1), (last - 1, last), (k, last)), WAYS[:1]),
        *cumulative_coverage(settings, subject),
        *_of_release(settings, subject, subject.spell(), spells, ((6, 7), (last - 1, last), (6, last)), ()),
        *_of_release(settings, subject, subject.pattern(), ("matched",), ((6, 7), (last - 1, last), (6, last)), ()),
    ]


def cumulative_coverage(settings: Settings, subject: Subject) -> list[Coverage]:
    """At least 1, 2, 3 and 6 events at every period that can have them, and differences."""
    questions, last = tuple(f"events >= {b}" for b in COUNTED), subject.horizon
    pairs = ((6, 7), (last - 1, last), (6, last))
    return _of_release(settings, subject, subject.cumulative(), questions, pairs, WAYS)


def _of_release(
    settings: Settings,
    subject: Subject,
    release: Release,
    questions: tuple[str, ...],
    pairs: tuple[tuple[int, int], ...],
    ways: tuple[str, ...],
) -> list[Coverage]:
    periods = tuple(range(1, subject.horizon + 1))
    trial = Trial.of(release, subject.alphabet, subject.symbols, RHO)
    keep = Together(Intervals(questions), Differences(questions, pairs)) if ways else Differences(questions, pairs)
    kept = trial.repeat(keep, settings.runs, f"coverage, {subject.name}: {release.kind}")
    kept = kept.reshape(len(kept), -1)
    size = 3 * len(questions) * len(periods) * 2 if ways else 0
    answers = kept[:, :size].reshape(len(kept), 3 if ways else 0, len(questions), len(periods), 2)
    changes = kept[:, size:].reshape(len(kept), len(questions), len(pairs), 2)
    truth = trial.truths(questions, periods)
    known = ~np.isnan(truth)
    made = [
        Coverage.of(f"{release.kind}, {way}", subject.name, covered(answers[:, place][:, known], truth[known]))
        for place, way in enumerate(ways)
    ]
    changed = np.stack([truth[:, later - 1] - truth[:, earlier - 1] for earlier, later in pairs], axis=1)
    there = ~np.isnan(changed)
    made.append(Coverage.of(f"{release.kind}, {DIFFERENCE}", subject.name, covered(changes[:, there], changed[there])))
    return made


def _bin_question(label: str) -> str:
    places = [f'lag {lag} in ("{symbol}")' for lag, symbol in enumerate(reversed(label)) if lag]
    return " and ".join([f'now in ("{label[-1]}")', *places])
