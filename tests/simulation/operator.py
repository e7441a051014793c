"""The operator of the synthesizer: starts it, does what its last error message says, and starts it again."""

from __future__ import annotations

import asyncio

from streamproc.log.retry import retry_while_unavailable
from streamproc.service.monitor import CONNECTION
from streamproc.service.restore import restore_state
from streamproc.service.workers import synthesize
from streamproc.synthesizer.checkpoint import STATE_FILE
from tests.simulated_filesystem.storage import StoredFolder
from tests.simulation.cluster import Cluster
from tests.simulation.deployment import STATE, WatchedMonitor
from tests.simulation.participants import FIXABLE, delete_file
from tests.simulation.process import EMPTY, End, Machine, Process

NOTHING_TO_RESTORE = ("has no ledger", "has released nothing yet")

LASTING = {"append", "append_many", "create_topic", "delete_topic"}
"""Calls that a refused start must not have made. Records that were sent and never committed are not visible."""

TO_BE_REBUILT = "put back the newest copy of the state folder"
"""Part of every error message that is resolved by a backup or by `streamproc restore`."""


class Operator:
    """Keeps one synthesizer running on one machine."""

    def __init__(self, cluster: Cluster, machine: Machine) -> None:
        self._cluster = cluster
        self.machine = machine
        self.process: Process | None = None
        """The current process."""
        self.spare: list[StoredFolder] = []
        """Other copies of the state folder: of a second synthesizer, or backups."""
        self.no_people = False
        """Whether the study ended because it has no individuals."""
        self._catch_up = False

    async def keep(self) -> None:
        """Run the synthesizer until period `T` is released."""
        cluster = self._cluster
        while True:
            end = await self._live()
            if end.done or self.no_people:
                return
            if end.failure is not None:
                cluster.history.violated(9, f"the synthesizer failed: {end.failure!r}")
                return
            if end.refusal is not None and not await self._fix(end.refusal):
                return
            await asyncio.sleep(cluster.random.uniform(0.1, 1.0))

    async def _live(self) -> End:
        process = self.process = self._cluster.process(self.machine.name, self.machine)
        before = self._files()
        end = await process.run(self._synthesize(process))
        if end.refusal is not None:
            self._check_unchanged(process, before, end.refusal)
        return end

    async def _synthesize(self, process: Process) -> None:
        deployment = self._cluster.deployment(process)
        process.on_closing = self._cluster.ask_for_cut
        monitor = WatchedMonitor(deployment)
        await retry_while_unavailable(process.log.__aenter__, monitor, CONNECTION)
        await synthesize(deployment, process.log, monitor, catch_up=self._catch_up)

    def _check_unchanged(self, process: Process, before: dict[str, bytes], refusal: str) -> None:
        """Check invariant 10: a refused start changes neither the log nor the state folder, except that it may fence."""
        if process.started:
            return
        if set(process.changed) & LASTING:
            self._cluster.history.violated(10, f"a refused start did {process.changed}: {refusal}")
        if self._files() != before:
            self._cluster.history.violated(10, f"a refused start changed the state folder: {refusal}")

    def _files(self) -> dict[str, bytes]:
        files = self.machine.storage.files(STATE)
        return {name: content for name, content in files.items() if name.endswith((".state", ".settled"))}

    async def _fix(self, refusal: str) -> bool:
        """Do what the error message says; returns whether the synthesizer should be started again."""
        cluster, storage = self._cluster, self.machine.storage
        if "nobody reported" in refusal:
            self.no_people = True
            return False
        if refusal.startswith("schedule:"):
            cluster.history.fault("catch-up", self.machine.name)
            self._catch_up = True
        elif "fenced 3 times" in refusal or "another synthesizer is using it" in refusal or "holds no report" in refusal:
            await asyncio.sleep(cluster.random.uniform(1.0, 5.0))
        elif FIXABLE in refusal:
            storage.capacity = None
        elif "delete it" in refusal:
            delete_file(cluster, self.machine, refusal)
        elif TO_BE_REBUILT in refusal:
            if not self.machine.spoilt:
                cluster.history.violated(9, f"a disk that kept everything has to be rebuilt: {refusal}")
            if self.spare and cluster.random.random() < 0.5:
                cluster.history.fault("old state put back", self.machine.name)
                self.machine.spoilt = True
                storage.put_back(self.spare.pop())
            else:
                await self._rebuild()
        else:
            cluster.history.violated(9, f"the synthesizer refused: {refusal}")
            return False
        return True

    async def _rebuild(self) -> None:
        """Run `streamproc restore` into an empty folder; accept the cost of a lost draw only if there is no other way."""
        cluster, accept = self._cluster, False
        self.machine.storage.put_back(EMPTY)
        while True:
            process = cluster.process("restore", self.machine)
            before, period = self._files(), cluster.records.released() + 1
            end = await process.run(_restore(cluster, process, accept_cost=accept))
            if end.done:
                cluster.history.fault("restore that accepts the cost" if accept else "restore", self.machine.name)
                if accept:
                    cluster.accepted[period] += 1
                return
            if end.failure is not None:
                cluster.history.violated(9, f"restore failed: {end.failure!r}")
                return
            if end.refusal is not None:
                if any(words in end.refusal for words in NOTHING_TO_RESTORE):
                    self._check_unchanged(process, before, end.refusal)
                    return
                if FIXABLE in end.refusal:
                    self.machine.storage.capacity = None
                else:
                    self._check_unchanged(process, before, end.refusal)
                if "holds a state already" in end.refusal:
                    self.machine.storage.put_back(EMPTY)
                elif "--accept-cost" in end.refusal:
                    accept = True
            if accept:
                # A process that was killed here may have written the state, which may have been copied since.
                cluster.accepted[period] += end.killed and self._files().get(STATE_FILE) != before.get(STATE_FILE)
            await asyncio.sleep(cluster.random.uniform(0.2, 2.0))


async def _restore(cluster: Cluster, process: Process, *, accept_cost: bool) -> None:
    await restore_state(cluster.deployment(process), accept_cost=accept_cost)
