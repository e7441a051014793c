"""Places to run studies in."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker import KafkaBroker
from tests.stream.deployed_study import DeployedStudy, random_symbols
from tests.stream.programs import Programs
from tests.studies import StudyParameters

BROKERS = ["embedded", pytest.param("kafka", marks=pytest.mark.kafka)]
"""For tests of whatever must be the same on both."""

ONE_NORMALLY = [pytest.param("embedded", marks=pytest.mark.slow), pytest.param("kafka", marks=pytest.mark.kafka)]
"""For tests of which the real broker is the harder one."""

DeployStudy = Callable[..., DeployedStudy]
"""`deploy_study(broker, parameters...)`: a study with a name of its own on "embedded" or "kafka"."""


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path) as programs:
        yield programs


@pytest.fixture
def deploy_study(tmp_path: Path, programs: Programs, request: pytest.FixtureRequest) -> DeployStudy:
    return place_maker(tmp_path, programs, request)


@pytest.fixture(scope="module")
def shared_study(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[DeployStudy]:
    """The same, for what all tests of a module look at."""
    folder = tmp_path_factory.mktemp("shared")
    with Programs(folder) as programs:
        yield place_maker(folder, programs, request)


@pytest.fixture(scope="module")
def honest(shared_study: DeployStudy) -> DeployedStudy:
    """An embedded study of 3 periods that is over, for tests to change copies of."""
    deployed = shared_study("embedded", horizon=3)
    panel = deployed.write_panel(random_symbols("01", 200, 3, seed=12))
    roles = deployed.start("run", "--until-done")
    deployed.do("send", panel, "--close")
    roles.done()
    return deployed


def place_maker(folder: Path, programs: Programs, request: pytest.FixtureRequest) -> DeployStudy:
    def make(broker: str, **fields: Any) -> DeployedStudy:
        parameters = StudyParameters(f"s-{uuid.uuid4().hex[:8]}", **fields)
        home = folder / parameters.name
        home.mkdir()
        environ: dict[str, str] = {}
        url = "embedded:log"
        if broker == "kafka":
            kafka: KafkaBroker = request.getfixturevalue("kafka_broker")
            url, environ = kafka.url, {"STREAMPROC_ALLOW_INSECURE": "1"}
        deployed = DeployedStudy(home, url, parameters, programs, environ)
        deployed.write_study()
        return deployed

    return make
