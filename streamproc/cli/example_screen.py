"""How the built-in example looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from streamproc.cli.figures import rounded_up
from streamproc.panel import Answer
from streamproc.privacy.quantities import Period, Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.replay.summary import Summary
from streamproc.study import Study

_BAR = 7
"""Characters in the bar of what is left of the budget."""


@dataclass(frozen=True)
class Beside:
    """An answer beside the truth."""

    truth: float
    answer: Answer

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.answer.low <= self.truth <= self.answer.high


@dataclass(frozen=True)
class Month:
    """What the example shows of one month."""

    period: Period
    lately: Beside | None
    """Poor in one of the last three months; None before there are three."""
    often: Beside | None
    """Poor in three months so far; None before there are three."""
    spent: Rho


def introduction(study: Study, people: int) -> Group:
    """What is about to happen, for somebody who has never seen it."""
    privacy = study.privacy
    cost = f"rho {rounded_up(privacy.budget)}, which is epsilon {_epsilon(privacy.budget, privacy.delta)}"
    return Group(
        Text("streamproc: a year-long survey, published every month as synthetic people\n", style="bold"),
        Text(
            f"{people:,} people report every month whether they are poor. What is published is a panel of synthetic people "
            f"that grows by a column a month; a published column never changes. The whole history of each real person is "
            f"protected: all {study.horizon} months together cost {cost} at delta {privacy.delta:g}, where one person's "
            f"history may be replaced by any other ({privacy.adjacency.value})."
        ),
        Text(
            "\nThese people are simulated, so the truth may be shown beside the published answers. The noise is fresh from "
            "the operating system: every run is different.\n",
            style="dim",
        ),
    )


def months_table(months: Sequence[Month], study: Study) -> Table:
    """The months so far, one a row; 80 columns wide."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    columns = "truth  answer  95% interval"
    table.add_column("\n\nmonth", justify="right")
    table.add_column(f"% poor in one or more\nof the last three months\n{columns}", no_wrap=True)
    table.add_column(f"% poor in three or more\nmonths so far\n{columns}", no_wrap=True)
    table.add_column("privacy\nbudget\nleft", no_wrap=True)
    for month in months:
        left = 1 - month.spent / study.privacy.budget
        table.add_row(str(month.period), _beside(month.lately), _beside(month.often), _bar(left))
    return table


def _beside(shown: Beside | None) -> Text:
    if shown is None:
        return Text("    -", style="dim")
    truth, value, low, high = (
        100 * share for share in (shown.truth, shown.answer.value, shown.answer.low, shown.answer.high)
    )
    return Text.assemble(
        (f"{truth:5.1f}", "dim"),
        (f"{value:8.1f}", "bold"),
        (f"  {low:4.1f} to {high:4.1f}", "green" if shown.covered else "yellow"),
    )


def _bar(left: float) -> Text:
    full = round(left * _BAR)
    return Text.assemble(("█" * full, "cyan"), ("░" * (_BAR - full), "dim"), f" {max(left, 0):4.0%}")


def farewell(summary: Summary, months: Sequence[Month], folder: Path) -> Group:
    """What it cost, and where the files are."""
    shown = [beside for month in months for beside in (month.lately, month.often) if beside is not None]
    covered = sum(beside.covered for beside in shown)
    cost = (
        f"\nThe year cost rho {rounded_up(summary['rho_spent'])} of {rounded_up(summary['rho'])}: epsilon "
        f"{_epsilon(summary['rho_spent'], summary['delta'])} at delta {summary['delta']:g} ({summary['adjacency']}). "
        f"{covered} of {len(shown)} intervals hold the truth; 95% should.\n"
    )
    files = Table.grid(padding=(0, 2))
    for name, release in summary["releases"].items():
        files.add_row(f"  released/{name}.csv", f"{release['n_star']:,} synthetic people, padding included")
    files.add_row("  released/summary.json", "what was published and what it cost")
    files.add_row("  study.toml, panel.csv", "what it was made from")
    return Group(Text(cost), Text(f"Files in {folder}", style="bold"), files, Text("\nTry next", style="bold"))


def _epsilon(rho: float, delta: float) -> str:
    return rounded_up(epsilon_of_rho(rho, delta), digits=3)
