"""The operator and steward of the synthesizer: start it, read its last line, do what that says, and start it again."""

from __future__ import annotations

import asyncio

from streamproc.service.restore import restore_state
from streamproc.service.retry import retry_while_unavailable
from streamproc.service.workers import synthesize
from streamproc.synthesizer.checkpoint import STATE_FILE
from streamproc.testing.simulated.storage import StoredFolder
from tests.simulation.cast import MENDABLE, delete_file
from tests.simulation.deployed import STATE, WatchedHealth
from tests.simulation.process import EMPTY, End, Machine, Process
from tests.simulation.world import World

NOTHING_TO_RESTORE = ("has no ledger", "has released nothing yet")

LASTING = {"append", "append_many", "create_topic", "delete_topic"}
"""What a refused start must not have done. Who commits has decided to go on; what is sent and never committed is gone."""

TO_BE_REBUILT = "put back the newest copy of the state folder"
"""What every refusal says whose other way out is to rebuild it."""


class Operator:
    """Keeps one synthesizer going on one machine."""

    def __init__(self, world: World, machine: Machine) -> None:
        self._world = world
        self.machine = machine
        self.process: Process | None = None
        """The life it lives now."""
        self.spare: list[StoredFolder] = []
        """Other state folders of the study that lie around: of a second synthesizer, or kept by somebody."""
        self.nobody = False
        """Whether the study ended because nobody was in it."""
        self._catch_up = False

    async def keep(self) -> None:
        """Until period `T` is released."""
        world = self._world
        while True:
            end = await self._live()
            if end.done or self.nobody:
                return
            if end.failure is not None:
                world.journal.violated(9, f"the synthesizer failed: {end.failure!r}")
                return
            if end.refusal is not None and not await self._mend(end.refusal):
                return
            await asyncio.sleep(world.random.uniform(0.1, 1.0))

    async def _live(self) -> End:
        process = self.process = self._world.process(self.machine.name, self.machine)
        before = self._files()
        end = await process.run(self._synthesize(process))
        if end.refusal is not None:
            self._check_unchanged(process, before, end.refusal)
        return end

    async def _synthesize(self, process: Process) -> None:
        deployment = self._world.deployment(process)
        process.on_closing = self._world.ask_for_cut
        health = WatchedHealth(deployment)
        await retry_while_unavailable(process.log.__aenter__, health)
        await synthesize(deployment, process.log, health, catch_up=self._catch_up)

    def _check_unchanged(self, process: Process, before: dict[str, bytes], refusal: str) -> None:
        """Invariant 10: who was refused at the start has looked, at most fenced, and looked again."""
        if process.started:
            return
        if set(process.changed) & LASTING:
            self._world.journal.violated(10, f"a refused start did {process.changed}: {refusal}")
        if self._files() != before:
            self._world.journal.violated(10, f"a refused start changed the state folder: {refusal}")

    def _files(self) -> dict[str, bytes]:
        files = self.machine.storage.files(STATE)
        return {name: content for name, content in files.items() if name.endswith((".state", ".settled"))}

    async def _mend(self, refusal: str) -> bool:
        """Do what the line says; whether it is worth starting again."""
        world, storage = self._world, self.machine.storage
        if "nobody reported" in refusal:
            self.nobody = True
            return False
        if refusal.startswith("schedule:"):
            world.journal.fault("catch-up", self.machine.name)
            self._catch_up = True
        elif "fenced 3 times" in refusal or "another synthesizer is using it" in refusal or "holds no report" in refusal:
            await asyncio.sleep(world.random.uniform(1.0, 5.0))
        elif any(words in refusal for words in MENDABLE):
            storage.capacity = None
        elif "delete it" in refusal:
            delete_file(world, self.machine, refusal)
        elif TO_BE_REBUILT in refusal:
            if not self.machine.spoilt:
                world.journal.violated(9, f"a disk that kept everything has to be rebuilt: {refusal}")
            if self.spare and world.random.random() < 0.5:
                world.journal.fault("old state put back", self.machine.name)
                self.machine.spoilt = True
                storage.put_back(self.spare.pop())
            else:
                await self._rebuild()
        else:
            world.journal.violated(9, f"the synthesizer refused: {refusal}")
            return False
        return True

    async def _rebuild(self) -> None:
        """`streamproc restore` into an empty folder, with the cost of a lost draw accepted if there is no other way."""
        world, accept = self._world, False
        self.machine.storage.put_back(EMPTY)
        while True:
            process = world.process("restore", self.machine)
            before, period = self._files(), world.records.released() + 1
            end = await process.run(_restore(world, process, accept_cost=accept))
            if end.done:
                world.journal.fault("restore that accepts the cost" if accept else "restore", self.machine.name)
                if accept:
                    world.accepted[period] += 1
                return
            if end.failure is not None:
                world.journal.violated(9, f"restore failed: {end.failure!r}")
                return
            if end.refusal is not None:
                if any(words in end.refusal for words in NOTHING_TO_RESTORE):
                    self._check_unchanged(process, before, end.refusal)
                    return
                if any(words in end.refusal for words in MENDABLE):
                    self.machine.storage.capacity = None
                else:
                    self._check_unchanged(process, before, end.refusal)
                if "holds a state already" in end.refusal:
                    self.machine.storage.put_back(EMPTY)
                elif "--accept-cost" in end.refusal:
                    accept = True
            if accept:
                # One who died in the middle may have written the state, and somebody may have copied it.
                world.accepted[period] += end.killed and self._files().get(STATE_FILE) != before.get(STATE_FILE)
            await asyncio.sleep(world.random.uniform(0.2, 2.0))


async def _restore(world: World, process: Process, *, accept_cost: bool) -> None:
    await restore_state(world.deployment(process), accept_cost=accept_cost)
