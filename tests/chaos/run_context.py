"""What every part of a run shares: the study, the broker, the processes, and how far things are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.broker import KafkaBroker
from tests.broker.cluster import KafkaCluster
from tests.chaos.fault_plan import Aim, Fault, FaultPlan
from tests.chaos.processes import Process, RunLog, Starter
from tests.chaos.study import ChaosStudy
from tests.chaos.subscriber import Subscriber

SESSION, TRANSACTION = 4.0, 5.0
"""Seconds: the time-outs of the run. Short, so that many stops outlast them; long enough for a busy machine."""
STOP_DURATION_S = 6.5
"""Seconds of a stop: longer than both."""
FAST_POLL_S = 0.001
"""Seconds between two looks for what is over within some tens of milliseconds."""
WAIT_TIMEOUT_S = 300.0
"""Seconds after which something that ought to happen will not."""
AFTER_BROKER_S = 35.0
"""Seconds after a broker came back in which a command that met its absence may still give up: its time-out is 30 s."""


@dataclass
class RunContext:
    """One run."""

    study: ChaosStudy
    plan: FaultPlan
    folder: Path
    broker: KafkaBroker | KafkaCluster
    starter: Starter
    run_log: RunLog
    subscriber: Subscriber
    reporting: int = 0
    """The period that is being reported."""
    broker_unsettled_until: float = float("-inf")
    """Until when, on the monotonic clock, a command may give up on the broker."""
    given_up: bool = False
    """Whether something that ought to happen will not: then nothing is waited for any more."""
    contested_periods: set[int] = field(default_factory=set)
    """Periods at which two synthesizers worked on copies of one folder."""
    statuses: list[tuple[int, int]] = field(default_factory=list)
    acknowledged: dict[tuple[str, int], str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / "study.toml"

    @property
    def nodes(self) -> Sequence[KafkaBroker]:
        """Of which one at a time is away."""
        return self.broker.nodes if isinstance(self.broker, KafkaCluster) else [self.broker]

    @property
    def over(self) -> bool:
        """Whether the last period is released, as readers see it."""
        return self.subscriber.released >= self.study.horizon

    def allowed(self, process: Process) -> set[int]:
        """How a command may end by itself: only a broker that was away excuses that it gave up."""
        return {0, 5} if process.began < self.broker_unsettled_until else {0}

    async def until(self, condition: Callable[[], bool], what: str, pause: float = 0.005) -> bool:
        """Wait, looking after every pause; that it does not come is a violation, and the end of the run."""
        deadline = time.monotonic() + WAIT_TIMEOUT_S
        while not condition():
            if self.given_up:
                return False
            if time.monotonic() > deadline:
                self.give_up(f"waited {WAIT_TIMEOUT_S:g} s for {what}")
            await asyncio.sleep(pause)
        return True

    def give_up(self, why: str) -> None:
        """The study cannot come to its end: what is there is judged."""
        self.given_up = True
        self.run_log.violation(f"9: {why}")

    async def wait_for_aim(self, fault: Fault, began: Callable[[], float]) -> int | None:
        """Wait for the moment a fault aims at; `began` says when whom it will hit was started.

        Answers with the period before whose release it is, or was when it was seen; None if there is none, or no longer.
        """
        if fault.aim is Aim.AFTER_START:
            await self.until(lambda: time.monotonic() >= began() + fault.delay, "a process to grow old")
            return None
        if fault.aim is Aim.AFTER_CUT:
            await self.until(lambda: self.subscriber.closed >= fault.period, f"the cut of period {fault.period}")
            period = fault.period if self.subscriber.released < fault.period else None
        else:
            period = await self._publication(fault)
        await asyncio.sleep(fault.delay)
        return period

    async def _publication(self, fault: Fault) -> int | None:
        """The period whose intent or column is seen next; None if that of the fault is released before."""
        seen = self.subscriber
        # What came before may have been made by a process that has been killed since.
        now = time.time()

        def comes() -> bool:
            return (seen.last_intent if fault.aim is Aim.AT_INTENT else seen.last_column) > now

        await self.until(lambda: comes() or seen.released >= fault.period, fault.aim, FAST_POLL_S)
        return seen.announced if comes() else None
