"""Whole studies over reports of every kind, by gatherers in processes of their own: tallies, rejects and columns."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stream.conftest import BROKERS, DeployStudy
from tests.stream.deployed_study import DeployedStudy, individual
from tests.stream.exact import check_columns, check_rejects, check_tallies, models
from tests.stream.report_traffic import ReportTraffic, send_raw

BINARY: dict[str, Any] = {}
FOUR_LEVELS: dict[str, Any] = {
    "alphabet": ("A", "B", "C", "D"),
    "event": ("C", "D"),
    "horizon": 5,
    "roster": "people.txt",
    "duplicates": "last",
}
PEOPLE = [individual(row) for row in range(200)]


def begun(deployed: DeployedStudy) -> None:
    """Topics are there, and the roster if the study wants one: a few of its people never report."""
    if deployed.parameters.roster is not None:
        (deployed.folder / deployed.parameters.roster).write_text(
            "".join(f"{each}\n" for each in [*PEOPLE, "silent-1", "silent-2"])
        )
    deployed.do("init")


def traffic(deployed: DeployedStudy, seed: int) -> ReportTraffic:
    parameters = deployed.parameters
    return ReportTraffic(PEOPLE, parameters.alphabet, parameters.horizon, parameters.partitions, seed)


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize("kind", [BINARY, FOUR_LEVELS], ids=["binary", "four-levels"])
def test_pinned_gatherers_tally_what_the_model_says(deploy_study: DeployStudy, broker: str, kind: dict[str, Any]) -> None:
    deployed = deploy_study(broker, **kind)
    begun(deployed)
    synthesizer = deployed.start_altered("silent", "synthesize", "--state", deployed.folder / "synthesizer")
    gatherers = [
        deployed.start("gather", "--partition", 0, "--partition", 1, "--state", deployed.folder / "one"),
        deployed.start("gather", "--partition", 2, "--partition", 3, "--state", deployed.folder / "two"),
    ]
    raw_records = traffic(deployed, seed=3)

    for period in range(1, deployed.parameters.horizon + 1):
        send_raw(deployed, raw_records.of(period))
        deployed.do("close", "--period", period)
    for program in (synthesizer, *gatherers):
        program.done()

    expected = models(deployed)
    check_tallies(deployed, expected)
    check_rejects(deployed, expected)
    check_columns(deployed, expected)


@pytest.mark.parametrize("broker", BROKERS)
def test_gatherers_come_and_go_and_nothing_is_counted_twice(deploy_study: DeployStudy, broker: str) -> None:
    """A second joins after period 1; the first is killed after period 2. Their state folders are on different machines."""
    deployed = deploy_study(broker, **FOUR_LEVELS)
    begun(deployed)
    synthesizer = deployed.start_altered("silent", "synthesize", "--state", deployed.folder / "synthesizer")
    first = deployed.start("gather", "--state", deployed.folder / "one")
    raw_records = traffic(deployed, seed=4)

    send_raw(deployed, raw_records.of(1))
    deployed.do("close", "--period", 1)
    synthesizer.says("period released period=1")
    second = deployed.start("gather", "--state", deployed.folder / "two")
    send_raw(deployed, raw_records.of(2))
    deployed.do("close", "--period", 2)
    second.says("tallied")
    first.kill()
    for period in range(3, deployed.parameters.horizon + 1):
        send_raw(deployed, raw_records.of(period))
        deployed.do("close", "--period", period)
    for program in (synthesizer, second):
        program.done()

    expected = models(deployed)
    check_tallies(deployed, expected)
    check_rejects(deployed, expected)
    check_columns(deployed, expected)
