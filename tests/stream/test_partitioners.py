"""Producers of other makes send a person's reports to the person's home partition, if they are set up as the page says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgpack
import pytest
from confluent_kafka import KafkaError, Message, Producer

from streamproc.protocol.reports import home_partition
from tests.broker import KafkaBroker, kafka_jars
from tests.stream.conftest import DeployStudy
from tests.stream.deployed_study import DeployedStudy

pytestmark = pytest.mark.kafka

JAVA = Path(__file__).parent / "java" / "SendReports.java"
IDS = [*(f"person-{number}" for number in range(60)), "a", "ab", "abc", "abcd", "Zoë", "李雷", "🙂", "x" * 1000, " a b "]
PARTITIONS = 5


def report(individual: str) -> bytes:
    return bytes(msgpack.packb({"v": 1, "id": individual, "t": 1, "s": "1"}))


def deploy_on_kafka(deploy_study: DeployStudy) -> DeployedStudy:
    deployed = deploy_study("kafka", horizon=1, k=1, partitions=PARTITIONS, people=len(IDS))
    deployed.do("init")
    return deployed


def check_at_home(deployed: DeployedStudy, partitions: list[int]) -> None:
    """Every report is where it belongs, and a gatherer counts each."""
    assert partitions == [home_partition(individual, PARTITIONS) for individual in IDS]
    assert set(partitions) == set(range(PARTITIONS))
    deployed.do("close", "--period", 1)
    deployed.start("run", "--until-done").done()
    assert deployed.status()["releases"]["ever"]["n_star"] == len(IDS)
    assert deployed.values(deployed.topics.rejects) == []


def test_a_java_producer_agrees_by_default(deploy_study: DeployStudy, kafka_broker: KafkaBroker) -> None:
    if shutil.which("javac") is None:
        pytest.skip("a Java producer needs a JDK (17 or newer): apt-get install default-jdk-headless")
    deployed = deploy_on_kafka(deploy_study)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars()}/*", str(JAVA)]
    command += [f"127.0.0.1:{kafka_broker.port}", deployed.topics.reports]
    lines = "".join(f"{report(individual).hex()} {individual}\n" for individual in IDS)

    sent = subprocess.run(command, input=lines.encode(), capture_output=True, check=False, timeout=120)

    assert sent.returncode == 0, sent.stderr.decode()
    check_at_home(deployed, [int(line) for line in sent.stdout.split()])


def send_by_librdkafka(deployed: DeployedStudy, broker: KafkaBroker, **settings: str) -> list[int]:
    found: dict[bytes, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        key, partition = message.key(), message.partition()
        assert isinstance(key, bytes)
        assert partition is not None
        found[key] = partition

    producer = Producer(
        {"bootstrap.servers": f"127.0.0.1:{broker.port}", "acks": "all", "enable.idempotence": True, **settings}
    )
    for individual in IDS:
        producer.produce(deployed.topics.reports, report(individual), individual.encode(), on_delivery=delivered)
    assert producer.flush(60) == 0
    return [found[individual.encode()] for individual in IDS]


def test_librdkafka_agrees_with_the_right_partitioner_setting(deploy_study: DeployStudy, kafka_broker: KafkaBroker) -> None:
    deployed = deploy_on_kafka(deploy_study)
    check_at_home(deployed, send_by_librdkafka(deployed, kafka_broker, partitioner="murmur2_random"))


def test_librdkafka_left_to_itself_is_noticed(deploy_study: DeployStudy, kafka_broker: KafkaBroker) -> None:
    deployed = deploy_on_kafka(deploy_study)
    partitions = send_by_librdkafka(deployed, kafka_broker)
    wrong_partition = sum(
        there != home_partition(individual, PARTITIONS) for individual, there in zip(IDS, partitions, strict=True)
    )
    assert wrong_partition > 0

    deployed.do("close", "--period", 1)
    deployed.start("run", "--until-done").done()
    assert deployed.status()["releases"]["ever"]["n_star"] == len(IDS) - wrong_partition
    rejects = [msgpack.unpackb(value)["reason"] for value in deployed.values(deployed.topics.rejects)]
    assert rejects == ["foreign-partition"] * wrong_partition
