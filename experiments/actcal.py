"""The real panel `actcal`: the paper's mechanisms and ours side by side, same budget, same adjacency, same questions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.actcal_data import ALPHABET, MONTHS, actcal
from experiments.answers import Questions, bins, sums
from experiments.figures import OURS, PAPER, Densities, draw_densities, legend, new_figure, save
from experiments.report import Cell, Settings, percent
from experiments.summaries import largest_error, root_mean_square
from experiments.trials import Symbols, Trial
from streamproc.offline import ReplayResult
from streamproc.privacy.types import FloatArray
from streamproc.study import CumulativeRelease, Release, WindowRelease

RHOS = (0.001, 0.005, 0.05)
SHOWN = 0.005
"""The budget of the figure."""
K = 2
MONTHS_OUT = (3, 6)

WINDOWS: dict[str, Release] = {
    "paper": WindowRelease("window", K, "histogram"),
    "ours": WindowRelease("window", K, "contrast"),
}
CUMULATIVES: dict[str, Release] = {
    "paper": CumulativeRelease("cumulative", ("D",), "tree", "cubic"),
    "ours": CumulativeRelease("cumulative", ("D",), "sqrt", "equal-max"),
}
ASKED = Questions("bimonthly", tuple(range(2, len(MONTHS) + 1, 2)))


def run(settings: Settings) -> None:
    """`actcal.csv`, `actcal.png`."""
    report(settings, actcal(settings))


def report(settings: Settings, symbols: Symbols) -> None:
    """The same on any panel of these levels."""
    comparisons: list[Comparison] = []
    figures: list[Densities] = []
    for rho in RHOS:
        window, cumulative = _window(settings, symbols, rho), _cumulative(settings, symbols, rho)
        comparisons += [*window, *cumulative]
        if rho == SHOWN:
            figures = [_density(c) for c in (*window[1:], *cumulative[1:])]
    names = ("rms_paper", "rms_ours", "rms_ratio", "max_paper", "max_ours", "max_ratio")
    settings.csv("actcal.csv", ("rho", "question", *names), [(c.rho, c.question, *c.numbers()) for c in comparisons])
    lines: list[tuple[Cell, ...]] = [(c.rho, c.question, *c.line()) for c in comparisons]
    columns = ("rho", "question", "RMS paper", "RMS ours", "ratio", "max paper", "max ours", "ratio")
    note = (
        f"In % of people; max: the largest error over all its cells in the median run of {settings.runs}. Paper: histogram, "
        "tree, cubic. Ours: contrast, sqrt, equal-max. Both replace-one."
    )
    settings.show(f"actcal (n={len(symbols)}, T={symbols.shape[1]}, k={K})", columns, lines, note)
    _draw(settings, figures, len(symbols))


@dataclass(frozen=True)
class Comparison:
    """The same question to both: (runs, cells...) answers, and the truth."""

    rho: float
    question: str
    paper: FloatArray
    ours: FloatArray
    truth: FloatArray
    places: tuple[int, ...] = ()
    """The periods of the cells, where a cell is a period."""

    def numbers(self) -> tuple[float, ...]:
        """RMS of the paper's, ours, their ratio; the same for the largest error."""
        rms = [root_mean_square(answers, self.truth) for answers in (self.paper, self.ours)]
        most = [largest_error(answers, self.truth) for answers in (self.paper, self.ours)]
        return *rms, rms[1] / rms[0], *most, most[1] / most[0]

    def line(self) -> tuple[str, ...]:
        """`numbers` for people."""
        rms_paper, rms_ours, rms_ratio, max_paper, max_ours, max_ratio = self.numbers()
        return (
            *(percent(rms_paper), percent(rms_ours), f"{rms_ratio:.2f}"),
            *(percent(max_paper), percent(max_ours), f"{max_ratio:.2f}"),
        )


def window_answers(run: int, replayed: ReplayResult) -> FloatArray:
    """All bins of all periods, then every question, in one row."""
    return np.concatenate([bins(run, replayed).ravel(), ASKED(run, replayed).ravel()])


def _window(settings: Settings, symbols: Symbols, rho: float) -> list[Comparison]:
    kept: dict[str, FloatArray] = {}
    truth: FloatArray = np.zeros(0)
    for side, release in WINDOWS.items():
        trial = Trial.of(release, ALPHABET, symbols, rho)
        kept[side] = trial.repeat(window_answers, settings.runs, f"actcal: window, {side}, rho {rho}")
        asked = [trial.truth(query, period) for query in ASKED.queries.values() for period in ASKED.periods]
        truth = np.concatenate([trial.true_bins.ravel(), asked])
    cells = len(truth) - len(ASKED.queries) * len(ASKED.periods)
    made = [Comparison(rho, "all bins", kept["paper"][:, :cells], kept["ours"][:, :cells], truth[:cells])]
    for place, question in enumerate(ASKED.queries):
        part = slice(cells + place * len(ASKED.periods), cells + (place + 1) * len(ASKED.periods))
        made.append(Comparison(rho, question, kept["paper"][:, part], kept["ours"][:, part], truth[part], ASKED.periods))
    return made


def _cumulative(settings: Settings, symbols: Symbols, rho: float) -> list[Comparison]:
    kept: dict[str, FloatArray] = {}
    truth: FloatArray = np.zeros((0, 0))
    for side, release in CUMULATIVES.items():
        trial = Trial.of(release, ALPHABET, symbols, rho)
        kept[side] = trial.repeat(sums, settings.runs, f"actcal: cumulative, {side}, rho {rho}")
        truth = trial.true_sums
    paper, ours = kept["paper"], kept["ours"]
    now, ever = np.tril_indices(len(truth))
    everything = Comparison(
        rho, "no work in at least b months, all b", paper[:, now, ever], ours[:, now, ever], truth[now, ever]
    )
    made = [everything]
    for b in MONTHS_OUT:
        question, periods, at = f"no work in at least {b} months so far", tuple(range(b, len(truth) + 1)), b - 1
        made.append(Comparison(rho, question, paper[:, at:, at], ours[:, at:, at], truth[at:, at], periods))
    return made


def _density(comparison: Comparison) -> Densities:
    answers = {"paper": comparison.paper, "ours": comparison.ours}
    return Densities(comparison.question, list(map(str, comparison.places)), answers, comparison.truth)


def _draw(settings: Settings, questions: list[Densities], people: int) -> None:
    figure, grid = new_figure(10, 8.2, 3, 2, f"actcal, rho = {SHOWN} (n = {people})")
    for axes, question in zip(grid, questions, strict=True):
        draw_densities(axes, question, (PAPER, OURS))
        axes.set_xlabel("month")
    legend(figure, {"the paper": PAPER, "ours": OURS}, "truth")
    caption = (
        f"Densities of the released answers over {settings.runs} repetitions, replace-one. The paper: histogram (k = {K}); "
        "tree, cubic in the last row. Ours: contrast; sqrt, equal-max. The first four questions look at the last two months."
    )
    save(figure, settings.out / "actcal.png", caption)
