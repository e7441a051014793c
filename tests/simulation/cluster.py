"""The simulated cluster of one run: the broker, the network, the machines and the processes on them."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from random import Random

from streamproc.log.topic_setup import wanted_settings
from streamproc.protocol.control import KEY_BYTES, Key
from streamproc.protocol.topics import Topics
from streamproc.testing import ManualClock, SimulatedBroker, SimulatedLog
from tests.simulated_filesystem.filesystem import SimulatedMachine
from tests.simulated_filesystem.storage import StoredFolder
from tests.simulation.deployment import SimulatedDeployment, simulated_deployment
from tests.simulation.fault_plan import FaultPlan
from tests.simulation.history import History
from tests.simulation.process import Machine, Network, Process
from tests.simulation.records import Records
from tests.simulation.workload import Workload

SESSION_TIMEOUT = 1.5
LONGEST_TRANSACTION = 4.0
"""Seconds. They are shorter than in production, because virtual time still costs some real time."""


class Cluster:
    """All state that the participants of a run share. Create it inside the virtual loop."""

    def __init__(self, workload: Workload, fault_plan: FaultPlan, random: Random, history: History) -> None:
        self.workload = workload
        self.study = workload.study
        self.topics = Topics(workload.study.name)
        self.fault_plan = fault_plan
        self.random = random
        self.history = history
        self.broker = SimulatedBroker(
            ManualClock(),
            session_timeout=SESSION_TIMEOUT,
            longest_transaction=LONGEST_TRANSACTION,
            longest_read=workload.longest_read,
            marker_lag=self._marker_lag,
        )
        self.network = Network(self.broker)
        self.records = Records(self.broker, self.study)
        self.accepted: Counter[int] = Counter()
        """For each period, how often the steward accepted the cost of a lost draw."""
        self.acknowledged: list[tuple[float, str, int, str]] = []
        """Acknowledged reports: the time of the acknowledgement, the individual, the period and the symbol."""
        self.cut_asked: dict[int, float] = {}
        """For each period, the time of the first attempt to close it."""
        self.furthest_ahead = timedelta(0)
        """The largest lead that the clock of a machine ever had over the broker's."""
        self._lives: Counter[str] = Counter()
        self._seeds = random.getrandbits(32) << 32

    async def begin(self) -> None:
        """Create the topics, and append a key that the seed determines."""
        log = SimulatedLog(self.broker, name="setup")
        for topic, settings in wanted_settings(self.study, 1).items():
            await log.create_topic(topic, settings)
        await log.append(self.topics.control, 0, Key(self.random.randbytes(KEY_BYTES)).encode())

    def _marker_lag(self) -> float:
        return self.workload.longest_marker_lag and self.fault_plan.seconds(0.0, self.workload.longest_marker_lag)

    @property
    def now(self) -> float:
        """Virtual seconds since the start of the run."""
        return asyncio.get_running_loop().time()

    def stop_faults(self) -> None:
        """Inject no more faults from now on."""
        self.fault_plan.stop()
        self.network.away_until = 0.0

    def ask_for_cut(self) -> None:
        """Record that an attempt to close the next period begins."""
        self.cut_asked.setdefault(len(self.records.cuts()) + 1, self.now)

    def machine(self, name: str, image: StoredFolder | None = None) -> Machine:
        """Return a new machine, with an empty disk or a copy of another machine's."""
        return Machine(name, SimulatedMachine(Random(self.random.getrandbits(32)), image))

    def process(self, name: str, machine: Machine) -> Process:
        """Return a new process of a program. Processes of one program are numbered: `name#1`, `name#2`, ..."""
        self._lives[name] += 1
        life = f"{name}#{self._lives[name]}"
        return Process(life, machine, self.network, self.fault_plan, self.history)

    def deployment(self, process: Process) -> SimulatedDeployment:
        """Return the deployment of the study in this process."""
        self._seeds += 1
        return simulated_deployment(self.study, process, self.workload.roster, self._seeds, silent=self.workload.silent)
