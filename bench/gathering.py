"""How many reports a gatherer takes in, for each second of its processor time, beside a loop that only reads them.

Everybody reports once in every period. The first two periods, in which ids are new, are told apart from the rest.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

from bench.brokers import NoBroker, own_broker
from bench.result import Result
from bench.streamed import Plan, fill
from bench.studies import shown

SINGLE_LIMIT = 0.5
PACKED_LIMIT = 5.0
ROUNDS = 5

_FIRST_PERIODS = 2
_BARE = "what an aiokafka `getmany` loop that decodes nothing reads, in records for each second of its processor time"
_UUID = "0b5d1c80-7b1e-4d1c-9d5f-0123"
"""With 8 digits more, an id as long as many systems have them."""


@dataclass(frozen=True)
class Topic:
    """A study's reports on a broker, to be read as often as wanted."""

    plan: Plan
    url: str
    folder: Path

    @cached_property
    def ends(self) -> list[int]:
        """Where each period ends; everything is sent when this is asked first."""
        return asyncio.run(fill(self.plan.deploy(self.url, self.folder), self.plan))

    def read(self, how: str, turn: int) -> Rates:
        """Read it all, in a process of its own."""
        study, state = self.folder / f"{self.plan.name}.toml", self.folder / f"{self.plan.name}-{how}-{turn}.state"
        command = [sys.executable, "-m", "bench.reading", how, str(study), str(state), json.dumps(self.ends)]
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
        if outcome.returncode != 0:
            raise RuntimeError(f"reading failed:\n{outcome.stderr[-2000:]}")
        marks = json.loads(outcome.stdout)
        (_, began), (first, joined), (later, warm), (_, done) = (marks[place] for place in (0, 1, _FIRST_PERIODS, -1))
        whole = self.reports_below(self.ends[-1])
        return Rates(self.reports_below(first) / (joined - began), (whole - self.reports_below(later)) / (done - warm))

    def reports_below(self, position: int) -> float:
        """How many reports lie there; a period's are spread evenly over its records."""
        reports, start = 0.0, 0
        for end in self.ends:
            reports += self.plan.people * max(0, min(position, end) - start) / (end - start)
            start = end
        return reports


@dataclass(frozen=True)
class Rates:
    """Reports read for each second of processor time."""

    first: float
    """In period 1, starting included."""
    steady: float
    """Once everybody is known."""


def measure(quick: bool = False) -> Iterator[Result]:
    """Single reports, also with long ids, and packed ones; in every round each is read once, so that a busy machine
    slows all of them."""
    people, rounds = (2500, 1) if quick else (100_000, ROUNDS)
    plans = (
        Plan("single", people, 5),
        Plan("uuid", people, 5, id_prefix=_UUID),
        Plan("packed", people, 5 if quick else 32, packed=True),
    )
    try:
        with own_broker(quick) as (url, folder):
            single, uuid, packed = (Topic(plan, url, folder) for plan in plans)
            turns = [_turn(single, uuid, packed, turn) for turn in range(rounds)]
    except NoBroker as reason:
        print(f"gathering is not measured: {reason}")
        return
    yield from _results(turns, shown(people))


def _turn(single: Topic, uuid: Topic, packed: Topic, turn: int) -> Mapping[str, Rates]:
    return {
        "bare": single.read("bare", turn),
        "single": single.read("gather", turn),
        "uuid": uuid.read("gather", turn),
        "packed": packed.read("gather", turn),
    }


def _results(turns: list[Mapping[str, Rates]], people: str) -> Iterator[Result]:
    def ratio(kind: str) -> float:
        return median(turn[kind].steady / turn["bare"].steady for turn in turns)

    single, packed = f"reports gathered, {people} people", f"packed reports gathered, {people} people"
    yield Result(name=single, value=ratio("single"), unit="x", limit=SINGLE_LIMIT, at_least=True, ratio_of=_BARE)
    yield Result(name=f"{single}, ids of 36 bytes", value=ratio("uuid"), unit="x", ratio_of=_BARE)
    yield Result(name=packed, value=ratio("packed"), unit="x", limit=PACKED_LIMIT, at_least=True, ratio_of=_BARE)
    for name, kind in (("records read by the bare loop", "bare"), (single, "single"), (packed, "packed")):
        yield _rate(name, median(turn[kind].steady for turn in turns))
    for name, kind in ((single, "single"), (packed, "packed")):
        yield _rate(f"{name}, ids new", median(turn[kind].first for turn in turns))


def _rate(name: str, rate: float) -> Result:
    return Result(name=f"{name}, in a CPU second", value=rate / 1000, unit="thousands")
