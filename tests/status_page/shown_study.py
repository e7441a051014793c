"""Studies for the page to show: real processes on an embedded log, at a moment of their life."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.stream.deployed_study import DeployedStudy, Symbols
from tests.stream.programs import Program, Programs
from tests.studies import StudyParameters


class ShownStudy:
    """A study, and the process that serves its page."""

    def __init__(self, folder: Path, programs: Programs, parameters: StudyParameters, broker: str = "embedded:log") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.deployed = DeployedStudy(folder, broker, parameters, programs)
        self.deployed.write_study()
        self._program: Program | None = None
        self._address = "127.0.0.1:0"

    @property
    def url(self) -> str:
        return f"http://{self._address}"

    def serve(self, *arguments: object) -> Program:
        """Start the roles; the second time at the same address."""
        self._program = self.deployed.start("run", "--public", self._address, *arguments)
        self._address = self._program.says("listening").rpartition("address=")[2]
        return self._program

    def kill(self) -> None:
        assert self._program is not None
        self._program.kill()

    def release(self, panel: Path, first: int, last: int) -> None:
        """Send and close periods, and wait for each to be released."""
        for period in range(first, last + 1):
            self.deployed.do("send", panel, "--period", period)
            self.deployed.do("close", "--period", period, "--wait")


def losing_work(people: int, horizon: int, *, seed: int) -> Symbols:
    """Histories of people of whom more and more are out of work."""
    rng = np.random.default_rng(seed)
    out = np.empty((people, horizon), dtype=bool)
    out[:, 0] = rng.random(people) < 0.08
    for period in range(1, horizon):
        out[:, period] = rng.random(people) < np.where(out[:, period - 1], 0.88, 0.008 + 0.0035 * period)
    return np.where(out, "1", "0").astype(object)


def sticky(
    alphabet: Sequence[str], people: int, horizon: int, *, stays: float, first: Sequence[float], seed: int
) -> Symbols:
    """Histories of people who mostly stay what they were."""
    rng = np.random.default_rng(seed)
    raw_records = np.array(list(alphabet), dtype=object)
    symbols = rng.choice(raw_records, size=(people, horizon), p=list(first))
    for period in range(1, horizon):
        same = rng.random(people) < stays
        symbols[same, period] = symbols[same, period - 1]
    return symbols
