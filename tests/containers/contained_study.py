"""A study whose roles run in containers, while the test looks at its topics from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.containers.engine import ROOT
from tests.containers.running_container import ContainerStarter, RunningContainer
from tests.stream.deployed_study import DeployedStudy
from tests.stream.programs import Ended

STUDY = "/etc/streamproc/study"
INSIDE = {"STREAMPROC_BROKER": "kafka://kafka:9092", "STREAMPROC_DEBUG": "1"}
"""How containers reach the broker; and an error that is a bug shows where it comes from."""


@dataclass(frozen=True)
class ContainedStudy:
    """`place` is the same study, seen from outside."""

    deployed: DeployedStudy
    containers: ContainerStarter

    def role(
        self, command: str, *arguments: object, state: str | None = None, environ: Mapping[str, str] | None = None
    ) -> RunningContainer:
        """`streamproc COMMAND STUDY ARGUMENTS...` in a container, with its state in a volume."""
        return self.containers.start(
            [command, f"{STUDY}/study.toml", *arguments],
            environ={**INSIDE, **(environ or {})},
            mounts={self.deployed.folder: STUDY},
            state=state or self.containers.volume(),
        )

    def do(self, command: str, *arguments: object, state: str | None = None) -> Ended:
        """The same, to its good end."""
        return self.role(command, *arguments, state=state).done()

    def standing_still(self, point: str, command: str, *, state: str) -> RunningContainer:
        """The same command, which stands still wherever `tests.stream.altered` would let it die."""
        return self.containers.start(
            ["-m", "tests.containers.hanging_program", point, command, f"{STUDY}/study.toml"],
            environ={**INSIDE, "PYTHONPATH": "/opt/altered"},
            mounts={self.deployed.folder: STUDY, ROOT / "tests": "/opt/altered/tests"},
            state=state, entrypoint=["python"],
        )  # fmt: skip
