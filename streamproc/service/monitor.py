"""The monitor of a process: receives the progress of its roles, updates its metrics, and knows whether it is ready."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from streamproc.privacy.types import Period, Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.protocol.rejects import Reason
from streamproc.releases.contracts import release_budgets
from streamproc.releases.replace_one import replace_one_costs
from streamproc.releases.step import Step
from streamproc.releases.synthesis import Synthesis
from streamproc.service.deployment import Deployment
from streamproc.service.logging_setup import event
from streamproc.service.metrics import OperatorMetrics, PublicMetrics, Spending

BROKER_BACK = "the broker is back"
"""The log line when no part of the process waits for the broker any more."""

# The parts of a process, each of which can be degraded while others are not. Each gathered partition is a part as well.
CONNECTION, LEDGER, SYNTHESIZER, SCHEDULE, GATHERERS = "connection", "ledger", "synthesizer", "schedule", "gatherers"


class ProcessMonitor:
    """The state of a process that the listeners show. Implements the observers of the synthesizer and the gatherers."""

    def __init__(self, deployment: Deployment) -> None:
        self.public = PublicMetrics(deployment.study.name)
        self.operator = OperatorMetrics(deployment.study.name)
        self._ledger_read = False
        self._refused = False
        self._waiting: set[str] = set()
        """The parts that are degraded: they wait for the broker."""
        self._behind: set[str] = set()
        """The parts that have not caught up since they started: gathered partitions, and the group without an assignment."""
        self._rejecting: set[tuple[int, Reason]] = set()
        """Partitions and reasons of rejects that have been logged. Each pair is logged once."""
        self._study = deployment.study
        self.operator.show_study(self._study.horizon, self._study.broker.partitions)
        self.operator.show_process(ready=lambda: self.ready, away=lambda: bool(self._waiting))
        self._since = time.monotonic()
        """When the synthesizer last read tallies, or released a period."""
        self._held: float | None = None
        """Since when the synthesizer waits for the release time of a period; None if it does not wait."""
        self._recorded: Period | None = None
        """The last period of the ledger that is shown; None before a ledger was shown."""
        self._clamped = Counter[str]()
        """Number of counts of each release that were clamped up to that period."""

    @property
    def ready(self) -> bool:
        """Whether every part works; False while any part waits for the broker or has not caught up, or after a refusal."""
        return self._ledger_read and not self._waiting and not self._behind and not self._refused

    @property
    def publicly_ready(self) -> bool:
        """Readiness without private data: the time that a gatherer takes to catch up depends on the number of reports."""
        return self._ledger_read and not self._waiting & {CONNECTION, LEDGER} and not self._refused

    def mark_healthy(self, part: str) -> None:
        """Mark a part as healthy: a call that failed before has succeeded."""
        if part in self._waiting:
            self._waiting.remove(part)
            if not self._waiting:
                event(BROKER_BACK)

    def forget_part(self, part: str) -> None:
        """Forget a part that has ended, without logging that the broker is back."""
        self._waiting.discard(part)

    def refused(self) -> None:
        """Note that a role has raised Refused."""
        self._refused = True
        self.operator.refused.set(1)

    def mark_ledger_read(self) -> None:
        """Note that the ledger is read to its end."""
        self._ledger_read = True
        self.mark_healthy(LEDGER)

    def mark_ledger_unread(self) -> None:
        """Note that the ledger is not read, or is not valid. `mark_ledger_read` ends this."""
        self._ledger_read = False

    def show_ledger(self, ledger: VerifiedLedger | None) -> None:
        """Show the public ledger, read to its end; None before the study has begun.

        Several readers may call this in any order: a ledger that is shorter than the shown one is ignored.
        """
        last = ledger.periods[-1] if ledger is not None and ledger.periods else None
        released = last.period if last else Period(0)
        if self._recorded is not None and released <= self._recorded:
            return
        for record in ledger.records_after(self._recorded or 0) if ledger is not None else ():
            self._clamped.update({name: release.clamped for name, release in record.releases.items()})
        self._recorded = released
        spending = {
            name: Spending(rho, last.releases[name].rho_spent if last else Rho(0.0), self._clamped[name])
            for name, rho in release_budgets(self._study).items()
        }
        epsilon = epsilon_of_rho(last.rho_spent if last else Rho(0.0), self._study.privacy.delta)
        self.public.show_spending(released, epsilon, spending)
        self.operator.show_released(released)
        schedule, over = self._study.schedule, ledger is not None and ledger.is_over
        if over:
            self.operator.show_end(released)
        self.operator.show_due(None if schedule is None or over else schedule.release_of(released + 1))

    # The observer of the synthesizer.

    def watermark(self, period: Period) -> None:
        """Note that every partition has tallied this period."""
        self.mark_healthy(SYNTHESIZER)
        self.operator.watermark.set(period)
        self._since = time.monotonic()

    def persisted(self, period: Period, size: int) -> None:
        """Note the size of the synthesizer's state file in bytes."""
        self.operator.state_bytes.labels("synthesizer").set(size)

    def waiting(self, period: Period, until: datetime) -> None:
        """Note that a period is durable, and will be published at its release time."""
        self.mark_healthy(SYNTHESIZER)
        self._held = time.monotonic()
        self.operator.held.set(period)
        event("drawn, waiting for the release time", period=period, until=f"{until:%Y-%m-%d %H:%M:%S} UTC")

    def due(self, period: Period, *, late: bool) -> None:
        """Note that the release time has come. `late` is True if it had passed before the period was ready."""
        if self._held is not None:
            self._since += time.monotonic() - self._held
            self._held = None
            self.operator.held.set(0)
        if late:
            event("the release time has passed, publishing late", logging.WARNING, period=period)

    def released(self, period: Period, synthesis: Synthesis, steps: Mapping[str, Step] | None) -> None:
        """Note that a period is published; `steps` is None if that was before the process started."""
        self.mark_healthy(SYNTHESIZER)
        for name, contract in synthesis.contracts.items():
            counts = contract.released_counts(synthesis.states[name])
            if counts is not None:
                self.public.show_counts(contract, synthesis.period, counts)
        if steps is None:
            event("going on after what is released", period=period)
            return
        before, self._since = self._since, time.monotonic()
        self.operator.release_seconds.observe(self._since - before)
        epsilon = epsilon_of_rho(synthesis.spent, self._study.privacy.delta)
        spent = {"rho_spent": synthesis.spent, "epsilon_spent": epsilon}
        event("period released", logging.INFO, period=period, **spent, **self._replace_one(period, synthesis))

    def _replace_one(self, period: Period, synthesis: Synthesis) -> Mapping[str, float]:
        """The cost of a zero-out study's noise under replace-one, if that is quick to compute or the study is over."""
        costs = replace_one_costs(self._study)
        if costs is None or not (costs.every_period_is_quick or period == self._study.last_period):
            return {}
        rho = costs.of_study(period, synthesis.redrawn)
        return {"rho_spent_replace_one": rho, "epsilon_spent_replace_one": epsilon_of_rho(rho, self._study.privacy.delta)}

    def fenced(self, period: Period) -> None:
        """Note that another synthesizer took over, or that a transaction timed out."""
        self.operator.fenced.inc()
        event("fenced", logging.WARNING, period=period)

    def mark_degraded(self, problem: str, part: str = SYNTHESIZER) -> None:
        """Log a problem that will be retried. The part stays degraded until `mark_healthy` or `forget_part`."""
        self._waiting.add(part)
        self.operator.troubles.inc()
        event(problem, logging.WARNING)

    # The partitions that are gathered by this process.

    def begin_gathering(self) -> None:
        """Note that the process gathers: it is not ready before it knows its partitions and has caught up with each."""
        self._behind.add(GATHERERS)

    def know_assignment(self) -> None:
        """Note that the partitions of this process are known, even if there are none."""
        self._behind.discard(GATHERERS)

    def end_gathering(self) -> None:
        """Note that the process has stopped gathering, so there is nothing left to catch up with."""
        self._behind.clear()

    def assigned(self, partition: int) -> None:
        """Note that this process gathers the partition from now on."""
        self._behind.add(partition_part(partition))
        self.operator.begin(partition)
        event("partition assigned", partition=partition)

    def given_up(self, partition: int) -> None:
        """Note that this process does not gather the partition any more."""
        self._behind.discard(partition_part(partition))
        self.operator.forget(partition)
        event("partition given up", partition=partition)

    # The observer of the gatherers.

    def resumed(self, partition: int, period: Period, people: int, lag: int, size: int | None) -> None:
        """Note that a gatherer resumes from a checkpoint of `size` bytes, or reads the log from its start if it is None."""
        self._behind.add(partition_part(partition))
        self.operator.lag.labels(partition).set(lag)
        self.operator.people.labels(partition).set(people)
        self.operator.settled.labels(partition).set(period)
        if size is None:
            event("replaying the log from its start", partition=partition)
        else:
            self.checkpointed(partition, size)
            event("replaying the log from a checkpoint", partition=partition, period=period)

    def read(self, partition: int, records: int, lag: int) -> None:
        """Note that records were read, and that `lag` records are left."""
        self.operator.reports.labels(partition).inc(records)
        self.operator.lag.labels(partition).set(lag)

    def rejected(self, partition: int, counts: Mapping[Reason, int]) -> None:
        """Note that this many reports were rejected for each reason."""
        for reason, count in counts.items():
            self.operator.rejects.labels(partition, reason.value).inc(count)
            if (partition, reason) not in self._rejecting:
                self._rejecting.add((partition, reason))
                event("reports are rejected", logging.WARNING, partition=partition, reason=reason.value)

    def tallied(self, partition: int, period: Period, people: int) -> None:
        """Note that the tally of a period was sent."""
        self.mark_healthy(partition_part(partition))
        self.operator.people.labels(partition).set(people)
        self.operator.settled.labels(partition).set(period)
        event("tallied", partition=partition, period=period)

    def checkpointed(self, partition: int, size: int) -> None:
        """Note the size of a gatherer's checkpoint in bytes."""
        self.operator.state_bytes.labels(f"gather-{partition}").set(size)

    def waits_for_study(self, partition: int) -> None:
        """Note that the study has not begun, so the gatherer has nothing to catch up with."""
        self.mark_healthy(partition_part(partition))
        self._behind.discard(partition_part(partition))

    def caught_up(self, partition: int) -> None:
        """Note that the gatherer has read everything that was readable when it resumed."""
        if partition_part(partition) in self._behind:
            self._behind.remove(partition_part(partition))
            event("caught up with the log", partition=partition)

    def up_to_date(self, partition: int) -> None:
        """Note that the tally of every closed period was sent."""
        self.mark_healthy(partition_part(partition))


def partition_part(partition: int) -> str:
    """The name of the part that gathers a partition."""
    return f"partition {partition}"
