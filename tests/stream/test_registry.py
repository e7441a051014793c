"""Streams in the site registry: a restart is the same stream, another broker is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from streamproc.protocol.registry_format import Entry
from streamproc.service.registration import NOBODY_KNOWN, NOT_CHECKED, OTHERS_UNKNOWN
from streamproc.storage.site_registry import SiteRegistry
from tests.stream.conftest import BROKERS, DeployStudy
from tests.stream.deployed_study import DeployedStudy, individual, random_symbols

T, PEOPLE = 2, 60


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteRegistry:
    monkeypatch.setenv("STREAMPROC_REGISTRY", str(tmp_path / "registry"))
    return SiteRegistry(tmp_path / "registry")


def rostered(deploy_study: DeployStudy, broker: str = "embedded") -> DeployedStudy:
    """A study of two periods with a roster."""
    deployed = deploy_study(broker, horizon=T, people=PEOPLE, roster="people.txt")
    (deployed.folder / "people.txt").write_text("".join(f"{individual(row)}\n" for row in range(PEOPLE)))
    return deployed


def panel_of(deployed: DeployedStudy) -> Path:
    return deployed.write_panel(random_symbols("01", PEOPLE, T, seed=2))


def entries(registry: SiteRegistry) -> tuple[Entry, ...]:
    found = registry.read()
    assert found is not None
    return found.entries


@pytest.mark.parametrize("broker", BROKERS)
def test_a_restart_is_the_same_stream_and_a_replay_is_not(
    broker: str, deploy_study: DeployStudy, registry: SiteRegistry
) -> None:
    deployed = rostered(deploy_study, broker)
    panel = panel_of(deployed)
    first = deployed.start("run")
    first.says("created the site registry")
    deployed.do("send", panel, "--period", 1)
    deployed.do("close", "--period", 1, "--wait")
    first.stop()

    second = deployed.start("run", "--until-done")
    deployed.do("send", panel, "--period", 2, "--close")
    second.done()
    (entry,) = entries(registry)
    assert (entry.what, entry.study, entry.rho, entry.again) == ("stream", deployed.parameters.name, 0.5, False)
    assert entry.people is not None
    assert entry.people.n == PEOPLE
    assert entry.broker == (f"embedded:{deployed.folder / 'log'}" if broker == "embedded" else deployed.url)

    refused = deployed.call("replay", panel, "--out", deployed.folder / "out")
    assert (refused.code, f"stream of {deployed.parameters.name}" in refused.complaint) == (3, True)
    deployed.do("replay", panel, "--out", deployed.folder / "out", "--again")
    assert deployed.status()["registry"]["rho"] == 1.0


def test_the_same_study_on_another_broker_is_refused(deploy_study: DeployStudy, registry: SiteRegistry) -> None:
    deployed = rostered(deploy_study)
    begun = deployed.start("run")
    begun.says("created the site registry")
    deployed.do("status")
    begun.stop()

    elsewhere = ("--broker", f"embedded:{deployed.folder / 'another'}", "--state", deployed.folder / "another.state")
    for command in ("run", "synthesize"):
        refused = deployed.start(command, *elsewhere).end()
        assert (refused.code, "--again accepts that" in refused.complaint) == (3, True)
    accepted = deployed.start("run", *elsewhere, "--again")
    accepted.says("the people are registered under other releases too: costs add up")
    accepted.stop()
    assert [entry.again for entry in entries(registry)] == [False, True]


def test_without_a_roster_the_study_is_recognised_and_its_people_are_not(
    deploy_study: DeployStudy, registry: SiteRegistry
) -> None:
    deployed = deploy_study("embedded", horizon=T, people=PEOPLE)
    begun = deployed.start("run")
    begun.says(NOBODY_KNOWN)
    begun.stop()
    (entry,) = entries(registry)
    assert entry.people is None

    refused = deployed.start(
        "run", "--broker", f"embedded:{deployed.folder / 'another'}", "--state", deployed.folder / "other"
    ).end()
    assert refused.code == 3
    other = deploy_study("embedded", horizon=T, people=PEOPLE)
    other.do("replay", panel_of(other), "--out", other.folder / "out")
    found = json.loads(other.do("status", "--json").out)["registry"]
    assert (found["releases"], found["unknown"]) == (1, 1)
    assert "1 stream without a roster, whose people it cannot recognise" in other.do("status").out
    third = rostered(deploy_study)
    begun = third.start("run", "--again")
    begun.says(OTHERS_UNKNOWN)
    begun.stop()


def test_a_log_that_has_moved_is_the_same_stream(deploy_study: DeployStudy, registry: SiteRegistry) -> None:
    deployed = rostered(deploy_study)
    begun = deployed.start("run")
    begun.says("created the site registry")
    deployed.do("send", panel_of(deployed), "--close")
    deployed.do("close", "--period", 1, "--wait")
    begun.stop()
    shutil.move(deployed.folder / "log", deployed.folder / "moved")
    deployed.start("run", "--broker", f"embedded:{deployed.folder / 'moved'}", "--until-done").done()
    assert len(entries(registry)) == 1


def test_without_a_registry_a_new_stream_says_what_nobody_checks(deploy_study: DeployStudy) -> None:
    deployed = rostered(deploy_study)
    begun = deployed.start("run")
    begun.says(NOT_CHECKED)
    deployed.do("send", panel_of(deployed), "--close")
    deployed.do("close", "--period", 1, "--wait")
    begun.stop()
    assert NOT_CHECKED not in deployed.start("run", "--until-done").done().complaint
