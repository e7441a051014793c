"""The command line without noise, and with a gate: `python -m tests.stream.paused_publishing GATE COMMAND STUDY ...`.

While the file GATE exists, a synthesizer pauses within the transaction that publishes a period, and prints that.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import ClassVar, cast

from streamproc.cli import main as app
from streamproc.log.port import NO_TIME, Log, Offset
from streamproc.privacy.noise import Entropy
from streamproc.service import deployment
from streamproc.service.deployment import Deployment
from streamproc.testing import SilentEntropy
from tests.stream.altered import CrashingLog, CrashingProducer, CrashPoint

PAUSED = "paused while publishing"

UNREACHED_POINT = "before-settle"
"""A crash point that a log never reaches."""


class PausingProducer(CrashingProducer):
    gate: ClassVar[Path]

    async def send(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None, *, timestamp: int = NO_TIME
    ) -> Offset:
        offset = await super().send(topic, partition, value, key, timestamp=timestamp)
        if self._sent == 2 and self.gate.exists():
            print(PAUSED, file=sys.stderr, flush=True)
            while self.gate.exists():
                await asyncio.sleep(0.02)
        return offset


class PausingLog(CrashingLog):
    async def transactional_producer(self, transactional_id: str, *, timeout: float = 60.0) -> PausingProducer:
        return PausingProducer(
            await self._within.transactional_producer(transactional_id, timeout=timeout), self._crash_point
        )


class PausingDeployment(Deployment):
    def entropy(self) -> Entropy:
        return SilentEntropy(1)

    def connect(self) -> Log:
        return cast(Log, PausingLog(super().connect(), CrashPoint(UNREACHED_POINT)))


def main() -> None:
    PausingProducer.gate = Path(sys.argv.pop(1))
    # Where every command gets its deployment from.
    deployment.Deployment = PausingDeployment  # type: ignore[misc]
    app.main()


if __name__ == "__main__":
    main()
