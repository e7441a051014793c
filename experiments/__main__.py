"""`python -m experiments [NAME ...] [--runs N] [--out DIR] [--actcal FILE]`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import click

from experiments.report import Settings
from streamproc.errors import StreamprocError

EXPERIMENTS = ("variances", "constant", "poverty", "actcal", "ratios", "kinds", "coverage")

OUT = Path(__file__).parent / "out"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(EXPERIMENTS))
@click.option("--runs", default=300, show_default=True, type=click.IntRange(1), help="Repetitions of each release.")
@click.option("--out", default=OUT, type=click.Path(path_type=Path), help="Folder for figures and numbers.")
@click.option("--actcal", "panel", type=click.Path(path_type=Path), help="The actcal panel, if PyPI cannot be reached.")
def main(names: tuple[str, ...], runs: int, out: Path, panel: Path | None) -> None:
    """Repeat the paper's experiments: all, or those named."""
    settings = Settings(out, runs, panel)
    failed = False
    for name in names or EXPERIMENTS:
        try:
            # Here and not above: every worker process imports this module, and few need what draws figures.
            import_module(f"experiments.{name}").run(settings)
        except StreamprocError as error:
            failed = True
            click.echo(f"{name}: {error}", err=True)
    sys.exit(2 if failed else 0)


if __name__ == "__main__":
    main()
