"""A built-in example to watch: a year of simulated people, released month by month. `python -m streamproc.cli.example`."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.live import Live

from streamproc.cli.ending import run_to_its_end
from streamproc.cli.example_screen import Beside, Month, farewell, introduction, months_table
from streamproc.panel import AtLeast, Panel, count_of
from streamproc.ports.entropy import SystemEntropy
from streamproc.ports.files import read_panel, read_study, writing
from streamproc.ports.results import results_folder, write_results
from streamproc.privacy.quantities import Period
from streamproc.replay import replay_study, tallies_of
from streamproc.replay.study import Tallies
from streamproc.replay.summary import summary_of
from streamproc.synth.contract import WindowContract, contracts
from streamproc.synth.step import Step
from streamproc.synth.synthesis import Synthesis

PEOPLE = 20_000
MONTHS = 12
SECONDS_A_MONTH = 0.6
"""Slow enough to watch, where somebody is watching."""

STUDY = f"""\
[study]
name = "poverty"
alphabet = ["0", "1"]        # 1: poor this month
horizon = {MONTHS}

[population]
size = {PEOPLE}

[privacy]
rho = 0.005                  # for the whole history of a person

[[release]]
name = "quarterly"           # poor when, within any three months in a row
kind = "window"
k = 3

[[release]]
name = "months-poor"         # poor in how many months so far
kind = "cumulative"
"""

_LATELY = count_of({"1"}, at_least=1, of=3)
_OFTEN = AtLeast(3)


def simulated_poverty(people: int, months: int, seed: int = 2024) -> npt.NDArray[np.uint8]:
    """Who is poor when, (people, months): 12% at first; every month 2% of the others become poor and 15% cease to be."""
    rng = np.random.default_rng(seed)
    poor = np.empty((people, months), dtype=np.uint8)
    poor[:, 0] = rng.random(people) < 0.12
    for month in range(1, months):
        poor[:, month] = rng.random(people) < np.where(poor[:, month - 1] == 1, 0.85, 0.02)
    return poor


@click.command()
@click.option("--out", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Where files go; default: a new one.")
def example(folder: Path | None) -> None:
    """Release a year of simulated people, month by month: what an analyst learns, and what it costs."""
    folder = Path(tempfile.mkdtemp(prefix="streamproc-example-")) if folder is None else folder
    study_path, panel_path, released = folder / "study.toml", folder / "panel.csv", folder / "released"
    results_folder(released, (), inputs=())
    with writing(study_path) as file:
        file.write(STUDY.encode())
    with writing(panel_path) as file:
        file.write(_panel_csv(simulated_poverty(PEOPLE, MONTHS)))
    study = read_study(study_path)
    histories = read_panel(panel_path, study)
    promised = contracts(study, histories.people, insecure=False)
    tallies = tallies_of(study, histories.filled(study))

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(introduction(study, histories.people))
    panels = {name: Panel(contract) for name, contract in promised.items()}
    months: list[Month] = []
    with Live(months_table(months, study), console=console, auto_refresh=False, transient=True) as live:

        def show(period: Period, synthesis: Synthesis, steps: Mapping[str, Step]) -> None:
            for name, step in steps.items():
                panels[name] = panels[name].extended(step)
            months.append(_month(period, panels, tallies, synthesis))
            live.update(months_table(months, study), refresh=console.is_terminal)
            if console.is_terminal:
                time.sleep(SECONDS_A_MONTH)

        replayed = replay_study(study, promised, tallies, SystemEntropy(), show)
    console.print(months_table(months, study))
    summary = summary_of(replayed)
    write_results(released, replayed.panels, summary)
    console.print(farewell(summary, months, folder))
    for purpose, command in _next(study_path, panel_path, folder):
        console.print(f"  {purpose}:")
        # A command is copied from the screen, so it must not be cut into lines.
        console.print(f"    {command}", style="cyan", soft_wrap=True)


def _panel_csv(symbols: npt.NDArray[np.uint8]) -> bytes:
    lines = [f"person-{row},{','.join(map(str, history))}" for row, history in enumerate(symbols.tolist(), start=1)]
    header = ",".join(["individual", *map(str, range(1, symbols.shape[1] + 1))])
    return "\n".join([header, *lines, ""]).encode()


def _month(period: Period, panels: Mapping[str, Panel], tallies: Tallies, synthesis: Synthesis) -> Month:
    if period < 3:
        return Month(period, None, None, synthesis.spent)
    quarterly, often = panels["quarterly"], panels["months-poor"]
    contract = quarterly.contract
    assert isinstance(contract, WindowContract)
    poor_lately = _LATELY.weights(contract, period) @ tallies[period - 1]["quarterly"] / contract.n
    poor_often = sum(int(tally["months-poor"][_OFTEN.b - 1]) for tally in tallies[:period]) / contract.n
    return Month(
        period,
        Beside(float(poor_lately), quarterly.fraction(_LATELY, period)),
        Beside(poor_often, often.fraction(_OFTEN, period)),
        synthesis.spent,
    )


def _next(study: Path, panel: Path, folder: Path) -> list[tuple[str, str]]:
    """What to try next: a purpose, and a command as it can be typed here with this installation."""
    beside_python = Path(sys.executable).with_name("streamproc")
    program = os.path.relpath(beside_python) if beside_python.is_relative_to(Path.cwd()) else str(beside_python)
    replay = [program, "replay", str(study), str(panel), "--out", str(folder / "again"), "--repeat", "100"]
    return [
        ("what the study costs and how accurate it is, known before any data", shlex.join([program, "plan", str(study)])),
        ("release it 100 times over and compare every answer with the truth", shlex.join(replay)),
    ]


if __name__ == "__main__":
    run_to_its_end(example, "python -m streamproc.cli.example")
