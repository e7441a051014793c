"""What every demo prints: lines of released months and, on a terminal, the progress of the current month below them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from streamproc.cli.formatting import format_delta, format_epsilon
from streamproc.privacy.types import Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.study import Study

WIDTH = 80
GAP = "  "
ANSWER_WIDTH = 25
_REPORTS_BAR = 28
"""Width in characters of the bar of a month's reports."""


class Estimate(Protocol):
    """A published value and its 95% interval."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


@dataclass(frozen=True)
class AnswerVsTruth:
    """An answer and the true value."""

    truth: float
    answer: Estimate

    @property
    def covered(self) -> bool:
        """Whether the 95% interval contains the true value."""
        return self.answer.low <= self.truth <= self.answer.high


class ReleasedMonth(Protocol):
    """A released month, as far as every demo knows it."""

    @property
    def reports(self) -> int:
        """Number of reports that were sent for it."""
        ...

    @property
    def spent(self) -> Rho:
        """The total cost so far."""
        ...


AnyMonth = TypeVar("AnyMonth", bound=ReleasedMonth)


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


class ProgressScreen(ABC, Generic[AnyMonth]):
    """Prints a demo. On a terminal it also updates the progress of the current month in place.

    Use it as a context manager around the months: entering prints the table's heading.
    """

    def __init__(self, study: Study) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self.months: list[AnyMonth] = []
        self._study = study
        self._style = ASCII if self._console.options.ascii_only else BLOCKS
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if self.is_terminal else None
        self._expected = self._sent = self._gathered = self._tallied = 0
        self._closed = False

    @abstractmethod
    def introduce(self, people: int, *, seeded: bool) -> None:
        """Print what the demo does."""

    @abstractmethod
    def conclude(self) -> None:
        """Print what the months cost, and how good the answers were."""

    @abstractmethod
    def headings(self) -> Text:
        """Return the heading of the table."""

    @abstractmethod
    def line_of(self, month: AnyMonth) -> Text:
        """Return the line of a month."""

    @property
    def is_terminal(self) -> bool:
        """Whether standard output is a terminal."""
        return self._console.is_terminal

    def print_line(self, line: str) -> None:
        """Print a line without wrapping it, so that addresses and paths in it can be copied."""
        self._console.print(line, soft_wrap=True)

    def suggest(self, commands: Sequence[tuple[str, str]]) -> None:
        """Print commands to try, each below its purpose."""
        self._console.print("\nTry next", style="bold")
        for purpose, command in commands:
            self._console.print(f"  # {purpose}", style="dim")
            self._console.print(f"  {command}", style="cyan", soft_wrap=True)

    def print_coverage(self, answers: Sequence[AnswerVsTruth]) -> None:
        """Print how many of the intervals contain the true value."""
        covered = sum(answer.covered for answer in answers)
        self._console.print(
            f"\n{covered} of {len(answers)} intervals hold the truth. Each does with a chance of 95%, so over many runs 19 "
            "of 20 do. One run may have fewer: months share noise, so the misses of a run come together."
        )

    def __enter__(self) -> Self:
        self._print_row(self.headings())
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

    def add_month(self, month: AnyMonth) -> None:
        """Print the line of a released month."""
        self.months.append(month)
        self._print_row(self.line_of(month))

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


def origin_of_noise(*, seeded: bool) -> str:
    """Return a sentence about whether the run can be repeated."""
    if seeded:
        return "The noise comes from a seed: the run can be repeated, and protects nobody."
    return "The noise is fresh from the operating system: every run is different."


def share_cell(compared: AnswerVsTruth) -> Text:
    """Return the true share, the answer and its interval, in percent."""
    # A share is between 0 and 100%, so the interval is shown within these bounds.
    answer = compared.answer
    value, low, high = (min(max(share, 0.0), 1.0) for share in (answer.value, answer.low, answer.high))
    return Text.assemble(
        (f"{100 * compared.truth:5.1f}", "dim"),
        (f"{100 * value:7.1f}", "bold"),
        (f" {100 * low:5.1f}-{100 * high:<6.1f}", "green" if compared.covered else "yellow"),
    )


def people_cell(compared: AnswerVsTruth) -> Text:
    """Return the true number of people, the answer and its interval."""
    answer = compared.answer
    interval = f"{max(answer.low, 0.0):,.0f}-{answer.high:,.0f}"
    return Text.assemble(
        (f"{compared.truth:6,.0f}", "dim"),
        (f"{answer.value:7,.0f}", "bold"),
        (f" {interval:<11}", "green" if compared.covered else "yellow"),
    )


def no_answer() -> Text:
    """Return a cell for a question that cannot be answered yet."""
    return Text(f"{'-':>5}{'':{ANSWER_WIDTH - 5}}", style="dim")
