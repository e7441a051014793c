"""A deployment on simulated ports: the real service code with the connection, disk and clock of a simulated process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from streamproc.log.port import Log
from streamproc.privacy.noise import Entropy
from streamproc.privacy.types import Period
from streamproc.releases.step import Step
from streamproc.releases.synthesis import Synthesis
from streamproc.service.deployment import Deployment
from streamproc.service.monitor import SYNTHESIZER, ProcessMonitor
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.study import Study
from tests.simulation.noise import SimulatedEntropy
from tests.simulation.process import Process

STATE = Path("/state")
"""Where every machine keeps its state folder."""


@dataclass(frozen=True)
class SimulatedDeployment(Deployment):
    """The deployment of a study in one simulated process."""

    process: Process = field(kw_only=True)
    people: tuple[str, ...] | None = None
    noise: Entropy = field(kw_only=True)

    @property
    def roster(self) -> tuple[str, ...] | None:
        """The ids of the individuals; the simulation has no roster file."""
        return self.people

    def connect(self) -> Log:
        return self.process.log

    def state_folder(self) -> LocalStateFolder:
        return LocalStateFolder(self.state, self.process.files)

    def entropy(self) -> Entropy:
        return self.noise


def simulated_deployment(
    study: Study, process: Process, people: tuple[str, ...] | None, seed: int, *, silent: bool
) -> SimulatedDeployment:
    """Return the deployment of a study in a process, whose noise comes from this seed."""
    return SimulatedDeployment(
        study,
        study.broker,
        Path("/"),
        STATE,
        None,
        seed=0,
        clock=process.machine.clock,
        process=process,
        people=people,
        noise=SimulatedEntropy(seed, silent=silent),
    )


@lru_cache(maxsize=64)
def _monitor_of(study: Study) -> ProcessMonitor:
    return ProcessMonitor(Deployment(study, study.broker, Path("/"), STATE, None))


class WatchedMonitor(ProcessMonitor):
    """A monitor that also writes to the history, and checks that the watermark never goes back (invariant 8)."""

    def __init__(self, deployment: SimulatedDeployment) -> None:
        # Metric registries are slow to create, and the simulation does not read them.
        vars(self).update(vars(_monitor_of(deployment.study)))
        self._waiting, self._behind, self._rejecting = set(), set(), set()
        self._process = deployment.process
        self._watermark = Period(0)

    def watermark(self, period: Period) -> None:
        if self._process.alive:
            if period < self._watermark:
                self._process.history.violated(8, f"the watermark went back from {self._watermark} to {period}")
            self._watermark = period
        super().watermark(period)

    def waiting(self, period: Period, until: datetime) -> None:
        self._process.history.note(self._process.name, f"waits to release {period}")
        self._process.started = True
        super().waiting(period, until)

    def released(self, period: Period, synthesis: Synthesis, steps: Mapping[str, Step] | None) -> None:
        self._process.history.note(self._process.name, f"released {period}")
        super().released(period, synthesis, steps)

    def fenced(self, period: Period) -> None:
        self._process.history.fault("fenced", self._process.name, f"in period {period}")
        super().fenced(period)

    def mark_degraded(self, problem: str, part: str = SYNTHESIZER) -> None:
        self._process.history.said.append(problem)
        super().mark_degraded(problem, part)
