"""Which faults strike, and when: at any call on the log, at any step on a file, and by the hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol, TypeAlias

When: TypeAlias = Literal["before", "inside", "after"]

CallFault: TypeAlias = Literal["crash", "disaster", "backup", "unavailable", "unknown", "later", "slow", "pause"]
"""What may happen at a call: the process dies; its disk is lost with it, or an old copy is put back; nothing is done; it
may have been; it lands later; it takes a while; or the whole process stops for longer than sessions or transactions last."""

FileStepFault: TypeAlias = Literal["crash", "power cut", "disk full", "read error"]
"""What may happen at a step on a file."""

CHANGES = ("append", "append_many", "send", "commit", "abort", "fence", "create_topic", "delete_topic")
"""Calls that have an effect on the log."""


class FaultPlan(Protocol):
    """Asked at every point where something can go wrong."""

    def at_call(self, process: str, when: When, call: str, topic: str | None) -> CallFault | None:
        """`inside`: between two records of one append."""
        ...

    def at_step(self, process: str, when: When, step: str, file: str) -> FileStepFault | None: ...

    def seconds(self, low: float, high: float) -> float:
        """How long something takes."""
        ...

    def stop(self) -> None:
        """No more faults from now on."""
        ...


@dataclass(frozen=True)
class FaultRates:
    """What a seed lets happen: a few kinds at a time, because together they would hide one another."""

    calls: Sequence[CallFault]
    calls_between: float
    """Calls from one fault to the next, on average."""
    steps: Sequence[FileStepFault]
    steps_between: float
    """Steps on files, likewise."""


def draw_fault_rates(random: Random) -> FaultRates:
    calls: tuple[CallFault, ...] = ("crash", "disaster", "backup", "unavailable", "unknown", "later", "slow", "pause")
    steps: tuple[FileStepFault, ...] = ("crash", "crash", "power cut", "disk full", "read error")
    return FaultRates(
        calls=random.sample(calls, random.randint(0, 4)),
        calls_between=random.choice((25.0, 60.0, 150.0, 400.0)),
        steps=random.sample(steps, random.randint(0, 3)),
        steps_between=random.choice((20.0, 60.0, 200.0)),
    )


_WEIGHTS = {"inside": 30, "fence": 8, "send": 8, "commit": 20}
"""How much more likely a fault is at points of which there are few."""

READS = ("read", "assigned")
"""Calls made all the time, which change nothing."""


class RandomFaultPlan:
    """Strikes at random, the same for a seed."""

    def __init__(self, random: Random, rates: FaultRates) -> None:
        self._random = random
        self._rates = rates
        self._stopped = False
        self._calls_left = self._gap(rates.calls_between)
        self._steps_left = self._gap(rates.steps_between)

    def at_call(self, process: str, when: When, call: str, topic: str | None) -> CallFault | None:
        self._calls_left -= _WEIGHTS.get(when, 1) * _WEIGHTS.get(call, 1)
        if self._calls_left > 0 or self._stopped:
            return None
        fits = [fault for fault in self._rates.calls if _fits(fault, when, call)]
        if not fits:
            return None
        self._calls_left = self._gap(self._rates.calls_between)
        return self._random.choice(fits)

    def at_step(self, process: str, when: When, step: str, file: str) -> FileStepFault | None:
        self._steps_left -= 1
        if self._steps_left > 0 or self._stopped:
            return None
        fits = [fault for fault in self._rates.steps if _fits_step(fault, when, step)]
        if not fits:
            return None
        self._steps_left = self._gap(self._rates.steps_between)
        return self._random.choice(fits)

    def seconds(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def stop(self) -> None:
        self._stopped = True

    def _gap(self, between: float) -> int:
        return int(self._random.expovariate(1 / between)) + 1


def _fits(fault: CallFault, when: When, call: str) -> bool:
    match fault:
        case "unavailable":
            return when == "before"
        case "pause":
            return when == "before" and call not in READS
        case "later":
            return when == "before" and call in CHANGES
        case "unknown":
            return when != "before" and call in CHANGES
        case "slow":
            return when != "inside"
        case "disaster" | "backup":
            return call in ("send", "commit")
        case "crash":
            # Dying after having only looked is dying before the next call.
            return call in CHANGES or (when == "before" and call not in READS)


def _fits_step(fault: FileStepFault, when: When, step: str) -> bool:
    match fault:
        case "disk full":
            return when == "before" and step == "create"
        case "read error":
            return when == "before" and step == "read"
    return True
