"""Images, a broker in a container, and studies around it. Everything is made when the first test asks for it."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from streamproc.errors import LogUnavailable
from streamproc.log.connect import connect
from tests.containers.contained_study import ContainedStudy
from tests.containers.engine import KAFKA, make_images, missing_engine
from tests.containers.running_container import PATIENT, ContainerStarter, RunningContainer
from tests.free_ports import free_ports
from tests.stream.deployed_study import DeployedStudy
from tests.stream.programs import PATIENCE, Programs
from tests.studies import StudyParameters

# Its reaper is an image of a registry; here every fixture removes what it made.
testcontainers_config.ryuk_disabled = True
testcontainers_config.tc_host_override = "127.0.0.1"

NewStudy = Callable[..., ContainedStudy]
"""`new_study(parameters...)`: a study with a name of its own."""


@pytest.fixture(scope="package")
def images() -> None:
    missing = missing_engine()
    if missing is not None:
        pytest.skip(missing)
    make_images()


@pytest.fixture(scope="package")
def network(images: None) -> Iterator[Network]:
    """What its containers publish is published on this machine only."""
    options = {"options": {"com.docker.network.bridge.host_binding_ipv4": "127.0.0.1"}}
    with Network(docker_network_kw=options) as network:
        yield network


@pytest.fixture(scope="package")
def kafka_url(network: Network) -> Iterator[str]:
    """A broker in a container: `kafka:9092` to other containers, and this to the tests."""
    (port,) = free_ports(1)
    described = (
        DockerContainer(KAFKA, PATIENT, env=_kafka_settings(port)).with_network(network).with_network_aliases("kafka")
    )
    described.with_bind_ports(9094, port).with_tmpfs_mount("/tmp")
    described.with_kwargs(read_only=True, cap_drop=["ALL"], security_opt=["no-new-privileges"])
    broker = RunningContainer(described)
    try:
        _wait_until_it_answers(broker, f"kafka://127.0.0.1:{port}")
        yield f"kafka://127.0.0.1:{port}"
    finally:
        broker.remove()


def _wait_until_it_answers(broker: RunningContainer, url: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not asyncio.run(_answers(url)):
        assert broker.runs and time.monotonic() < deadline, f"the broker does not answer:\n{broker.log}"


async def _answers(url: str) -> bool:
    try:
        async with connect(url, timeout=5) as log:
            await log.topics()
    except LogUnavailable:
        await asyncio.sleep(0.2)
        return False
    return True


def _kafka_settings(port: int) -> dict[str, str]:
    return {
        "CLUSTER_ID": "c3RyZWFtcHJvYy10ZXN0cw",
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,OUTSIDE://:9094,CONTROLLER://127.0.0.1:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://kafka:9092,OUTSIDE://127.0.0.1:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@127.0.0.1:9093",
        "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        # The first compiler only: it starts sooner, and no test runs long enough to gain from the second.
        "KAFKA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


@pytest.fixture
def new_study(tmp_path: Path, network: Network, kafka_url: str) -> Iterator[NewStudy]:
    containers = ContainerStarter(network)
    yield study_maker(tmp_path, containers, kafka_url)
    containers.remove_all()


@pytest.fixture(scope="module")
def shared_study(tmp_path_factory: pytest.TempPathFactory, network: Network, kafka_url: str) -> Iterator[NewStudy]:
    """The same, for what all tests of a module look at."""
    containers = ContainerStarter(network)
    yield study_maker(tmp_path_factory.mktemp("shared"), containers, kafka_url)
    containers.remove_all()


def study_maker(folder: Path, containers: ContainerStarter, url: str) -> NewStudy:
    def make(**fields: Any) -> ContainedStudy:
        parameters = StudyParameters(f"c-{uuid.uuid4().hex[:8]}", **fields)
        home = folder / parameters.name
        home.mkdir(mode=0o755)
        deployed = DeployedStudy(home, url, parameters, Programs(home))
        deployed.write_study()
        return ContainedStudy(deployed, containers)

    return make
