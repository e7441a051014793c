"""`python -m bench [NAME...]`: measure, print a table, write `bench/out/bench.json`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from bench import bins, cut_to_column, gathering, gathering_memory, help, memory, plan, repetitions, step
from bench.result import Result

TOPICS: Mapping[str, Callable[[bool], Iterator[Result]]] = {
    "help": help.measure,
    "step": step.measure,
    "bins": bins.measure,
    "memory": memory.measure,
    "plan": plan.measure,
    "repetitions": repetitions.measure,
    "gathering": gathering.measure,
    "gathering-memory": gathering_memory.measure,
    "cut-to-column": cut_to_column.measure,
}
_NUMBERS: Mapping[str, Literal["left", "right"]] = {"measured": "right", "limit": "right", "unit": "left", "": "left"}
OUT = Path(__file__).parent / "out" / "bench.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for. The exit code is 1 only with `--check`, if a limit was exceeded."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure speed and memory: five minutes in all.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(TOPICS)}; all if none is named")
    parser.add_argument("--check", action="store_true", help="end with 1 if a limit is exceeded")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs, not how fast")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help="where to write JSON (%(default)s)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in TOPICS]
    if unknown:
        parser.error(f"no measurement is called {unknown[0]!r}; there are {', '.join(TOPICS)}")

    console = Console()
    results: list[Result] = []
    with console.status("measuring") as status:
        for name in options.names or TOPICS:
            for result in TOPICS[name](options.quick):
                results.append(result)
                status.update(f"measuring {name}: {len(results)} done")
    console.print(_table(results))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(_document(results, options.quick), indent=2) + "\n")
    console.print(f"Written to {options.out}", soft_wrap=True)
    exceeded = [result for result in results if result.within is False]
    return 1 if options.check and exceeded else 0


def _table(results: Sequence[Result]) -> Table:
    ratios = sorted({f"{result.unit} = multiples of {result.ratio_of}" for result in results if result.ratio_of})
    table = Table("measurement", caption="; ".join(ratios))
    for heading, justify in _NUMBERS.items():
        table.add_column(heading, justify=justify, no_wrap=True)
    for result in results:
        limit = "" if result.limit is None else f"{'>=' if result.at_least else '<='} {result.limit:g}"
        missed = "below" if result.at_least else "above"
        verdict = {True: "[green]within[/]", False: f"[red]{missed}[/]", None: ""}[result.within]
        table.add_row(result.name, f"{result.value:.2f}", limit, result.unit, verdict)
    return table


def _document(results: Sequence[Result], quick: bool) -> dict[str, object]:
    machine = {
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    return {"machine": machine, "quick": quick, "results": [result.document() for result in results]}


if __name__ == "__main__":
    sys.exit(main())
