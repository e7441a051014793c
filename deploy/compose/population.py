"""A population to look at: simulated people who report in every period, and a steward who closes it when its time is over.

`python population.py STUDY`: begins after what is released, so it may be stopped and started at any time. PERIOD_SECONDS is
how long a period lasts. The people are the same ones each time; what differs from one study to the next is the noise.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from streamproc import Study

PANEL = Path("/tmp/panel.csv")
PEOPLE = 1000
"""If the study does not say."""
USUAL = 0.8
"""Chance of the alphabet's first symbol."""
STAYS = 0.85
"""Chance that a person is as in the period before, without drawing lots again."""
FORGETS = 0.03
"""Chance that a person does not report in a period after the first."""


def write_panel(study: Study) -> None:
    """What everybody will report."""
    rng = np.random.default_rng(2024)
    people = study.population.size or PEOPLE
    others = len(study.alphabet) - 1
    chances = [USUAL, *[(1 - USUAL) / others] * others]
    symbols = rng.choice(np.array(study.alphabet, dtype=object), size=(people, study.horizon), p=chances)
    for period in range(1, study.horizon):
        same = rng.random(len(symbols)) < STAYS
        symbols[same, period] = symbols[same, period - 1]
    silent = rng.random(symbols.shape) < FORGETS
    silent[:, 0] = False
    symbols[silent] = ""
    with PANEL.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["individual", *range(1, study.horizon + 1)])
        writer.writerows([f"person-{row}", *history] for row, history in enumerate(symbols.tolist(), start=1))


def command(*arguments: object) -> str:
    """`streamproc ARGUMENTS...` to its good end; what it printed."""
    done = subprocess.run(["streamproc", *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def main() -> None:
    """From the first period that is not released to the last."""
    # As process 1 of a container it would not even hear of the signal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    file, seconds = Path(sys.argv[1]), float(os.environ["PERIOD_SECONDS"])
    study = Study.load(file)
    write_panel(study)
    for period in range(json.loads(command("status", file, "--json"))["released"] + 1, study.horizon + 1):
        print(command("send", file, PANEL, "--period", period), end="", flush=True)
        time.sleep(seconds)
        print(command("close", file, "--period", period, "--wait"), end="", flush=True)
    print("every period is released", flush=True)


if __name__ == "__main__":
    main()
