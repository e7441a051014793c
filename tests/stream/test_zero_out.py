"""Wherever a cost of a zero-out study is shown, the cost of the same noise under replace-one stands beside it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from streamproc.cli.formatting import format_epsilon, format_rounded_up
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.releases.replace_one import ReplaceOneCosts, replace_one_costs
from tests.status_page.serving import served
from tests.stream.conftest import DeployStudy
from tests.stream.deployed_study import DeployedStudy, random_symbols

T = 3


@pytest.fixture(scope="module")
def zero_out(shared_study: DeployStudy) -> DeployedStudy:
    """A zero-out study that is over."""
    deployed = shared_study("embedded", horizon=T, adjacency="zero-out")
    roles = deployed.start("run", "--until-done")
    deployed.do("send", deployed.write_panel(random_symbols("01", 200, T, seed=3)), "--close")
    roles.done()
    return deployed


def costs_of(deployed: DeployedStudy) -> ReplaceOneCosts:
    found = replace_one_costs(deployed.study)
    assert found is not None
    return found


def check_status(deployed: DeployedStudy, found: dict[str, Any], releases: dict[str, dict[str, Any]]) -> None:
    costs = costs_of(deployed)
    assert found["rho_replace_one"] == found["rho_spent_replace_one"] == costs.of_study(T) > found["rho_spent"]
    assert found["epsilon_spent_replace_one"] == epsilon_of_rho(costs.of_study(T), found["delta"]) > found["epsilon_spent"]
    for name, release in releases.items():
        assert release["rho_replace_one"] == release["rho_spent_replace_one"] == costs.of_release(name, T)


def test_status_shows_it(zero_out: DeployedStudy) -> None:
    found = zero_out.status()
    check_status(zero_out, found, found["releases"])
    beside = (
        f"the same noise under replace-one: rho {format_rounded_up(found['rho_spent_replace_one'])}, epsilon "
        f"{format_epsilon(found['epsilon_spent_replace_one'])}"
    )
    assert beside in " ".join(zero_out.do("status").out.split())


def test_the_pulled_ledger_shows_it_for_every_period(zero_out: DeployedStudy) -> None:
    zero_out.do("pull", "--out", zero_out.folder / "public")
    periods = json.loads((zero_out.folder / "public" / "ledger.json").read_text())["periods"]
    costs = costs_of(zero_out)
    assert [period["rho_spent_replace_one"] for period in periods] == [costs.of_study(t) for t in range(1, T + 1)]
    assert periods[-1]["releases"]["recent"]["rho_spent_replace_one"] == costs.of_release("recent", T)


def test_the_status_page_shows_it(zero_out: DeployedStudy) -> None:
    async def ask() -> tuple[dict[str, Any], dict[str, Any]]:
        async with zero_out.connect() as log, served(log, zero_out.study) as asking:
            status = await asking.status_when(lambda found: found["released"] == T)
            return status, await asking.plain("/api/v1/ledger")

    status, ledger = asyncio.run(ask())
    check_status(zero_out, status, {release["name"]: release for release in status["releases"]})
    assert status["epsilon_replace_one"] == status["epsilon_spent_replace_one"] > status["epsilon"]
    assert [period["rho_spent_replace_one"] for period in ledger["periods"]] == [
        costs_of(zero_out).of_study(t) for t in range(T, 0, -1)
    ]
