"""The state that all parts of a run share: the study, the broker, the processes and the progress."""

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
"""Session and transaction timeouts in seconds: shorter than a stop, and long enough for a busy machine."""
STOP_DURATION_S = 6.5
"""Duration of a stop in seconds, longer than both timeouts."""
FAST_POLL_S = 0.001
"""Polling interval in seconds for events that last some tens of milliseconds."""
WAIT_TIMEOUT_S = 300.0
"""Seconds after which an expected event counts as missing."""
AFTER_BROKER_S = 35.0
"""Seconds after the restart of a broker in which a command may still give up: its timeout is 30 s."""


@dataclass
class RunContext:
    """The state of one run."""

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
    """Whether an expected event did not happen; then the run ends without waiting for anything."""
    contested_periods: set[int] = field(default_factory=set)
    """Periods at which two synthesizers worked on copies of one folder."""
    statuses: list[tuple[int, int]] = field(default_factory=list)
    acknowledged: dict[tuple[str, int], str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / "study.toml"

    @property
    def nodes(self) -> Sequence[KafkaBroker]:
        """The brokers, of which at most one at a time is down."""
        return self.broker.nodes if isinstance(self.broker, KafkaCluster) else [self.broker]

    @property
    def over(self) -> bool:
        """Whether a reader has seen the release of the last period."""
        return self.subscriber.released >= self.study.horizon

    def allowed(self, process: Process) -> set[int]:
        """Return the exit codes a command may end with; 5 only if a broker was down meanwhile."""
        return {0, 5} if process.began < self.broker_unsettled_until else {0}

    async def until(self, condition: Callable[[], bool], what: str, pause: float = 0.005) -> bool:
        """Poll until the condition holds, and return True. A timeout is a violation and ends the run."""
        deadline = time.monotonic() + WAIT_TIMEOUT_S
        while not condition():
            if self.given_up:
                return False
            if time.monotonic() > deadline:
                self.give_up(f"waited {WAIT_TIMEOUT_S:g} s for {what}")
            await asyncio.sleep(pause)
        return True

    def give_up(self, why: str) -> None:
        """End the run early, with a violation; the checker verifies what there is."""
        self.given_up = True
        self.run_log.violation(f"9: {why}")

    async def wait_for_aim(self, fault: Fault, began: Callable[[], float]) -> int | None:
        """Wait for the point in time that a fault aims at; `began` returns when its target was started.

        Returns the period before whose release the fault comes; None if it aims at no release, or is too late for it.
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
        # Earlier records may be from a process that has been killed since.
        now = time.time()

        def comes() -> bool:
            return (seen.last_intent if fault.aim is Aim.AT_INTENT else seen.last_column) > now

        await self.until(lambda: comes() or seen.released >= fault.period, fault.aim, FAST_POLL_S)
        return seen.announced if comes() else None
