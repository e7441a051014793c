"""What probes see of roles whose broker stands still: they live, are not ready, and come back by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import KafkaBroker
from tests.broker.fixture import running
from tests.stream.deployed_study import DeployedStudy
from tests.stream.programs import PATIENCE, Programs
from tests.stream.test_listeners import Listeners, ask, samples
from tests.studies import StudyParameters

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """One of this test's own, because it freezes it; a frozen process can be killed."""
    with running(KafkaBroker, tmp_path / "broker") as broker:
        yield broker


def until(addresses: list[str], code: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while (found := [ask(address, "/readyz")[0] for address in addresses]) != [code] * len(addresses):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_readiness_follows_the_broker_and_liveness_does_not(tmp_path: Path, programs: Programs, broker: KafkaBroker) -> None:
    deployed = DeployedStudy(tmp_path, broker.url, StudyParameters("probed"), programs)
    deployed.write_study()
    deployed.do("init")
    arguments = Listeners.ARGUMENTS[2:]
    roles = [deployed.start(role, "--state", tmp_path / role, *arguments) for role in ("synthesize", "gather")]
    operators = [role.says("listening").rpartition("address=")[2] for role in roles]
    until(operators, 200)

    broker.freeze()
    until(operators, 503)
    for address in operators:
        assert ask(address, "/livez")[0] == 200
        assert samples(address)["streamproc_ready", ()] == 0
        assert samples(address)["streamproc_troubles_total", ()] > 0

    broker.thaw()
    until(operators, 200)
    assert [role.stop().code for role in roles] == [0, 0]
