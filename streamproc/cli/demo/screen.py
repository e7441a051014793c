"""How the demo looks: a row for each month that was released and, on a terminal, the month under way below them."""

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
"""Characters in the bar of a month's reports."""


class Screen:
    """Told what happens, shows it. On no terminal it only ever adds lines."""

    def __init__(self, study: Study) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self.months: list[Month] = []
        self._study = study
        self._signs = ASCII if self._console.options.ascii_only else BLOCKS
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if self.watched else None
        self._due = self._sent = self._gathered = self._tallied = 0
        self._closed = False

    @property
    def watched(self) -> bool:
        """Whether somebody is looking on."""
        return self._console.is_terminal

    def say(self, line: str) -> None:
        """A line by itself; it is not cut, since what it names may be copied."""
        self._console.print(line, soft_wrap=True)

    def introduce(self, people: int, *, seeded: bool) -> None:
        """What is about to happen, for somebody who has never seen it."""
        privacy, horizon = self._study.privacy, self._study.horizon
        cost = f"rho {format_rounded_up(privacy.budget)}, which is {self._epsilon_at_delta(privacy.budget)}"
        noise = (
            "The noise comes from a seed: the run can be repeated, and would protect nobody."
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
            "These people are simulated, so the truth may be shown beside the published answers. Who forgets to report is "
            f"taken to be as the month before. {noise}\n",
            style="dim",
        )

    def conclude(self) -> None:
        """What it cost, and how good it was."""
        privacy, spent = self._study.privacy, self.months[-1].spent
        shown = [beside for month in self.months for beside in month.answers]
        covered = sum(beside.covered for beside in shown)
        reports, columns = sum(month.reports for month in self.months), len(self.months) * len(self._study.releases)
        self._console.print(
            f"\n{reports:,} reports became {columns} columns of synthetic people. The year cost rho "
            f"{format_rounded_up(spent)} of {format_rounded_up(privacy.budget)}: {self._epsilon_at_delta(spent)} "
            f"({privacy.adjacency.value})."
        )
        self._console.print(
            f"\n{covered} of {len(shown)} intervals hold the truth. Each does with a chance of 95%, so over many runs 19 of "
            "20 do. One run may have fewer: months share noise, so the misses of a run come together."
        )

    def suggest(self, commands: Sequence[tuple[str, str]]) -> None:
        """Commands to try, each with its purpose."""
        self._console.print("\nTry next", style="bold")
        for purpose, command in commands:
            self._console.print(f"  # {purpose}", style="dim")
            self._console.print(f"  {command}", style="cyan", soft_wrap=True)

    def __enter__(self) -> Self:
        self._add(headings(self._signs))
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def opened(self, due: int) -> None:
        """A month begins, of which so many people will report."""
        self._due, self._sent, self._gathered, self._tallied, self._closed = due, 0, 0, 0, False
        self._show()

    def sent(self, reports: int) -> None:
        """So many more reports are acknowledged."""
        self._sent += reports
        self._show()

    def gathered(self, reports: int) -> None:
        """So many more were read by a gatherer."""
        self._gathered += reports
        self._show()

    def closed(self) -> None:
        """The steward has closed the month."""
        self._closed = True
        self._show()

    def tallied(self) -> None:
        """One more partition has its tally."""
        self._tallied += 1
        self._show()

    def released(self, month: Month) -> None:
        """An analyst has the columns."""
        self.months.append(month)
        self._add(month_line(month, 1 - month.spent / self._study.privacy.budget, self._signs))

    def _epsilon_at_delta(self, rho: Rho) -> str:
        delta = self._study.privacy.delta
        return f"epsilon {format_epsilon(epsilon_of_rho(rho, delta))} at delta {format_delta(delta)}"

    def _add(self, line: Text) -> None:
        # Of fixed width: a narrow terminal may break it where it ends, not between words.
        self._console.print(line, soft_wrap=True)

    def _show(self) -> None:
        if self._live is not None:
            self._live.update(self._under_way(), refresh=True)

    def _under_way(self) -> Group:
        partitions = self._study.broker.partitions
        stages = [
            (f"{self._gathered:,} gathered", self._gathered >= self._due),
            ("month closed", self._closed),
            (f"tallied {self._tallied} of {partitions}", self._tallied == partitions),
            ("released", False),
        ]
        arrow = f" {self._signs.arrow} "
        label = f"{len(self.months) + 1:5}  "
        return Group(
            Text.assemble(
                (label, "bold"),
                self._signs.bar(self._sent / max(self._due, 1), _REPORTS_BAR),
                f" {self._sent:,} of {self._due:,} reports sent",
            ),
            Text(" " * len(label)) + Text(arrow).join(Text(name, "green" if done else "dim") for name, done in stages),
        )
