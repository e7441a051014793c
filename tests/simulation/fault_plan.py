"""Fault plans: which fault, if any, to inject at each call of the log and at each step on a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol, TypeAlias

When: TypeAlias = Literal["before", "inside", "after"]

CallFault: TypeAlias = Literal["crash", "disaster", "backup", "unavailable", "unknown", "later", "slow", "pause"]
"""A fault at a call: the process crashes; it crashes and its disk is lost, or is replaced by a backup; the call fails
without effect; its outcome is unknown; it takes effect later; it is slow; or the process pauses for longer than sessions and
transactions last."""

FileStepFault: TypeAlias = Literal["crash", "power cut", "disk full", "read error"]
"""A fault at a step on a file."""

CHANGES = ("append", "append_many", "send", "commit", "abort", "fence", "create_topic", "delete_topic")
"""Calls that have an effect on the log."""


class FaultPlan(Protocol):
    """Decides at every point whether a fault is injected."""

    def at_call(self, process: str, when: When, call: str, topic: str | None) -> CallFault | None:
        """Return the fault to inject at a call; `inside` is between two records of one append."""
        ...

    def at_step(self, process: str, when: When, step: str, file: str) -> FileStepFault | None: ...

    def seconds(self, low: float, high: float) -> float:
        """Return the duration of a delay or pause."""
        ...

    def stop(self) -> None:
        """Inject no more faults from now on."""
        ...


@dataclass(frozen=True)
class FaultRates:
    """The kinds of faults in one run and their frequency. A run has only a few kinds, because many would mask each other."""

    calls: Sequence[CallFault]
    calls_between: float
    """Average number of calls between two faults."""
    steps: Sequence[FileStepFault]
    steps_between: float
    """Average number of steps on files between two faults."""


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
"""How much more likely a fault is at rare points."""

READS = ("read", "assigned")
"""Frequent calls that change nothing."""


class RandomFaultPlan:
    """Injects faults at random; the same seed gives the same faults."""

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
            # A crash after a call without effect is the same as a crash before the next call.
            return call in CHANGES or (when == "before" and call not in READS)


def _fits_step(fault: FileStepFault, when: When, step: str) -> bool:
    match fault:
        case "disk full":
            return when == "before" and step == "create"
        case "read error":
            return when == "before" and step == "read"
    return True
