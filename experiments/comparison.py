"""One panel, released as in the paper and by flow: same budget, same adjacency, same questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from experiments.answers import Cells, Together, Values
from experiments.figures import FLOW, PAPER, Densities, draw_densities, legend, new_figure, save
from experiments.report import Cell, Settings, percent
from experiments.subjects import Subject
from experiments.summaries import largest_error, root_mean_square
from experiments.trials import Keep, Trial
from streamproc.privacy.types import FloatArray
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.study import Release
from streamproc.study.releases import Measure

RHOS = (0.001, 0.005, 0.05)
SHOWN = 0.005
"""The budget of the figure."""
DELTA = 1e-6
COUNTED = (3, 6)
"""Numbers of events whose running counts are shown."""


@dataclass(frozen=True)
class Comparison:
    """The same question to both releases: (runs, cells) answers of each, and the truth."""

    rho: float
    question: str
    paper: FloatArray
    flow: FloatArray
    truth: FloatArray
    places: tuple[int, ...] = ()
    """The periods of the cells, where a cell is a period."""

    def numbers(self) -> tuple[float, ...]:
        """RMS error of the paper's and of flow, and their ratio; the same for the largest error."""
        rms = [root_mean_square(answers, self.truth) for answers in (self.paper, self.flow)]
        most = [largest_error(answers, self.truth) for answers in (self.paper, self.flow)]
        return *rms, rms[1] / rms[0], *most, most[1] / most[0]

    def line(self) -> tuple[str, ...]:
        """`numbers` for people."""
        rms_paper, rms_flow, rms_ratio, max_paper, max_flow, max_ratio = self.numbers()
        return (
            *(percent(rms_paper), percent(rms_flow), f"{rms_ratio:.2f}"),
            *(percent(max_paper), percent(max_flow), f"{max_ratio:.2f}"),
        )


def report(settings: Settings, subject: Subject, title: str) -> None:
    """`NAME.csv` and `NAME.png`, where NAME is that of the subject."""
    comparisons: list[Comparison] = []
    shown: list[Comparison] = []
    for rho in RHOS:
        window, cumulative = window_comparisons(settings, subject, rho), cumulative_comparisons(settings, subject, rho)
        comparisons += [*window, *cumulative]
        if rho == SHOWN:
            shown = [*window[1:], *cumulative[1:]]
    names = ("rms_paper", "rms_flow", "rms_ratio", "max_paper", "max_flow", "max_ratio")
    settings.csv(
        f"{subject.name}.csv", ("rho", "question", *names), [(c.rho, c.question, *c.numbers()) for c in comparisons]
    )
    lines: list[tuple[Cell, ...]] = [(c.rho, c.question, *c.line()) for c in comparisons]
    columns = ("rho", "question", "RMS paper", "RMS flow", "ratio", "max paper", "max flow", "ratio")
    meaning = "; ".join(f"rho {rho} is epsilon {epsilon_of_rho(rho, DELTA):.3f}" for rho in RHOS)
    note = (
        f"In % of people; max: the largest error over all cells of a line in the median run of {settings.runs}. "
        f"Replace-one; {meaning} at delta {DELTA:g}."
    )
    people = len(subject.symbols)
    settings.show(f"{title} (n={people}, T={subject.horizon}, k={subject.k})", columns, lines, note)
    _draw(settings, subject, shown, f"{title}, rho = {SHOWN} (n = {people})")


def window_comparisons(settings: Settings, subject: Subject, rho: float) -> list[Comparison]:
    """All bins of full windows, then each question at the periods in which it is asked."""
    questions = tuple(subject.window_questions.values())
    keep = Together(Cells(subject.k), Values(questions, subject.asked))
    both, trial = _repeat_both(settings, subject, {m: subject.window(m) for m in get_args(Measure)}, rho, keep)
    truth = np.concatenate([trial.true_cells(subject.k), trial.truths(questions, subject.asked).ravel()])
    asked = len(subject.asked)
    cells = len(truth) - len(questions) * asked
    parts = [slice(cells + place * asked, cells + (place + 1) * asked) for place in range(len(questions))]
    return [
        Comparison(rho, "all bins", both["paper"][:, :cells], both["flow"][:, :cells], truth[:cells]),
        *(
            Comparison(rho, label, both["paper"][:, part], both["flow"][:, part], truth[part], subject.asked)
            for label, part in zip(subject.window_questions, parts, strict=True)
        ),
    ]


def cumulative_comparisons(settings: Settings, subject: Subject, rho: float) -> list[Comparison]:
    """At least `b` events so far: for all `b` at all periods, then some `b` from period `b` on."""
    releases: dict[Measure, Release] = {m: subject.cumulative(m) for m in get_args(Measure)}
    both, trial = _repeat_both(settings, subject, releases, rho, Cells(1))
    truth = trial.true_cells(1)
    made = [Comparison(rho, "at least b so far, all b", both["paper"], both["flow"], truth)]
    # The cells of period t are those of b = 1..t, after the t (t - 1) / 2 of the periods before.
    for b in COUNTED:
        periods = tuple(range(b, subject.horizon + 1))
        places = [t * (t - 1) // 2 + b - 1 for t in periods]
        answers = {measure: kept[:, places] for measure, kept in both.items()}
        made.append(
            Comparison(rho, f"at least {b} months so far", answers["paper"], answers["flow"], truth[places], periods)
        )
    return made


def _repeat_both(
    settings: Settings, subject: Subject, releases: Mapping[Measure, Release], rho: float, keep: Keep
) -> tuple[dict[Measure, FloatArray], Trial]:
    """What is kept of both releases, and one of the trials, for the truth."""
    trials = {m: Trial.of(release, subject.alphabet, subject.symbols, rho) for m, release in releases.items()}
    kept = {
        m: trial.repeat(keep, settings.runs, f"{subject.name}: {releases[m].kind}, {m}, rho {rho}")
        for m, trial in trials.items()
    }
    return kept, trials["flow"]


def _draw(settings: Settings, subject: Subject, shown: Sequence[Comparison], title: str) -> None:
    figure, grid = new_figure(10, 8.2, 3, 2, title)
    for axes, one in zip(grid, shown, strict=True):
        answers = {"paper": one.paper, "flow": one.flow}
        draw_densities(axes, Densities(one.question, list(map(str, one.places)), answers, one.truth), (PAPER, FLOW))
        axes.set_xlabel("month")
    legend(figure, {"paper": PAPER, "flow": FLOW}, "truth")
    caption = (
        f"Densities of the released answers over {settings.runs} repetitions, replace-one. The first four questions look at "
        f"the last {subject.k} months (window release, k = {subject.k}, debiased); the last row is a cumulative release."
    )
    save(figure, settings.out / f"{subject.name}.png", caption)
