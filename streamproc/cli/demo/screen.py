"""What the demo prints: a line for each released month and, on a terminal, the progress of the current month below them."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from streamproc.cli.demo.month_table import ASCII, BLOCKS, Month, headings, month_line
from streamproc.cli.formatting import format_delta, format_epsilon, format_rounded_up
from streamproc.privacy.types import Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.study import Study

_REPORTS_BAR = 28
"""Width in characters of the bar of a month's reports."""


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
        privacy, horizon = self._study.privacy, self._study.horizon
        cost = f"rho {format_rounded_up(privacy.budget)}, which is {self._epsilon_at_delta(privacy.budget)}"
        noise = (
            "The noise comes from a seed: the run can be repeated, and protects nobody."
            if seeded
            else "The noise is fresh from the operating system: every run is different."
        )
        self._console.print("streamproc: a year-long survey, published every month as synthetic people\n", style="bold")
        self._console.print(
            f"{people:,} people report every month whether they are poor. When a month is closed, gatherers tally it, and a "
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
