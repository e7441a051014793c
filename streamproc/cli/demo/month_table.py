"""The demo's table: a line of fixed width for each month, with the answer to each question and the true value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from streamproc.cli.demo.simulated_study import QUESTIONS
from streamproc.panel import Answer
from streamproc.privacy.types import Period, Rho

_WIDTH = 80
_GAP = "  "
_ANSWER_WIDTH = 25
_BUDGET_BAR = 5


@dataclass(frozen=True)
class AnswerVsTruth:
    """An answer and the true value."""

    truth: float
    answer: Answer

    @property
    def covered(self) -> bool:
        """Whether the 95% interval contains the true value."""
        return self.answer.low <= self.truth <= self.answer.high


@dataclass(frozen=True)
class Month:
    """A released month."""

    period: Period
    reports: int
    answers: Sequence[AnswerVsTruth]
    """An answer to each question; empty for months in which the questions cannot be asked yet."""
    spent: Rho
    """The total cost so far."""


@dataclass(frozen=True)
class BarStyle:
    """The characters that lines and bars are drawn with."""

    full: str
    empty: str
    rule: str
    arrow: str

    def bar(self, share: float, width: int) -> Text:
        """Return a bar of `width` characters of which the share `share` is full."""
        full = round(share * width)
        return Text.assemble((self.full * full, "cyan"), (self.empty * (width - full), "dim"))


BLOCKS, ASCII = BarStyle("█", "░", "─", "▸"), BarStyle("#", ".", "-", ">")


def headings(style: BarStyle) -> Text:
    """Return the heading of the table."""
    first, second = zip(*(question.heading for question in QUESTIONS), strict=True)
    figures = ["truth answer 95% interval"] * len(QUESTIONS)
    lines = [("", "", *first, "privacy"), ("", "", *second, "budget"), ("month", "reports", *figures, "left")]
    return Text.assemble(*((f"{_heading_line(*line)}\n", "bold") for line in lines), (style.rule * _WIDTH, "dim"))


def month_line(month: Month, left: float, style: BarStyle) -> Text:
    """Return the line of a month; `left` is the share of the budget that is not spent."""
    answers = [_format_answer(answer) for answer in month.answers] or [_no_answer()] * len(QUESTIONS)
    budget = Text.assemble(style.bar(left, _BUDGET_BAR), f"{max(left, 0):5.0%}")
    return Text(_GAP).join([Text(f"{month.period:5}"), Text(f"{month.reports:7,}"), *answers, budget])


def _heading_line(month: str, reports: str, *others: str) -> str:
    *questions, budget = others
    return _GAP.join([f"{month:>5}", f"{reports:>7}", *(f"{name:{_ANSWER_WIDTH}}" for name in questions), budget])


def _format_answer(compared: AnswerVsTruth) -> Text:
    # A share is between 0 and 100%, so the interval is shown within these bounds.
    answer = compared.answer
    value, low, high = (min(max(share, 0.0), 1.0) for share in (answer.value, answer.low, answer.high))
    return Text.assemble(
        (f"{100 * compared.truth:5.1f}", "dim"),
        (f"{100 * value:7.1f}", "bold"),
        (f" {100 * low:5.1f}-{100 * high:<6.1f}", "green" if compared.covered else "yellow"),
    )


def _no_answer() -> Text:
    return Text(f"{'-':>5}{'':{_ANSWER_WIDTH - 5}}", style="dim")
