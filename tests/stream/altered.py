"""The command line with one thing changed: `python -m tests.stream.altered ALTERATION COMMAND STUDY ...`.

ALTERATION is `silent`, no noise at all; or one of POINTS, at which the process dies as by a power cut in the first period
that it draws; `POINT@N` in the Nth. With a `!` in front it dies there also while it publishes what an earlier process drew.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any, ClassVar, Self, cast

from streamproc.cli import main as app
from streamproc.log.port import NO_TIME, Log, Offset, TransactionalProducer
from streamproc.privacy.noise import Entropy
from streamproc.service import deployment
from streamproc.service.deployment import Deployment
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.synthesizer.checkpoint import PUBLISHED_MARK_FILE, STATE_FILE
from streamproc.testing import SilentEntropy

CRASH_EXIT_CODE = 99
"""The exit code of a process that reached its crash point."""

POINTS = ("before-persist", "after-persist", "after-announce", "inside-transaction", "after-commit", "before-settle")


class CrashPoint:
    """The point at which this process exits as in a power cut."""

    def __init__(self, point: str) -> None:
        self._point, _, number = point.removeprefix("!").partition("@")
        assert self._point in POINTS
        self._to_draw = 0 if point.startswith("!") else int(number or 1)

    def drawn(self) -> None:
        """Count a draw of this process."""
        self._to_draw -= 1

    def reach(self, point: str) -> None:
        """Exit if this is the crash point; nothing is flushed or closed."""
        if self._to_draw <= 0 and point == self._point:
            os._exit(CRASH_EXIT_CODE)


class CrashingStateFolder(LocalStateFolder):
    crash_point: CrashPoint

    def write(self, name: str, content: bytes) -> None:
        if name == PUBLISHED_MARK_FILE:
            self.crash_point.reach("before-settle")
        if name == STATE_FILE:
            self.crash_point.drawn()
            self.crash_point.reach("before-persist")
        super().write(name, content)
        if name == STATE_FILE:
            self.crash_point.reach("after-persist")


class CrashingProducer:
    """A transaction of one record is an announcement; one that publishes a period has several records."""

    def __init__(self, within: TransactionalProducer, crash_point: CrashPoint) -> None:
        self._within, self._crash_point = within, crash_point
        self._sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._within, name)

    async def begin(self) -> None:
        self._sent = 0
        await self._within.begin()

    async def send(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None, *, timestamp: int = NO_TIME
    ) -> Offset:
        offset = await self._within.send(topic, partition, value, key, timestamp=timestamp)
        self._sent += 1
        if self._sent == 2:
            self._crash_point.reach("inside-transaction")
        return offset

    async def commit(self) -> None:
        await self._within.commit()
        self._crash_point.reach("after-announce" if self._sent == 1 else "after-commit")


class CrashingLog:
    def __init__(self, within: Log, crash_point: CrashPoint) -> None:
        self._within, self._crash_point = within, crash_point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._within, name)

    async def __aenter__(self) -> Self:
        await self._within.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._within.__aexit__(kind, error, trace)

    async def transactional_producer(self, transactional_id: str, *, timeout: float = 60.0) -> CrashingProducer:
        return CrashingProducer(
            await self._within.transactional_producer(transactional_id, timeout=timeout), self._crash_point
        )


class NoiselessDeployment(Deployment):
    def entropy(self) -> Entropy:
        return SilentEntropy(1)


class CrashingDeployment(Deployment):
    crash_point: ClassVar[CrashPoint]

    def state_folder(self) -> LocalStateFolder:
        disk = CrashingStateFolder(self.state)
        disk.crash_point = self.crash_point
        return disk

    def connect(self) -> Log:
        return cast(Log, CrashingLog(super().connect(), self.crash_point))


def main() -> None:
    alteration = sys.argv.pop(1)
    if alteration != "silent":
        CrashingDeployment.crash_point = CrashPoint(alteration)
    # Where every command gets its deployment from.
    deployment.Deployment = NoiselessDeployment if alteration == "silent" else CrashingDeployment  # type: ignore[misc]
    app.main()


if __name__ == "__main__":
    main()
