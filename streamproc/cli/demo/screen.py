"""What `demo` prints: a line for each released month, with the answer to each question and the true value beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from streamproc.cli.demo.progress import (
    ANSWER_WIDTH,
    GAP,
    WIDTH,
    AnswerVsTruth,
    BarStyle,
    ProgressScreen,
    no_answer,
    origin_of_noise,
    share_cell,
)
from streamproc.cli.demo.simulated_study import QUESTIONS
from streamproc.cli.formatting import format_people, format_rounded_up
from streamproc.privacy.types import Period, Rho

_BUDGET_BAR = 5


@dataclass(frozen=True)
class Month:
    """A released month."""

    period: Period
    reports: int
    answers: Sequence[AnswerVsTruth]
    """An answer to each question; empty for months in which the questions cannot be asked yet."""
    spent: Rho
    """The total cost so far."""


class Screen(ProgressScreen[Month]):
    """Prints the demo of a year. A line has a fixed width."""

    def introduce(self, people: int, *, seeded: bool) -> None:
        """Print what the demo does."""
        privacy, horizon = self._study.privacy, self._study.horizon
        cost = f"rho {format_rounded_up(privacy.budget)}, which is {self._epsilon_at_delta(privacy.budget)}"
        self._console.print("streamproc: a year-long survey, published every month as synthetic people\n", style="bold")
        self._console.print(
            f"{format_people(people)} {'reports' if people == 1 else 'report'} every month whether they are poor. "
            "When a month is closed, gatherers tally it, and a "
            f"panel of synthetic people grows by a column that never changes again. The whole history of each real person "
            f"is protected: all {horizon} months together cost {cost}, where one person's history "
            f"may be replaced by any other ({privacy.adjacency.value}).\n"
        )
        self._console.print(
            "These people are simulated, so the true values may be shown beside the published answers. A person who does "
            f"not report counts as in the month before. {origin_of_noise(seeded=seeded)}\n",
            style="dim",
        )

    def conclude(self) -> None:
        """Print what the year cost, and how many intervals contain the true value."""
        privacy, spent = self._study.privacy, self.months[-1].spent
        answers = [answer for month in self.months for answer in month.answers]
        reports, columns = sum(month.reports for month in self.months), len(self.months) * len(self._study.releases)
        self._console.print(
            f"\n{reports:,} reports became {columns} columns of synthetic people. The year cost rho "
            f"{format_rounded_up(spent)} of {format_rounded_up(privacy.budget)}: {self._epsilon_at_delta(spent)} "
            f"({privacy.adjacency.value})."
        )
        self.print_coverage(answers)

    def headings(self) -> Text:
        return headings(self._style)

    def line_of(self, month: Month) -> Text:
        return month_line(month, 1 - month.spent / self._study.privacy.budget, self._style)


def headings(style: BarStyle) -> Text:
    """Return the heading of the table."""
    first, second = zip(*(question.heading for question in QUESTIONS), strict=True)
    figures = ["truth answer 95% interval"] * len(QUESTIONS)
    lines = [("", "", *first, "privacy"), ("", "", *second, "budget"), ("month", "reports", *figures, "left")]
    return Text.assemble(*((f"{_heading_line(*line)}\n", "bold") for line in lines), (style.rule * WIDTH, "dim"))


def month_line(month: Month, left: float, style: BarStyle) -> Text:
    """Return the line of a month; `left` is the share of the budget that is not spent."""
    answers = [share_cell(answer) for answer in month.answers] or [no_answer()] * len(QUESTIONS)
    budget = Text.assemble(style.bar(left, _BUDGET_BAR), f"{max(left, 0):5.0%}")
    return Text(GAP).join([Text(f"{month.period:5}"), Text(f"{month.reports:7,}"), *answers, budget])


def _heading_line(month: str, reports: str, *others: str) -> str:
    *questions, budget = others
    return GAP.join([f"{month:>5}", f"{reports:>7}", *(f"{name:{ANSWER_WIDTH}}" for name in questions), budget])
