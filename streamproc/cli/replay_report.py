"""What `replay` shows a person at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from streamproc.cli.figures import INSECURE, beside_replace_one, delta_shown, epsilon_shown, rounded_up
from streamproc.cli.tables import add_names, print_table, table_console, titled_table
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.replay.errors_table import LEVEL
from streamproc.replay.examine import Score
from streamproc.replay.summary import Summary


def show_report(summary: Summary, written: Sequence[Path], scores: Mapping[str, Score] | None, errors: Path) -> None:
    """The cost and size of each release, how accurate it was if `scores` says, and where the files are."""
    console = table_console()
    print_table(console, _table(summary, scores))
    console.print(
        f"\nTogether rho {rounded_up(summary['rho_spent'])} of {rounded_up(summary['rho'])}: epsilon "
        f"{epsilon_shown(summary['epsilon'])} at delta {delta_shown(summary['delta'])}, for a person's whole history "
        f"({summary['adjacency']})"
        f"{beside_replace_one(summary.get('rho_spent_replace_one'), summary.get('epsilon_replace_one'))}."
    )
    if summary["insecure"]:
        console.print(Text(INSECURE, style="bold red"))
    if scores is not None:
        console.print("RMS error and coverage are measured against the truth: as private as errors.csv.")
    for path in written:
        console.print(f"wrote {path}", soft_wrap=True)
    if scores is not None:
        console.print(f"wrote {errors} (private)", soft_wrap=True)


def _table(summary: Summary, scores: Mapping[str, Score] | None) -> Table:
    title = f"{summary['study']}: {summary['n']:,} people, {summary['adjacency']}, delta {delta_shown(summary['delta'])}"
    table = titled_table(title)
    add_names(table, "release", summary["releases"])
    zero_out = "rho_replace_one" in summary
    beside = ["rho\nreplace-one", "epsilon\nreplace-one"] if zero_out else []
    headings = ["synthetic\npeople n*", "n_pad\nper bin", "rho\nspent", "epsilon\nspent", *beside, "counts\nclamped"]
    if scores is not None:
        headings += ["RMS error\n% points", f"{LEVEL:.0%} CI\ncovers"]
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, release in summary["releases"].items():
        measured = () if scores is None else (f"{100 * scores[name].rms_error:.3g}", f"{scores[name].coverage:.1%}")
        table.add_row(
            name,
            f"{release['n_star']:,}",
            f"{release['n_pad']:,}",
            *_costs(release["rho_spent"], summary["delta"]),
            *(_costs(release["rho_spent_replace_one"], summary["delta"]) if zero_out else ()),
            f"{release['clamped']:,}",
            *measured,
        )
    return table


def _costs(rho: float, delta: float) -> tuple[str, str]:
    return rounded_up(rho), epsilon_shown(epsilon_of_rho(rho, delta))
