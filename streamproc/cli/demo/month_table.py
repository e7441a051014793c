"""The demo's table: a line of fixed width for each month, with an answer to each question beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from streamproc.cli.demo.simulated_people import QUESTIONS
from streamproc.panel import Answer
from streamproc.privacy.types import Period, Rho

_WIDTH = 80
_GAP = "  "
_ANSWER_WIDTH = 25
_BUDGET_BAR = 5


@dataclass(frozen=True)
class AnswerVsTruth:
    """An answer beside the truth."""

    truth: float
    answer: Answer

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.answer.low <= self.truth <= self.answer.high


@dataclass(frozen=True)
class Month:
    """A month that was released."""

    period: Period
    reports: int
    answers: Sequence[AnswerVsTruth]
    """To each question; empty before they can be asked."""
    spent: Rho


@dataclass(frozen=True)
class BarStyle:
    """What lines and bars are drawn with."""

    full: str
    empty: str
    rule: str
    arrow: str

    def bar(self, share: float, width: int) -> Text:
        """So many characters, that share of them full."""
        full = round(share * width)
        return Text.assemble((self.full * full, "cyan"), (self.empty * (width - full), "dim"))


BLOCKS, ASCII = BarStyle("█", "░", "─", "▸"), BarStyle("#", ".", "-", ">")


def headings(signs: BarStyle) -> Text:
    """What stands above the months."""
    first, second = zip(*(question.heading for question in QUESTIONS), strict=True)
    figures = ["truth answer 95% interval"] * len(QUESTIONS)
    lines = [("", "", *first, "privacy"), ("", "", *second, "budget"), ("month", "reports", *figures, "left")]
    return Text.assemble(*((f"{_heading(*line)}\n", "bold") for line in lines), (signs.rule * _WIDTH, "dim"))


def month_line(month: Month, left: float, signs: BarStyle) -> Text:
    """A month; `left` is the share of the budget that is not spent."""
    answers = [_beside(beside) for beside in month.answers] or [_unanswerable()] * len(QUESTIONS)
    budget = Text.assemble(signs.bar(left, _BUDGET_BAR), f"{max(left, 0):5.0%}")
    return Text(_GAP).join([Text(f"{month.period:5}"), Text(f"{month.reports:7,}"), *answers, budget])


def _heading(month: str, reports: str, *others: str) -> str:
    *questions, budget = others
    return _GAP.join([f"{month:>5}", f"{reports:>7}", *(f"{name:{_ANSWER_WIDTH}}" for name in questions), budget])


def _beside(shown: AnswerVsTruth) -> Text:
    # A share lies between 0 and 100%, so what lies beyond is not worth showing.
    value, low, high = (min(max(end, 0.0), 1.0) for end in (shown.answer.value, shown.answer.low, shown.answer.high))
    return Text.assemble(
        (f"{100 * shown.truth:5.1f}", "dim"),
        (f"{100 * value:7.1f}", "bold"),
        (f" {100 * low:5.1f}-{100 * high:<6.1f}", "green" if shown.covered else "yellow"),
    )


def _unanswerable() -> Text:
    return Text(f"{'-':>5}{'':{_ANSWER_WIDTH - 5}}", style="dim")
