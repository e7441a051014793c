"""Where a study runs: its broker, its state folder, its roster, and how it gets its noise."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from streamproc.errors import InvalidInput, Malformed, NoSuchTopic, NotAllowed, Refused, RosterUnavailable
from streamproc.files.study_files import read_roster, read_study
from streamproc.log.connect import connect
from streamproc.log.control_topic import ControlFollower
from streamproc.log.port import Log, read_to_end
from streamproc.privacy.noise import Entropy
from streamproc.protocol.ledger import StudyRecord, decode_ledger
from streamproc.protocol.topics import Topics
from streamproc.storage.clock import Clock, SystemClock
from streamproc.storage.entropy import SeededEntropy, SystemEntropy
from streamproc.storage.environment import check_environment
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.study import Broker, Study
from streamproc.study.fingerprint import fingerprint, roster_digest

ALLOW_INSECURE = "STREAMPROC_ALLOW_INSECURE"

LOCK = "synthesizer.lock"
"""In the state folder."""

GATHER_LOCK = "gather.lock"
"""In the state folder: shared by the gatherers that use it."""


@dataclass(frozen=True)
class Deployment:
    """A study and the places it uses."""

    study: Study
    broker: Broker
    broker_folder: Path
    """What a relative `embedded:` folder is relative to."""
    state: Path
    roster_path: Path | None
    timeout: float = 30.0
    """Seconds after which a one-shot command gives up."""
    seed: int | None = None
    clock: Clock = field(default_factory=SystemClock)
    """By which a schedule closes periods."""
    on_slow_connection: Callable[[], None] | None = None
    """Called when connecting to the broker takes more than 2 seconds."""

    @classmethod
    def of(
        cls,
        study_path: Path,
        *,
        broker: str | None = None,
        state: Path | None = None,
        timeout: float = 30.0,
        seed: int | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Deployment:
        """From a study file; flags win over the environment, which wins over the file."""
        environ = os.environ if environ is None else environ
        check_environment(environ)
        study = read_study(study_path)
        home = study_path.parent
        url = broker or environ.get("STREAMPROC_BROKER")
        chosen = study.broker if url is None else Broker(url, study.broker.partitions)
        folder = state or (Path(environ["STREAMPROC_STATE"]) if environ.get("STREAMPROC_STATE") else None)
        roster = study.population.roster
        deployment = cls(
            study=study,
            broker=chosen,
            broker_folder=home if url is None else Path(),
            state=folder or home / f"{study.name}.state",
            roster_path=None if roster is None else home / roster,
            timeout=timeout,
            seed=seed,
        )
        if seed is not None and chosen.folder is None and environ.get(ALLOW_INSECURE) != "1":
            raise InvalidInput(f"--seed: a seeded study protects nobody; on a kafka:// broker it needs {ALLOW_INSECURE}=1")
        return deployment

    @property
    def topics(self) -> Topics:
        """The study's topics."""
        return Topics(self.study.name)

    @cached_property
    def roster(self) -> tuple[str, ...] | None:
        """The ids on the roster, if the study has one."""
        return None if self.roster_path is None else read_roster(self.roster_path)

    def connect(self) -> Log:
        """A connection to the study's broker, to be entered."""
        return connect(self.broker.url, folder=self.broker_folder, timeout=self.timeout, on_slow=self.on_slow_connection)

    def state_folder(self) -> LocalStateFolder:
        """The state folder."""
        return LocalStateFolder(self.state)

    @contextmanager
    def locked_state_folder(self) -> Iterator[LocalStateFolder]:
        """The state folder, as the only one who may change the synthesizer's state in it."""
        disk = self.state_folder()
        with self._locked(disk, LOCK, "another synthesizer is using it"):
            yield disk

    @contextmanager
    def shared_state_folder(self) -> Iterator[LocalStateFolder]:
        """The state folder, as one of the gatherers in it; afterwards nothing is written through it any more."""
        disk = self.state_folder()
        purged = "is being purged, since the study is over; no gatherer is needed"
        with self._locked(disk, GATHER_LOCK, purged, shared=True):
            yield disk

    @contextmanager
    def idle_state_folder(self) -> Iterator[LocalStateFolder]:
        """The state folder, in which nobody works now: neither a synthesizer nor any gatherer."""
        busy = "a gatherer is still using it; wait until it is done, and run it again"
        with self.locked_state_folder() as disk, self._locked(disk, GATHER_LOCK, busy):
            yield disk

    @contextmanager
    def _locked(self, disk: LocalStateFolder, name: str, refusal: str, *, shared: bool = False) -> Iterator[None]:
        if not disk.lock(name, shared=shared):
            raise Refused(f"state folder {self.state}: {refusal}")
        try:
            yield
        finally:
            disk.unlock(name)

    def entropy(self) -> Entropy:
        """Real noise, or a seed's."""
        return SystemEntropy() if self.seed is None else SeededEntropy(self.seed)

    async def check_begun(self, log: Log, *, only_reports: bool = False) -> None:
        """Refuse to touch a study whose ledger was begun with other values than these, or whose reports are gone.

        `only_reports`: asked by one who only reports, and need not have the roster; without it values are not compared.
        """
        async with aclosing(read_to_end(log, self.topics.ledger)) as records:
            first = await anext(records, None)
        if first is None:
            return
        if self.topics.reports not in await log.topics():
            raise Refused(f"topic {self.topics.reports}: is gone though the study has begun; was the study purged?")
        with suppress(NotAllowed):  # a reporter may not see it
            await self.check_control(log)
        try:
            begun = decode_ledger(first.value)
            mark = await self.fingerprint(log)
        except Malformed:
            raise Refused(f"topic {self.topics.ledger}: does not begin with a study record") from None
        except NotAllowed:
            return  # a reporter may not read the key of a roster's digest
        except RosterUnavailable:
            if only_reports:
                return
            raise
        if isinstance(begun, StudyRecord) and begun.fingerprint != mark:
            raise Refused(f"study {self.study.name}: its ledger was begun with other values; a study cannot change")

    async def check_control(self, log: Log) -> None:
        """Refuse a study that has begun and has lost its control topic: one made anew would hold another key, and no cut."""
        try:
            # Not looked for among all topics: a broker leaves out those that we may not see.
            await log.start_offset(self.topics.control, 0)
        except NoSuchTopic:
            raise Refused(
                f"topic {self.topics.control}: is gone though the study has begun; without its key and its cuts the study "
                "cannot go on"
            ) from None

    @property
    def broker_address(self) -> str:
        """The broker's URL, with a folder in it as an absolute path."""
        folder = self.broker.folder
        return self.broker.url if folder is None else f"embedded:{(self.broker_folder / folder).resolve()}"

    async def fingerprint(self, log: Log) -> bytes:
        """Of the study as it is here; the key of its roster's digest is in the control topic."""
        if self.roster is None:
            return fingerprint(self.study, None)
        return fingerprint(self.study, roster_digest(self.roster, await self.control_key(log)))

    async def control_key(self, log: Log) -> bytes:
        """The random key in the control topic, which no other stream has."""
        control = await ControlFollower.open(log, self.study)
        try:
            await control.catch_up(await log.last_stable_offset(self.topics.control, 0))
        finally:
            await control.close()
        if control.key is None:
            raise Refused(f"topic {self.topics.control}: holds no key; create the topics with `streamproc init`")
        return control.key
