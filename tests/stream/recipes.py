"""Study files for the tests: two releases, one of each kind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """What a test wants its study to be."""

    name: str
    alphabet: Sequence[str] = ("0", "1")
    event: Sequence[str] = ("1",)
    horizon: int = 4
    k: int = 2
    partitions: int = 4
    roster: str | None = None
    duplicates: str = "first"
    people: int = 200
    rho: float = 0.5
    adjacency: str | None = None
    schedule: str = ""

    def text(self, url: str) -> str:
        """The study file."""
        adjacency = "" if self.adjacency is None else f'adjacency = "{self.adjacency}"\n'
        roster = "" if self.roster is None else f"roster = {json.dumps(self.roster)}\n"
        return f"""\
[study]
name = "{self.name}"
alphabet = {json.dumps(list(self.alphabet))}
horizon = {self.horizon}

[population]
size = {self.people}
duplicates = "{self.duplicates}"
{roster}
[privacy]
rho = {self.rho}
{adjacency}
[[release]]
name = "recent"
kind = "window"
k = {self.k}

[[release]]
name = "ever"
kind = "cumulative"
event = {json.dumps(list(self.event))}

[broker]
url = "{url}"
partitions = {self.partitions}
{self.schedule}"""
