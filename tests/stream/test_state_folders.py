"""State folders that are old, lost, copied or used twice: refused, or restored, and no draw is ever made again unnoticed."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import msgpack
import pytest

from tests.stream.altered import CRASH_EXIT_CODE
from tests.stream.conftest import BROKERS, ONE_NORMALLY, DeployStudy
from tests.stream.deployed_study import DeployedStudy, random_symbols
from tests.stream.programs import PATIENCE, Program
from tests.stream.public_records import check_published_once, read_public_records


def panel_of(deployed: DeployedStudy) -> Path:
    return deployed.write_panel(random_symbols("01", 200, deployed.parameters.horizon, seed=5))


def complaint_of(program: Program) -> str:
    """What a program says that refuses: one line."""
    ended = program.end()
    assert ended.code == 3, ended.complaint
    (line,) = [line for line in ended.complaint.splitlines() if line.startswith("streamproc: ")]
    return line


def release(deployed: DeployedStudy, panel: Path, period: int) -> None:
    """Run all roles until this period is out."""
    roles = deployed.start("run")
    deployed.do("send", panel, "--period", period, "--close")
    roles.says(f"period released period={period}")
    assert roles.stop().code == 0


def check_refused(deployed: DeployedStudy, role: str, why: str) -> None:
    """Starting is refused for this reason, and changes nothing."""
    before = read_public_records(deployed)
    assert why in complaint_of(deployed.start(role))
    assert read_public_records(deployed) == before


def first_to_end(programs: Sequence[Program]) -> Program:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for program in programs:
            if not program.runs:
                return program
        time.sleep(0.05)
    raise AssertionError("none of them ends")


@pytest.mark.parametrize("broker", BROKERS)
def test_old_or_lost_state_is_refused_and_can_be_restored(deploy_study: DeployStudy, broker: str) -> None:
    deployed = deploy_study(broker)
    panel = panel_of(deployed)
    release(deployed, panel, 1)
    old = shutil.copytree(deployed.state, deployed.folder / "old")
    release(deployed, panel, 2)

    shutil.rmtree(deployed.state)
    old.rename(deployed.state)
    check_refused(deployed, "run", "the state folder is old: it ends at period 1, the ledger at 2")

    shutil.rmtree(deployed.state)
    check_refused(deployed, "run", "the ledger ends at period 2, but the state folder holds nothing")

    assert "as of period 2" in deployed.do("restore").out
    again = deployed.call("restore")
    assert again.code == 3
    assert "holds a state already" in again.complaint

    deployed.do("send", panel, "--close")
    deployed.start("run", "--until-done").done()
    check_published_once(deployed)
    deployed.do("verify")


@pytest.mark.parametrize(("broker", "period"), [("embedded", 1), pytest.param("kafka", 2, marks=pytest.mark.kafka)])
def test_a_lost_draw_that_was_announced_is_paid_for_twice_or_not_made_again(
    deploy_study: DeployStudy, broker: str, period: int
) -> None:
    deployed = deploy_study(broker, horizon=3)
    deployed.do("init")
    gatherer = deployed.start("gather", "--state", deployed.folder / "gatherer")
    deployed.do("send", panel_of(deployed), "--close")
    assert deployed.start_altered(f"after-announce@{period}", "synthesize").end().code == CRASH_EXIT_CODE
    shutil.rmtree(deployed.state)

    lost = f"the ledger ends at period {period - 1}, and the next was announced, but the state folder holds nothing"
    check_refused(deployed, "synthesize", lost)
    refused = deployed.call("restore")
    assert refused.code == 3
    assert f"period {period} was announced" in refused.complaint
    assert not (deployed.state / "synthesizer.state").exists()

    deployed.do("restore", "--accept-cost")
    deployed.start("synthesize").done()
    gatherer.done()
    deployed.do("verify")
    status = deployed.status()
    assert status["rho_spent"] > status["rho"]
    ledger = [msgpack.unpackb(value) for value in deployed.values(deployed.topics.ledger)]
    abandoned = {record["period"]: len(record["abandoned"]) for record in ledger if record["type"] == "period"}
    assert abandoned == {each: int(each == period) for each in (1, 2, 3)}


@pytest.mark.parametrize("broker", ONE_NORMALLY)
def test_two_synthesizers_with_copies_of_one_state_folder_publish_one_draw(deploy_study: DeployStudy, broker: str) -> None:
    deployed = deploy_study(broker, horizon=4)
    panel = panel_of(deployed)
    deployed.do("init")
    deployed.start("gather")
    deployed.do("send", panel, "--through", 3, "--close")
    assert deployed.start_altered("after-persist@2", "synthesize").end().code == CRASH_EXIT_CODE
    shutil.copytree(deployed.state, deployed.folder / "copy")

    both = [deployed.start("synthesize"), deployed.start("synthesize", "--state", deployed.folder / "copy")]

    loser = first_to_end(both)
    assert loser.end().code == 3
    # Not before: one that is slow to start would find the study over, and end well.
    deployed.do("send", panel, "--period", 4, "--close")
    (winner,) = (program for program in both if program is not loser)
    winner.done()
    check_published_once(deployed)
    deployed.do("verify")


@pytest.mark.parametrize("broker", ONE_NORMALLY)
def test_a_second_synthesizer_fences_the_first(deploy_study: DeployStudy, broker: str) -> None:
    deployed = deploy_study(broker)
    panel = panel_of(deployed)
    deployed.do("init")
    gatherer, first = deployed.start("gather"), deployed.start("synthesize")
    deployed.do("send", panel, "--period", 1, "--close")
    first.says("period released period=1")
    assert "another synthesizer is using it" in complaint_of(deployed.start("synthesize"))

    shutil.copytree(deployed.state, deployed.folder / "copy")
    second = deployed.start("synthesize", "--state", deployed.folder / "copy")
    second.says("going on after what is released")
    deployed.do("send", panel, "--close")

    assert sorted((first.end().code, second.end().code)) == [0, 3]
    assert "fenced" in first.log
    gatherer.done()
    check_published_once(deployed)
    verified = json.loads(deployed.do("verify", "--json").out)
    assert verified.items() >= {"study": deployed.parameters.name, "verified": True, "periods": 4, "columns": 8}.items()
