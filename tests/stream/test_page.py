"""`page`: the status page in a process of its own, which reads what is public and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.stream.conftest import BROKERS, DeployStudy
from tests.stream.deployed_study import random_symbols
from tests.stream.programs import Program
from tests.stream.test_life import NOBODY
from tests.stream.test_listeners import ask, check_public, samples, samples_when, two_are_released

PUBLIC = ("--public", "127.0.0.1:0")


def address_of(page: Program) -> str:
    return page.says("listening").rpartition("address=")[2]


def status_of(address: str) -> dict[str, Any]:
    code, text = ask(address, "/api/v1/status")
    assert code == 200
    return dict(json.loads(text))


@pytest.mark.parametrize("broker", BROKERS)
def test_it_waits_for_the_study_and_shows_what_is_released(deploy_study: DeployStudy, broker: str, tmp_path: Path) -> None:
    deployed = deploy_study(broker, rho=0.01)
    panel = deployed.write_panel(random_symbols("01", 200, 4, seed=13))
    page = deployed.start("page", *PUBLIC, "--state", tmp_path / "page.state")
    address = address_of(page)
    before = samples_when(address, lambda found: ("streamproc_periods_released", ()) in found)
    assert before["streamproc_periods_released", ()] == 0
    assert (ask(address, "/livez")[0], ask(address, "/readyz")[0]) == (200, 200)
    assert status_of(address)["state"] == "waiting"
    assert deployed.all_topics() == set(), "it creates nothing"
    assert broker == "kafka" or not (deployed.folder / "log").exists()

    roles = deployed.start("run")
    deployed.do("send", panel, "--through", 2, "--close")
    check_public(deployed, samples_when(address, two_are_released), released=2)
    assert roles.stop().code == 0, "it has no lock and no state folder that the roles would need"

    found = status_of(address)
    assert (found["state"], found["released"]) == ("running", 2)
    assert ask(address, "/api/v1/releases/recent.csv")[1].startswith("synthetic,1,2\n")
    assert ask(address, "/")[0] == 200
    assert page.stop().code == 0
    assert not (tmp_path / "page.state").exists()


def test_it_stays_when_the_study_is_over(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded", horizon=2)
    roles = deployed.start("run", "--until-done")
    deployed.do("send", deployed.write_panel(random_symbols("01", 200, 2, seed=13)), "--close")
    roles.done()
    page = deployed.start("page", *PUBLIC)
    page.says("the study is over")
    address = address_of(page)
    assert status_of(address)["state"] == "over"
    assert ask(address, "/readyz")[0] == 200
    assert page.stop().code == 0


def test_it_waits_for_a_broker_that_is_away(deploy_study: DeployStudy) -> None:
    page = deploy_study("embedded").start("page", "--broker", NOBODY, *PUBLIC)
    page.says("the broker is away, trying again")
    address = address_of(page)
    assert (ask(address, "/livez")[0], ask(address, "/readyz")[0]) == (200, 503)
    assert samples(address) == {}
    assert page.stop().code == 0


def test_it_needs_an_address_to_listen_on(deploy_study: DeployStudy) -> None:
    ended = deploy_study("embedded").call("page")
    assert (ended.code, ended.complaint.count("\n")) == (2, 1)
    assert "--public" in ended.complaint


def test_it_loads_neither_noise_nor_roles() -> None:
    program = "import sys, streamproc.cli.commands.page; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    unwanted = ("opendp", "streamproc.gatherer", "streamproc.synthesizer.worker", "streamproc.service.workers")
    assert "streamproc.status_page" in loaded
    assert not [module for module in loaded if module.startswith(unwanted)]
