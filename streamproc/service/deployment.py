"""A study and the resources that it uses: broker, state folder, roster, noise and clock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from streamproc.client.public_reader import PublicReader
from streamproc.errors import (
    InvalidInput,
    NoSuchTopic,
    NotAllowed,
    RosterUnavailable,
    StateFolderUnusable,
    TopicLost,
)
from streamproc.files.study_files import read_roster, read_study
from streamproc.log.connect import connect
from streamproc.log.control_topic import ControlFollower
from streamproc.log.port import Log, Record, read_to_end
from streamproc.privacy.noise import Entropy
from streamproc.protocol.ledger import decode_study_record, require_same_study
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.protocol.topics import Topics
from streamproc.storage.clock import Clock, SystemClock
from streamproc.storage.entropy import SeededEntropy, SystemEntropy
from streamproc.storage.environment import check_environment
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.study import Broker, Study
from streamproc.study.fingerprint import fingerprint, roster_digest

ALLOW_INSECURE = "STREAMPROC_ALLOW_INSECURE"
"""The environment variable that allows a seeded study on Kafka."""

LOCK = "synthesizer.lock"
"""The file in the state folder that the synthesizer locks."""

GATHER_LOCK = "gather.lock"
"""The file in the state folder on which every gatherer holds a shared lock."""


@dataclass(frozen=True)
class Deployment:
    """A study, and where its broker, its state folder and its roster are."""

    study: Study
    broker: Broker
    broker_folder: Path
    """The folder that a relative `embedded:` path is relative to."""
    state: Path
    roster_path: Path | None
    timeout: float = 30.0
    """Seconds after which a one-shot command gives up."""
    seed: int | None = None
    clock: Clock = field(default_factory=SystemClock)
    """The clock by which a schedule closes periods."""
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
        """Read a study file. Arguments take precedence over environment variables, which take precedence over the file.

        Raises InvalidInput if the file is wrong, or if a seed is used on Kafka without `ALLOW_INSECURE`.
        """
        return cls.of_study(
            read_study(study_path),
            study_path.parent,
            broker=broker,
            state=state,
            timeout=timeout,
            seed=seed,
            environ=environ,
        )

    @classmethod
    def of_study(
        cls,
        study: Study,
        home: Path,
        *,
        broker: str | None = None,
        state: Path | None = None,
        timeout: float = 30.0,
        seed: int | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Deployment:
        """As `of`, for a study that was read already; relative paths in it are relative to `home`."""
        environ = os.environ if environ is None else environ
        check_environment(environ)
        url = broker or environ.get("STREAMPROC_BROKER")
        chosen = study.broker if url is None else Broker(url, study.broker.partitions)
        folder = state or (Path(environ["STREAMPROC_STATE"]) if environ.get("STREAMPROC_STATE") else None)
        roster = study.population.roster
        if seed is not None and chosen.folder is None and environ.get(ALLOW_INSECURE) != "1":
            raise InvalidInput(f"--seed: a seeded study protects nobody; on a kafka:// broker it needs {ALLOW_INSECURE}=1")
        return cls(
            study=study,
            broker=chosen,
            broker_folder=home if url is None else Path(),
            state=folder or home / f"{study.name}.state",
            roster_path=None if roster is None else home / roster,
            timeout=timeout,
            seed=seed,
        )

    @property
    def topics(self) -> Topics:
        """The study's topics."""
        return Topics(self.study.name)

    @cached_property
    def roster(self) -> tuple[str, ...] | None:
        """The ids on the roster; None if the study has no roster. Raises RosterUnavailable if it cannot be read."""
        return None if self.roster_path is None else read_roster(self.roster_path)

    def connect(self) -> Log:
        """A connection to the study's broker. Entering it connects."""
        return connect(self.broker.url, folder=self.broker_folder, timeout=self.timeout, on_slow=self.on_slow_connection)

    async def read_public(self) -> PublicReader:
        """Connect, and read the ledger and all columns to their end. Creates no topic."""
        async with self.connect() as log:
            return await PublicReader.read_all(log, self.study)

    def state_folder(self) -> LocalStateFolder:
        """The state folder, without a lock."""
        return LocalStateFolder(self.state)

    @contextmanager
    def locked_state_folder(self) -> Iterator[LocalStateFolder]:
        """The state folder, with the synthesizer's exclusive lock. Raises StateFolderUnusable if another process has it."""
        state_folder = self.state_folder()
        with self._locked(state_folder, LOCK, "another synthesizer is using it"):
            yield state_folder

    @contextmanager
    def shared_state_folder(self) -> Iterator[LocalStateFolder]:
        """The state folder, with the shared lock of the gatherers. Nothing can be written through it afterwards."""
        state_folder = self.state_folder()
        purged = "is being purged, since the study is over; no gatherer is needed"
        with self._locked(state_folder, GATHER_LOCK, purged, shared=True):
            yield state_folder

    @contextmanager
    def idle_state_folder(self) -> Iterator[LocalStateFolder]:
        """The state folder, with both locks held exclusively: neither a synthesizer nor a gatherer uses it."""
        busy = "a gatherer is still using it; wait until it is done, and run it again"
        with self.locked_state_folder() as state_folder, self._locked(state_folder, GATHER_LOCK, busy):
            yield state_folder

    @contextmanager
    def _locked(self, state_folder: LocalStateFolder, name: str, in_use: str, *, shared: bool = False) -> Iterator[None]:
        if not state_folder.lock(name, shared=shared):
            raise StateFolderUnusable(self.state, in_use)
        try:
            yield
        finally:
            state_folder.unlock(name)

    def entropy(self) -> Entropy:
        """The source of noise: the operating system's, or a seeded one if the deployment has a seed."""
        return SystemEntropy() if self.seed is None else SeededEntropy(self.seed)

    async def require_same_ledger(self, log: Log, *, only_reports: bool = False) -> None:
        """If the study has begun, check that its ledger has this study's values and that its private topics exist.

        Raises StudyChanged, LedgerConflict or TopicLost. `only_reports` is True for a process that only sends reports: it
        need not have the roster, and without the roster the values are not compared.
        """
        first = await self.first_ledger_record(log)
        if first is None:
            return
        if self.topics.reports not in await log.topics():
            raise TopicLost(self.topics.reports, "is gone though the study has begun; was the study purged?")
        with suppress(NotAllowed):  # a reporter may not see the control topic
            await self.check_control(log)
        record = decode_study_record(self.topics.ledger, first.value)
        try:
            fingerprint = await self.fingerprint(log)
        except NotAllowed:
            return  # a reporter may not read the key of the roster's digest
        except RosterUnavailable:
            if only_reports:
                return
            raise
        require_same_study(record, self.study, fingerprint)

    async def first_ledger_record(self, log: Log) -> Record | None:
        """The first record of the ledger topic; None if the study has not begun."""
        async with aclosing(read_to_end(log, self.topics.ledger)) as records:
            return await anext(records, None)

    async def check_ledger(self, log: Log, ledger: VerifiedLedger | None, *, insecure: bool | None = None) -> None:
        """Raise StudyChanged if a ledger is that of another study of the same name; `insecure` as in `require_same_study`.

        After a purge the control topic is gone, which holds the key of the roster's digest. Then a study with a roster
        cannot be distinguished from another one, and nothing is checked.
        """
        if ledger is None:
            return
        with suppress(NoSuchTopic):
            require_same_study(ledger.study, self.study, await self.fingerprint(log), insecure=insecure)

    async def check_control(self, log: Log) -> None:
        """Raise TopicLost if the control topic of a study that has begun is gone: a new one would lack its key and cuts."""
        try:
            # The list of all topics would not do: Kafka leaves out the topics that this user may not see.
            await log.start_offset(self.topics.control, 0)
        except NoSuchTopic:
            problem = "is gone though the study has begun; without its key and its cuts the study cannot go on"
            raise TopicLost(self.topics.control, problem) from None

    @property
    def broker_address(self) -> str:
        """The broker's URL, with a folder in it as an absolute path."""
        folder = self.broker.folder
        return self.broker.url if folder is None else f"embedded:{(self.broker_folder / folder).resolve()}"

    async def fingerprint(self, log: Log) -> bytes:
        """The fingerprint of the study and the roster as they are here.

        Reads the control topic if the study has a roster, because it holds the key of the roster's digest.
        """
        if self.roster is None:
            return fingerprint(self.study, None)
        return fingerprint(self.study, roster_digest(self.roster, await self.control_key(log)))

    async def control_key(self, log: Log) -> bytes:
        """The study's random key, from the control topic. Raises TopicLost if the topic holds none."""
        control = await ControlFollower.open(log, self.study)
        try:
            await control.catch_up(await log.last_stable_offset(self.topics.control, 0))
        finally:
            await control.close()
        if control.key is None:
            raise TopicLost(self.topics.control, "holds no key; create the topics with `streamproc init`")
        return control.key
