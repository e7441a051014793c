"""A poverty panel: the paper's four quarterly questions, and "poor in at least 3 months so far", at three budgets."""

from __future__ import annotations

import numpy as np

from experiments import panels
from experiments.answers import Questions, sums
from experiments.figures import BUDGETS, Densities, draw_densities, legend, new_figure, save
from experiments.report import Cell, Settings, percent
from experiments.summaries import root_mean_square
from experiments.trials import Symbols, Trial
from streamproc.privacy.types import FloatArray
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.study import CumulativeRelease, WindowRelease

RHOS = (0.001, 0.005, 0.05)
DELTA = 1e-6
QUARTERS = (3, 6, 9, 12)
MONTHS_POOR = 3


def run(settings: Settings) -> None:
    """The experiment on the simulated panel."""
    report(settings, panels.poverty(), "poverty", "simulated poverty panel")


def report(settings: Settings, symbols: Symbols, name: str, what: str) -> None:
    """`NAME.csv` and `NAME.png`, `NAME-cumulative.png`: on any panel of 12 months of 0 and 1."""
    people = len(symbols)
    questions = [*_quarterly(settings, symbols, what), _months(settings, symbols, what)]
    settings.csv(
        f"{name}.csv", ("question", "period", "rho", "truth", "mean", "median", "low", "high", "rmse"), _rows(questions)
    )
    shown = [(question.title, *_errors(question)) for question in questions]
    columns = ("question", "truth at 12, %", *(f"RMSE at rho {rho}" for rho in RHOS))
    note = f"RMSE in % of people, over all periods; {settings.runs} repetitions. {_meaning()}"
    settings.show(f"Poor in ... (n={people}, {what})", columns, shown, note)
    _draw(settings, questions, name, what, people)


def _quarterly(settings: Settings, symbols: Symbols, what: str) -> list[Densities]:
    ask = Questions("quarterly", QUARTERS)
    answers: dict[str, FloatArray] = {}
    truth: FloatArray = np.zeros(0)
    for rho in RHOS:
        trial = Trial.of(WindowRelease("quarterly", 3), "01", symbols, rho)
        answers[f"rho {rho}"] = trial.repeat(ask, settings.runs, f"{what}: quarterly, rho {rho}")
        truth = np.array([[trial.truth(query, period) for period in QUARTERS] for query in ask.queries.values()])
    places = [f"months {quarter - 2}–{quarter}" for quarter in QUARTERS]
    return [
        Densities(question, places, {series: kept[:, place] for series, kept in answers.items()}, truth[place])
        for place, question in enumerate(ask.queries)
    ]


def _months(settings: Settings, symbols: Symbols, what: str) -> Densities:
    answers: dict[str, FloatArray] = {}
    truth: FloatArray = np.zeros(0)
    for rho in RHOS:
        trial = Trial.of(CumulativeRelease("months", ("1",)), "01", symbols, rho)
        kept = trial.repeat(sums, settings.runs, f"{what}: months poor, rho {rho}")
        answers[f"rho {rho}"] = kept[:, MONTHS_POOR - 1 :, MONTHS_POOR - 1]
        truth = trial.true_sums[MONTHS_POOR - 1 :, MONTHS_POOR - 1]
    places = [str(period) for period in range(MONTHS_POOR, symbols.shape[1] + 1)]
    return Densities(f"at least {MONTHS_POOR} months so far", places, answers, truth)


def _rows(questions: list[Densities]) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for question in questions:
        for rho, kept in zip(RHOS, question.answers.values(), strict=True):
            for place, label in enumerate(question.places):
                low, median, high = map(float, np.percentile(kept[:, place], [2.5, 50, 97.5]))
                period = int(label.split("–")[-1])
                truth = float(question.truth[place])
                rmse = root_mean_square(kept[:, place], question.truth[place])
                rows.append((question.title, period, rho, truth, float(kept[:, place].mean()), median, low, high, rmse))
    return rows


def _errors(question: Densities) -> list[str]:
    return [percent(question.truth[-1]), *(percent(root_mean_square(k, question.truth)) for k in question.answers.values())]


def _meaning() -> str:
    return "; ".join(f"rho {rho} is epsilon {epsilon_of_rho(rho, DELTA):.3f}" for rho in RHOS) + f" at delta {DELTA:g}."


def _draw(settings: Settings, questions: list[Densities], name: str, what: str, people: int) -> None:
    series = dict(zip(questions[0].answers, BUDGETS, strict=True))
    figure, grid = new_figure(10, 6.4, 2, 2, f"Poor in ... of the quarter ({what}, n = {people})")
    for axes, question in zip(grid, questions[:-1], strict=True):
        draw_densities(axes, question, BUDGETS)
    legend(figure, series, "truth")
    repeated = f"Densities of the released answers over {settings.runs} repetitions; replace-one, {_meaning()}"
    save(figure, settings.out / f"{name}.png", f"{repeated} Window release, k = 3, contrast; debiased.")
    figure, grid = new_figure(10, 3.8, 1, 1, f"Poor in at least {MONTHS_POOR} months so far ({what}, n = {people})")
    draw_densities(grid[0], questions[-1], BUDGETS)
    grid[0].set_title("", loc="left")
    grid[0].set_xlabel("month")
    legend(figure, series, "truth")
    save(figure, settings.out / f"{name}-cumulative.png", f"{repeated} Cumulative release, sqrt, equal-max.")
