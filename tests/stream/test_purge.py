"""Purging: when a study is over what is private goes, what was released stays and verifies; before that nothing goes."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path

import pytest

from streamproc.service.deployment import GATHER_LOCK, LOCK
from streamproc.storage.state_folder import LocalStateFolder
from tests.stream.conftest import BROKERS, DeployStudy
from tests.stream.deployed_study import DeployedStudy, individual, random_symbols
from tests.stream.public_records import read_public_records

PEOPLE = 200


def finished(deployed: DeployedStudy) -> None:
    panel = deployed.write_panel(random_symbols("01", PEOPLE, deployed.parameters.horizon, seed=5))
    deployed.do("send", panel, "--close")
    deployed.start("run", "--until-done").done()


def private_topics(deployed: DeployedStudy) -> set[str]:
    topics = deployed.topics
    return {topics.reports, topics.control, topics.tallies, topics.rejects}


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("broker", BROKERS)
def test_after_the_last_period_the_private_goes_and_the_released_stays_and_verifies(
    deploy_study: DeployStudy, broker: str
) -> None:
    deployed = deploy_study(broker, horizon=2)
    finished(deployed)
    released, private = read_public_records(deployed), private_topics(deployed)
    before = deployed.status() | {"watermark": None}

    said = deployed.do("purge", "--yes").out

    assert all(topic in said for topic in private) and str(deployed.state) in said
    assert not deployed.state.exists()
    assert deployed.all_topics() & private == set()
    assert read_public_records(deployed) == released
    deployed.do("verify")
    deployed.do("pull", "--out", deployed.folder / "pulled")
    assert deployed.status() == before
    assert "nothing private was left" in deployed.do("purge", "--yes").out

    assert "closed already" in deployed.do("close", "--period", 2).out
    deployed.start("run", "--until-done").done()
    deployed.start("gather").done()
    assert not deployed.state.exists()
    for command in (["send", deployed.folder / "panel.csv"], ["init"]):
        refused = deployed.call(*command)
        assert refused.code == 3
        assert "was the study purged?" in refused.complaint
    assert deployed.call("restore").code == 3
    assert deployed.all_topics() & private == set()
    assert not any(name.endswith(".state") for name in files(deployed.state))


@pytest.mark.parametrize("broker", BROKERS)
def test_processes_that_stayed_up_after_the_last_period_do_not_mind(deploy_study: DeployStudy, broker: str) -> None:
    deployed = deploy_study(broker, horizon=2)
    deployed.do("init")
    roles, other = deployed.start("run", "--public", "127.0.0.1:0"), deployed.start("gather", "--stay")
    deployed.do("send", deployed.write_panel(random_symbols("01", PEOPLE, 2, seed=6)), "--close")
    address = roles.says("listening").rpartition("address=")[2]
    roles.says("the study is over")
    other.says("the study is over")

    deployed.do("purge", "--yes")

    with urllib.request.urlopen(f"http://{address}/api/v1/releases/recent.csv", timeout=30) as answer:
        assert len(answer.read().splitlines()) > PEOPLE
    assert (roles.stop().code, other.stop().code) == (0, 0)
    assert deployed.all_topics() & private_topics(deployed) == set()
    assert not deployed.state.exists()


def test_a_purge_beside_a_synthesizer_at_work_deletes_nothing(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded", horizon=2)
    finished(deployed)
    disk = LocalStateFolder(deployed.state)
    assert disk.lock(LOCK)

    refused = deployed.call("purge", "--yes")

    assert (refused.code, "another synthesizer is using it" in refused.complaint) == (3, True)
    assert private_topics(deployed) <= deployed.all_topics()
    disk.unlock(LOCK)


def test_a_purge_beside_a_gatherer_at_work_deletes_nothing(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded", horizon=2)
    finished(deployed)
    before, disk = files(deployed.state), LocalStateFolder(deployed.state)
    assert disk.lock(GATHER_LOCK, shared=True)

    refused = deployed.call("purge", "--yes")

    assert (refused.code, refused.complaint.count("\n")) == (3, 1)
    assert "a gatherer is still using it" in refused.complaint
    assert private_topics(deployed) <= deployed.all_topics()
    assert files(deployed.state) == before
    disk.unlock(GATHER_LOCK)
    deployed.do("purge", "--yes")
    assert not deployed.state.exists()


def test_nothing_of_a_person_is_left_in_the_files_of_an_embedded_log(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded", horizon=2)
    finished(deployed)
    everybody = [individual(row).encode() for row in range(PEOPLE)]
    log = deployed.folder / "log"
    assert all(person in b"".join(path.read_bytes() for path in log.iterdir()) for person in everybody)

    deployed.do("purge", "--yes")

    left = b"".join(path.read_bytes() for path in log.iterdir())
    assert not any(person in left for person in everybody)


def test_a_study_that_is_not_over_keeps_everything(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded", horizon=3)
    panel = deployed.write_panel(random_symbols("01", PEOPLE, 3, seed=5))
    roles = deployed.start("run")
    deployed.do("send", panel, "--through", 2, "--close")
    roles.says("period released period=2")
    assert roles.stop().code == 0
    topics, state = deployed.all_topics(), files(deployed.state)

    refused = deployed.call("purge", "--yes")

    assert refused.code == 3
    assert refused.complaint.count("\n") == 1
    assert "2 of 3 periods are released" in refused.complaint
    assert (deployed.all_topics(), files(deployed.state)) == (topics, state)


def test_a_folder_that_holds_something_else_is_left_alone(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded", horizon=1, k=1)
    finished(deployed)
    (deployed.state / "thesis.tex").write_text("ten years of work")
    topics = deployed.all_topics()

    refused = deployed.call("purge", "--yes")

    assert refused.code == 3
    assert "thesis.tex" in refused.complaint
    assert (deployed.state / "thesis.tex").exists()
    assert deployed.all_topics() == topics
    (deployed.state / "thesis.tex").unlink()
    deployed.do("purge", "--yes")


def test_what_does_not_verify_is_not_purged(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded", horizon=1, k=1)
    finished(deployed)
    topics = deployed.all_topics()

    async def forge() -> None:
        async with deployed.connect() as log:
            await log.append(deployed.topics.ledger, 0, b"no record")

    asyncio.run(forge())
    assert deployed.call("purge", "--yes").code == 4
    assert deployed.all_topics() == topics
    assert files(deployed.state)
