"""A study from its first command to its last column, each role and each command in a container of the image."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.broker import kafka_jars
from tests.containers.conftest import NewStudy
from tests.containers.contained_study import ContainedStudy
from tests.containers.engine import KAFKA
from tests.containers.running_container import RunningContainer
from tests.stream.deployed_study import random_symbols
from tests.stream.public_records import RELEASES, check_published_once

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

PEOPLE = 200
JAVA = Path(__file__).parent / "java" / "ReadColumns.java"


@pytest.fixture(scope="module")
def finished(shared_study: NewStudy) -> ContainedStudy:
    study = shared_study(people=PEOPLE)
    study.deployed.write_panel(random_symbols("01", PEOPLE, study.deployed.parameters.horizon, seed=6, missing=0.1))
    study.do("init")
    roles = [study.role("gather"), study.role("gather"), study.role("synthesize")]
    study.do("send", "/etc/streamproc/study/panel.csv", "--close")
    for role in roles:
        role.done()
    return study


def lines(running: RunningContainer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in running.done().out.splitlines()]


def test_every_column_comes_once_and_verifies(finished: ContainedStudy) -> None:
    verified = finished.do("verify").out

    assert "4 periods, 8 columns verified" in verified
    check_published_once(finished.deployed)
    status = finished.deployed.status()
    assert status["released"] == 4
    assert status["releases"]["ever"]["n_star"] == PEOPLE
    assert abs(status["rho_spent"] - status["rho"]) < 1e-12


def test_a_role_that_is_started_after_the_end_leaves_with_0(finished: ContainedStudy) -> None:
    before = finished.deployed.records(finished.deployed.topics.ledger, committed=False)

    finished.do("synthesize")
    finished.do("gather")

    assert finished.deployed.records(finished.deployed.topics.ledger, committed=False) == before


def test_a_reader_that_knows_only_the_wire_format_finds_what_the_ledger_says(
    finished: ContainedStudy, tmp_path: Path
) -> None:
    jars = f"{kafka_jars()}/*"
    subprocess.run(["javac", "--release", "17", "-cp", jars, "-d", tmp_path, JAVA], check=True, capture_output=True)
    tmp_path.chmod(0o755)

    found = {}
    for release in RELEASES:
        topic = finished.deployed.topics.synthetic(release)
        arguments = ["-XX:TieredStopAtLevel=1", "-cp", "/opt/kafka/libs/*:/opt/reader", "ReadColumns", "kafka:9092", topic]
        reader = finished.containers.start(arguments, image=KAFKA, mounts={tmp_path: "/opt/reader"}, entrypoint=["java"])
        for line in reader.done().out.splitlines():
            period, rows, digest = line.split()
            found[release, int(period)] = (int(rows), digest)

    stated = lines(finished.role("watch", "--json"))
    assert found == {(line["release"], line["period"]): (line["rows"], line["digest"]) for line in stated}
    assert len(found) == 8
