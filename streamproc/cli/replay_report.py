"""What `replay` shows a person at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path

from rich.console import Console
from rich.table import Table

from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.replay.errors_table import LEVEL
from streamproc.replay.examine import Score
from streamproc.replay.summary import Summary

_PIPED_WIDTH = 120


def show_report(summary: Summary, written: Sequence[Path], scores: Mapping[str, Score] | None, errors: Path) -> None:
    """The cost and size of each release, how accurate it was if `scores` says, and where the files are."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPED_WIDTH)
    periods = max(release["periods"][-1]["period"] for release in summary["releases"].values())
    console.print(f"Study [bold]{summary['study']}[/]: {summary['n']} people, {periods} periods")
    console.print(_table(summary, scores))
    console.print(
        f"Together: rho {rounded_up(summary['rho_spent'])} of {rounded_up(summary['rho'])}, "
        f"which is epsilon {rounded_up(summary['epsilon'])} at delta {summary['delta']:g}, "
        f"for a person's whole history under {summary['adjacency']}."
    )
    if summary["insecure"]:
        console.print("[bold red]Insecure[/]: the noise came from a seed. Never publish this about real people.")
    for path in written:
        console.print("wrote", str(path), soft_wrap=True, markup=False)
    if scores is not None:
        console.print("wrote", str(errors), "(private: it holds the truth)", soft_wrap=True, markup=False)


def _table(summary: Summary, scores: Mapping[str, Score] | None) -> Table:
    table = Table()
    table.add_column("release", overflow="fold")
    table.add_column("kind")
    for title in ("synthetic people\nn*", "padding per bin\nn_pad", "rho\nspent", f"epsilon at\n{summary['delta']:g}"):
        table.add_column(title, justify="right")
    table.add_column("counts\nclamped", justify="right")
    if scores is not None:
        table.add_column("RMS error\nof a share", justify="right")
        table.add_column(f"{LEVEL:.0%} intervals\nthat hold", justify="right")
    for name, release in summary["releases"].items():
        measured = () if scores is None else (f"{scores[name].rms_error:.3%}", f"{scores[name].coverage:.1%}")
        table.add_row(
            name,
            release["kind"],
            str(release["n_star"]),
            str(release["n_pad"]),
            rounded_up(release["rho_spent"]),
            rounded_up(epsilon_of_rho(release["rho_spent"], summary["delta"])),
            str(release["clamped"]),
            *measured,
        )
    return table


def rounded_up(cost: float, digits: int = 4) -> str:
    """A cost to so many significant digits, never shown smaller than it is."""
    return f"{Decimal(repr(cost)).normalize(Context(prec=digits, rounding=ROUND_CEILING)):f}"
