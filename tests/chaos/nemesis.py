"""The nemesis: kills and stops processes, and kills and restarts brokers, as the fault plan says."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from tests.broker.cluster import KafkaCluster
from tests.chaos.fault_plan import BROKER, Fault, Kind
from tests.chaos.processes import Process
from tests.chaos.run_context import AFTER_BROKER_S, STOP_DURATION_S, RunContext

BROKER_START_TIMEOUT_S = 240.0
"""Seconds within which a broker must be available again on a busy machine."""


async def inject(context: RunContext, process: Process, role: str, fault: Fault, period: int | None = None) -> bool:
    """Kill or stop a process; returns whether it was running. If it was not, its successor is about to start.

    `period` is the one before whose release the fault comes, if it aims at one.
    """
    if not (process.kill() if fault.kind is Kind.KILL else process.freeze()):
        await asyncio.sleep(0.05)
        return False
    context.run_log.fault(role, fault, period)
    if fault.kind is Kind.KILL:
        await process.end()
        return True
    await asyncio.sleep(STOP_DURATION_S)
    process.thaw()
    return True


async def inject_broker_faults(context: RunContext) -> None:
    """Inject the planned broker faults. In a cluster they hit the brokers in turn, each when all replicas are in sync."""
    faults = context.plan.tracks[BROKER]
    while faults and not context.given_up:
        fault = faults[0]
        await context.until(lambda: context.reporting >= faults[0].period, f"period {fault.period}")
        began = time.monotonic()
        period = await context.wait_for_aim(fault, partial(float, began))
        context.run_log.fault("broker", fault, period)
        context.broker_unsettled_until = float("inf")
        victim = context.nodes[len(faults) % len(context.nodes)]
        await asyncio.to_thread(victim.kill if fault.kind is Kind.BROKER_KILL else victim.stop)
        await asyncio.to_thread(victim.start, timeout=BROKER_START_TIMEOUT_S)
        if isinstance(context.broker, KafkaCluster):
            await asyncio.to_thread(context.broker.wait_until_whole)
        context.broker_unsettled_until = time.monotonic() + AFTER_BROKER_S
        context.run_log.note("broker: answers")
        del faults[0]
