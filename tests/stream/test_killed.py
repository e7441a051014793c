"""A synthesizer that dies, at whatever point: what it drew comes out once, the same bytes, and nothing else is ever seen."""

from __future__ import annotations

import pytest

from tests.stream.altered import CRASH_EXIT_CODE, POINTS
from tests.stream.conftest import BROKERS, ONE_NORMALLY, DeployStudy
from tests.stream.deployed_study import DeployedStudy, random_symbols
from tests.stream.public_records import check_published_once


def prepared(deployed: DeployedStudy) -> None:
    """Everybody's reports are there, all periods are closed, and a gatherer is at work."""
    panel = deployed.write_panel(random_symbols("01", 200, deployed.parameters.horizon, seed=2))
    deployed.do("init")
    deployed.start("gather")
    deployed.do("send", panel, "--close", "--packed")


def dies(deployed: DeployedStudy, point: str) -> None:
    assert deployed.start_altered(point, "synthesize").end().code == CRASH_EXIT_CODE


@pytest.mark.parametrize("broker", BROKERS)
def test_a_synthesizer_that_dies_once_in_every_period_goes_on_with_what_it_drew(
    deploy_study: DeployStudy, broker: str
) -> None:
    deployed = deploy_study(broker, horizon=len(POINTS))
    prepared(deployed)

    for point in POINTS:
        dies(deployed, point)
    deployed.start("synthesize").done()

    check_published_once(deployed)
    deployed.do("verify")


@pytest.mark.parametrize("broker", ONE_NORMALLY)
def test_a_draw_that_is_interrupted_at_every_point_comes_out_once(deploy_study: DeployStudy, broker: str) -> None:
    deployed = deploy_study(broker, horizon=2)
    prepared(deployed)

    for point in ("before-persist", "after-persist", "!after-announce", "!inside-transaction", "!after-commit"):
        dies(deployed, point)
    deployed.start("synthesize").done()

    check_published_once(deployed)
    deployed.do("verify")
