"""A study whose roles run in containers, while the test looks at its topics from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.containers.boxes import Box, Boxes
from tests.containers.engine import ROOT
from tests.stream.places import Place
from tests.stream.programs import Ended

STUDY = "/etc/streamproc/study"
INSIDE = {"STREAMPROC_BROKER": "kafka://kafka:9092", "STREAMPROC_DEBUG": "1"}
"""How containers reach the broker; and an error that is a bug shows where it comes from."""


@dataclass(frozen=True)
class ContainedStudy:
    """`place` is the same study, seen from outside."""

    place: Place
    boxes: Boxes

    def role(
        self, command: str, *arguments: object, state: str | None = None, environ: Mapping[str, str] | None = None
    ) -> Box:
        """`streamproc COMMAND STUDY ARGUMENTS...` in a container, with its state in a volume."""
        return self.boxes.start(
            [command, f"{STUDY}/study.toml", *arguments],
            environ={**INSIDE, **(environ or {})},
            mounts={self.place.folder: STUDY},
            state=state or self.boxes.volume(),
        )

    def do(self, command: str, *arguments: object, state: str | None = None) -> Ended:
        """The same, to its good end."""
        return self.role(command, *arguments, state=state).done()

    def standing_still(self, point: str, command: str, *, state: str) -> Box:
        """The same command, which stands still wherever `tests.stream.altered` would let it die."""
        return self.boxes.start(
            ["-m", "tests.containers.standing_still", point, command, f"{STUDY}/study.toml"],
            environ={**INSIDE, "PYTHONPATH": "/opt/altered"},
            mounts={self.place.folder: STUDY, ROOT / "tests": "/opt/altered/tests"},
            state=state, entrypoint=["python"],
        )  # fmt: skip
