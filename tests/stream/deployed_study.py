"""A study of one test: its file, its broker, its state folder, its processes and the content of its topics."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamproc.files.study_files import read_study
from streamproc.log.connect import connect
from streamproc.log.control_topic import ControlFollower
from streamproc.log.port import Log, Record
from streamproc.protocol.topics import Topics
from streamproc.study import Study
from tests.log.uncommitted import read_uncommitted
from tests.stream.programs import Ended, Program, Programs, call
from tests.studies import StudyParameters

Symbols = npt.NDArray[np.object_]
"""A row per person, a column per period; the empty string where a report is missing."""


@dataclass(frozen=True)
class DeployedStudy:
    """One study with its file, its folder and its log."""

    folder: Path
    url: str
    parameters: StudyParameters
    programs: Programs
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / "study.toml"

    @property
    def state(self) -> Path:
        return self.folder / f"{self.parameters.name}.state"

    @property
    def topics(self) -> Topics:
        return Topics(self.parameters.name)

    @property
    def study(self) -> Study:
        return read_study(self.file)

    def write_study(self, parameters: StudyParameters | None = None) -> None:
        self.file.write_text((parameters or self.parameters).text(self.url))

    def write_panel(self, symbols: Symbols) -> Path:
        """A panel file of people `p000`, `p001`, ..."""
        path = self.folder / "panel.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["individual", *range(1, symbols.shape[1] + 1)])
            writer.writerows([individual(row), *line] for row, line in enumerate(symbols.tolist()))
        return path

    def start(self, command: str, *arguments: object, environ: dict[str, str] | None = None) -> Program:
        """`streamproc COMMAND STUDY ARGUMENTS...` as a process."""
        return self.programs.start(command, self.file, *arguments, environ=self.environ | (environ or {}))

    def start_altered(self, alteration: str, command: str, *arguments: object) -> Program:
        """Start the command in a process with an alteration; see `tests.stream.altered`."""
        module = "tests.stream.altered"
        return self.programs.start(alteration, command, self.file, *arguments, module=module, environ=self.environ)

    def call(self, command: str, *arguments: object) -> Ended:
        """Run the command in this process until it ends."""
        return call(command, self.file, *arguments)

    def do(self, command: str, *arguments: object) -> Ended:
        """Run the command in this process, and check that it succeeds."""
        ended = self.call(command, *arguments)
        assert ended.code == 0, ended.complaint
        return ended

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.do("status", "--json").out))

    # what is in the topics

    def connect(self) -> Log:
        return connect(self.url, folder=self.folder)

    def records(self, topic: str, partition: int = 0, *, committed: bool = True) -> list[Record]:
        """Every record that a reader of this partition finds."""
        return asyncio.run(self._records(topic, partition, committed))

    async def _records(self, topic: str, partition: int, committed: bool) -> list[Record]:
        async with self.connect() as log:
            if not committed:
                return list(await read_uncommitted(log, topic, partition))
            end = await log.last_stable_offset(topic, partition)
            reader = await log.reader(topic, partition, await log.start_offset(topic, partition))
            found: list[Record] = []
            while reader.position < end:
                found += await reader.read(timeout=0.5)
            return found

    def values(self, topic: str, partition: int = 0, *, committed: bool = True) -> list[bytes]:
        records = self.records(topic, partition, committed=committed)
        return [record.value for record in records if record.value is not None]

    def all_topics(self) -> set[str]:
        """The names of this study's topics that exist."""

        async def ask() -> set[str]:
            async with self.connect() as log:
                return {topic for topic in await log.topics() if topic.startswith(f"{self.parameters.name}.")}

        return asyncio.run(ask())

    def ends(self) -> list[tuple[int, ...]]:
        """Where each closed period ends in each partition."""

        async def ask() -> list[tuple[int, ...]]:
            async with self.connect() as log:
                control = await ControlFollower.open(log, self.study)
                await control.catch_up(await log.last_stable_offset(self.topics.control, 0))
                return [cut.ends for cut in control.sequence.cuts]

        return asyncio.run(ask())


def individual(row: int) -> str:
    return f"p{row:03}"


def random_symbols(alphabet: Sequence[str], people: int, horizon: int, *, seed: int, missing: float = 0.0) -> Symbols:
    """Random histories in which a symbol often stays the same; everybody reports in period 1."""
    rng = np.random.default_rng(seed)
    symbols = rng.choice(np.array(list(alphabet), dtype=object), size=(people, horizon))
    for period in range(1, horizon):
        stays = rng.random(people) < 0.7
        symbols[stays, period] = symbols[stays, period - 1]
    silent = rng.random((people, horizon)) < missing
    silent[:, 0] = False
    symbols[silent] = ""
    return symbols
