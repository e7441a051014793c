"""The study under chaos: its file, its people, and what they report, all drawn from a seed."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

ID_MARK, SYMBOL_MARK = "idmark", "symark"
"""Parts of every id and every symbol, by which both are found wherever they should not be."""
ALPHABET = tuple(f"{SYMBOL_MARK}-{name}" for name in ("low", "mid", "high"))
NO_SYMBOL = f"{SYMBOL_MARK}-none"
RELEASES = ("recent", "lately", "ever", "spells", "left")
PATTERN = f"<{ALPHABET[-1]}><{ALPHABET[0]}>"
"""The highest symbol, and then the lowest."""
PATTERN_TABLE = [[0, 0, 1], [2, 0, 1], [2, 2, 2]]
"""Its automaton over the alphabet. State 1 is "the last symbol was the highest", state 2 is "has matched"."""
SILENT = 0.04
"""Share of the reports that never come."""
STRANGERS = 0.01
"""Share of the people who report for the first time in period 2, and so are not in the study."""


@dataclass(frozen=True)
class ChaosStudy:
    """A budget so large that noise hardly matters; entropy is real, so rows fall in random order.

    The noise of `recent`, which is measured as in the paper, is zero but for a chance below 1e-5 at ten periods. That of the
    other releases moves their counts by less than a person, and rounding by a few.
    """

    seed: int
    reports: int
    horizon: int
    partitions: int = 4
    name: str = "chaos"

    def text(self, url: str) -> str:
        """The study file."""
        return f"""\
[study]
name = "{self.name}"
alphabet = {json.dumps(ALPHABET)}
horizon = {self.horizon}

[population]
size = {len(self.people)}

[privacy]
rho = 1000
adjacency = "zero-out"

[[release]]
name = "recent"
kind = "window"
k = 2
measure = "paper"
share = 0.2

[[release]]
name = "lately"
kind = "window"
k = 2

[[release]]
name = "ever"
kind = "cumulative"
event = ["{ALPHABET[-1]}"]
weights = "rule"

[[release]]
name = "spells"
kind = "spell"
length = 2
event = ["{ALPHABET[-1]}"]
weights = "rule"

[[release]]
name = "left"
kind = "pattern"
pattern = "{PATTERN}"
weights = "rule"

[broker]
url = "{url}"
partitions = {self.partitions}
"""

    @property
    def public(self) -> dict[str, Any]:
        """The values of the file, and those that docs/study.md puts where it says nothing, as the ledger must begin with."""
        windows = {"kind": "window", "share": "1/5", "k": 2, "beta": 0.05}
        events = {"share": "1/5", "event": [ALPHABET[-1]], "weights": "rule"}
        left = {"name": "left", "kind": "pattern", "share": "1/5", "pattern": PATTERN, "weights": "rule"}
        rules = {"missing": "carry", "initial": ALPHABET[0], "duplicates": "first"}
        return {
            "name": self.name,
            "alphabet": list(ALPHABET),
            "horizon": self.horizon,
            "population": {"size": len(self.people), **rules},
            "privacy": {"rho": 1000.0, "delta": 1e-6, "adjacency": "zero-out"},
            "releases": [
                windows | {"name": "recent", "measure": "paper"},
                windows | {"name": "lately", "measure": "flow"},
                events | {"name": "ever", "kind": "cumulative", "measure": "flow"},
                events | {"name": "spells", "kind": "spell", "length": 2},
                left,
            ],
            "partitions": self.partitions,
        }

    @cached_property
    def people(self) -> list[str]:
        """Everybody's id."""
        rng = Random(f"people {self.seed}")
        count = math.ceil(self.reports / (self.horizon * (1 - SILENT)))
        return [f"{ID_MARK}-{number:05}-{rng.randrange(16**6):06x}" for number in range(count)]

    @cached_property
    def histories(self) -> list[list[str | None]]:
        """For each person a symbol a period, None if the report never comes; `reports` symbols in all."""
        rng = Random(f"histories {self.seed}")
        histories: list[list[str | None]] = []
        for _ in self.people:
            person_history: list[str | None] = [rng.choice(ALPHABET)]
            while len(person_history) < self.horizon:
                person_history.append(person_history[-1] if rng.random() < 0.7 else rng.choice(ALPHABET))
            histories.append(person_history)
        for person in rng.sample(range(len(self.people)), math.ceil(STRANGERS * len(self.people))):
            histories[person][0] = None
        places = [(person, period) for person in range(len(self.people)) for period in range(1, self.horizon)]
        surplus = sum(symbol is not None for person_history in histories for symbol in person_history) - self.reports
        for person, period in rng.sample(places, surplus):
            histories[person][period] = None
        return histories

    def symbol(self, person: int, period: int) -> str | None:
        """What somebody reports for a period."""
        return self.histories[person][period - 1]

    def write_panel(self, path: Path, people: range) -> None:
        """A panel file of everybody, in which only these people report."""
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["individual", *range(1, self.horizon + 1)])
            for person, individual in enumerate(self.people):
                line = self.histories[person] if person in people else [None] * self.horizon
                writer.writerow([individual, *(symbol or "" for symbol in line)])
