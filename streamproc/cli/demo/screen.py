"""What the demo prints: a line for each released month and, on a terminal, the progress of the current month below them.

A line has a fixed width. It has the answer to each question, and the true value beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from streamproc.cli.demo.simulated_study import QUESTIONS
from streamproc.cli.formatting import format_delta, format_epsilon, format_people, format_rounded_up
from streamproc.panel import Answer
from streamproc.privacy.types import Period, Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.study import Study

_WIDTH = 80
_GAP = "  "
_ANSWER_WIDTH = 25
_BUDGET_BAR = 5
_REPORTS_BAR = 28
"""Width in characters of the bar of a month's reports."""


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


class Screen:
    """Prints the demo. On a terminal it also updates the progress of the current month in place.

    Use it as a context manager around the months: entering prints the table's heading.
    """

    def __init__(self, study: Study) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self.months: list[Month] = []
        self._study = study
        self._style = ASCII if self._console.options.ascii_only else BLOCKS
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if self.is_terminal else None
        self._expected = self._sent = self._gathered = self._tallied = 0
        self._closed = False

    @property
    def is_terminal(self) -> bool:
        """Whether standard output is a terminal."""
        return self._console.is_terminal

    def print_line(self, line: str) -> None:
        """Print a line without wrapping it, so that addresses and paths in it can be copied."""
        self._console.print(line, soft_wrap=True)

    def introduce(self, people: int, *, seeded: bool) -> None:
        """Print what the demo does."""
        privacy, horizon = self._study.privacy, self._study.last_period
        cost = f"rho {format_rounded_up(privacy.budget)}, which is {self._epsilon_at_delta(privacy.budget)}"
        noise = (
            "The noise comes from a seed: the run can be repeated, and protects nobody."
            if seeded
            else "The noise is fresh from the operating system: every run is different."
        )
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
            f"not report counts as in the month before. {noise}\n",
            style="dim",
        )

    def conclude(self) -> None:
        """Print what the year cost, and how many intervals contain the true value."""
        privacy, spent = self._study.privacy, self.months[-1].spent
        answers = [answer for month in self.months for answer in month.answers]
        covered = sum(answer.covered for answer in answers)
        reports, columns = sum(month.reports for month in self.months), len(self.months) * len(self._study.releases)
        self._console.print(
            f"\n{reports:,} reports became {columns} columns of synthetic people. The year cost rho "
            f"{format_rounded_up(spent)} of {format_rounded_up(privacy.budget)}: {self._epsilon_at_delta(spent)} "
            f"({privacy.adjacency.value})."
        )
        self._console.print(
            f"\n{covered} of {len(answers)} intervals hold the truth. Each does with a chance of 95%, so over many runs 19 "
            "of 20 do. One run may have fewer: months share noise, so the misses of a run come together."
        )

    def suggest(self, commands: Sequence[tuple[str, str]]) -> None:
        """Print commands to try, each below its purpose."""
        self._console.print("\nTry next", style="bold")
        for purpose, command in commands:
            self._console.print(f"  # {purpose}", style="dim")
            self._console.print(f"  {command}", style="cyan", soft_wrap=True)

    def __enter__(self) -> Self:
        self._print_row(headings(self._style))
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def begin_month(self, expected: int) -> None:
        """Show a new month, in which `expected` people will report."""
        self._expected, self._sent, self._gathered, self._tallied, self._closed = expected, 0, 0, 0, False
        self._update()

    def add_sent(self, reports: int) -> None:
        """Count reports that the log has acknowledged."""
        self._sent += reports
        self._update()

    def add_gathered(self, reports: int) -> None:
        """Count reports that a gatherer has read."""
        self._gathered += reports
        self._update()

    def mark_closed(self) -> None:
        """Show that the month is closed."""
        self._closed = True
        self._update()

    def add_tally(self) -> None:
        """Count the tally of one more partition."""
        self._tallied += 1
        self._update()

    def add_month(self, month: Month) -> None:
        """Print the line of a released month."""
        self.months.append(month)
        self._print_row(month_line(month, 1 - month.spent / self._study.privacy.budget, self._style))

    def _epsilon_at_delta(self, rho: Rho) -> str:
        delta = self._study.privacy.delta
        return f"epsilon {format_epsilon(epsilon_of_rho(rho, delta))} at delta {format_delta(delta)}"

    def _print_row(self, line: Text) -> None:
        # The row has a fixed width. A narrow terminal breaks it at its own width; Rich would break it between words.
        self._console.print(line, soft_wrap=True)

    def _update(self) -> None:
        if self._live is not None:
            self._live.update(self._progress(), refresh=True)

    def _progress(self) -> Group:
        partitions = self._study.broker.partitions
        stages = [
            (f"{self._gathered:,} gathered", self._gathered >= self._expected),
            ("month closed", self._closed),
            (f"tallied {self._tallied} of {partitions}", self._tallied == partitions),
            ("released", False),
        ]
        arrow = f" {self._style.arrow} "
        label = f"{len(self.months) + 1:5}  "
        return Group(
            Text.assemble(
                (label, "bold"),
                self._style.bar(self._sent / max(self._expected, 1), _REPORTS_BAR),
                f" {self._sent:,} of {self._expected:,} reports sent",
            ),
            Text(" " * len(label)) + Text(arrow).join(Text(name, "green" if done else "dim") for name, done in stages),
        )


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
