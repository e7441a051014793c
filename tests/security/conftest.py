"""A broker with TLS, SCRAM and exactly the ACLs that `init --print` shows, and studies on it."""

from __future__ import annotations

import shlex
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker.fixture import running
from tests.broker.secure import SecureBroker
from tests.security.principals import PRINCIPALS, Secured, command_lines
from tests.security.whole_study import HORIZON, PEOPLE
from tests.stream.conftest import deploy_study, programs
from tests.stream.deployed_study import DeployedStudy
from tests.stream.programs import Programs, call
from tests.studies import StudyParameters

__all__ = ["deploy_study", "programs"]

PARAMETERS = StudyParameters("guarded", horizon=HORIZON, k=2, partitions=2, people=PEOPLE)

NewStudy = Callable[[], Secured]


@pytest.fixture(scope="package")
def secure_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """Nobody may do anything on it yet."""
    if shutil.which("javac") is None:
        pytest.skip("Kafka's tool for ACLs is driven by a Java program: apt-get install default-jdk-headless")
    folder = tmp_path_factory.mktemp("secure") / "broker"
    with running(lambda folder: SecureBroker(folder, PRINCIPALS), folder) as broker:
        yield broker


@pytest.fixture(scope="package")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `init --print` shows for the study of these tests."""
    return print_acls(tmp_path_factory.mktemp("printed"))


@pytest.fixture(scope="package")
def guarded_broker(secure_broker: SecureBroker, printed: str) -> SecureBroker:
    """The broker, once Kafka's own tool has added every line that a running study needs, as it was printed."""
    for line in command_lines(printed):
        secure_broker.acls(*shlex.split(line)[1:])
    return secure_broker


@pytest.fixture
def purge_allowed(guarded_broker: SecureBroker, printed: str) -> Iterator[Callable[[], None]]:
    """Adds the last section of what was printed, for one test."""
    added = []

    def add() -> None:
        for line in command_lines(printed, to_purge=True):
            added.append(shlex.split(line)[2:])
            guarded_broker.acls("--add", *added[-1])

    yield add
    for arguments in added:
        guarded_broker.acls("--remove", "--force", *arguments)


@pytest.fixture
def new_study(tmp_path: Path, programs: Programs, guarded_broker: SecureBroker) -> NewStudy:
    """The study of the ACLs, each time from its beginning."""
    return lambda: begin(tmp_path / uuid.uuid4().hex[:8], programs, guarded_broker)


def begin(home: Path, programs: Programs, broker: SecureBroker) -> Secured:
    """The study of the ACLs, without a topic yet."""
    home.mkdir()
    deployed = DeployedStudy(home, broker.url_of_scram, PARAMETERS, programs)
    deployed.write_study()
    study = Secured(deployed, broker)
    study.remove_topics()
    return study


def print_acls(folder: Path) -> str:
    file = folder / "study.toml"
    file.write_text(PARAMETERS.text("kafka://localhost:9092"))
    ended = call("init", file, "--print")
    assert ended.code == 0, ended.complaint
    return ended.out
