"""A real Prometheus scrapes a real run: every query of every dashboard and every rule finds what it asks for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamproc.protocol.rejects import Reason
from tests.deploy import dashboards
from tests.deploy.prometheus import NEEDS_PROMETHEUS, Prometheus, configuration, rules
from tests.stream.conftest import DeployStudy
from tests.stream.deployed_study import DeployedStudy, random_symbols
from tests.stream.programs import Program
from tests.stream.test_listeners import Listeners

pytestmark = NEEDS_PROMETHEUS

SCHEDULE = '\n[schedule]\nstart = 2999-01-01T00:00:00Z\nevery = "month"\n'
"""Far from now: the steward closes by hand, and something is due."""


NAMESPACE = "somewhere"
"""Not the study's name, which the metrics bring with them."""


def address(program: Program, times: int) -> str:
    return program.says("listening", times).rpartition("address=")[2]


@pytest.fixture(scope="module")
def prometheus(shared_study: DeployStudy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """After two periods, with reports that were rejected."""
    folder = tmp_path_factory.mktemp("prometheus")
    token = folder / "operator-token"
    token.write_text("a-token-for-this-test\n")
    deployed = shared_study("embedded", schedule=SCHEDULE)
    environ = {"STREAMPROC_OPERATOR_TOKEN_FILE": str(token)}
    deployed.do("init")
    page = deployed.start("page", *Listeners.ARGUMENTS[:2])
    synthesizer = deployed.start("synthesize", *Listeners.ARGUMENTS[2:], environ=environ)
    gatherer = deployed.start("gather", *Listeners.ARGUMENTS[2:], environ=environ)
    targets = {
        "streamproc-public": [(f"page.{NAMESPACE}", address(page, 1))],
        "streamproc-operator": [
            (f"synthesizer.{NAMESPACE}", address(synthesizer, 1)),
            (f"gatherer.{NAMESPACE}", address(gatherer, 1)),
        ],
    }
    running = Prometheus(folder, configuration(targets, token))
    try:
        running.wait_for(f'streamproc_reports_total{{study="{deployed.study.name}", role="gatherer"}} == 0')
        report(deployed)
        yield running
    finally:
        running.stop()


def report(deployed: DeployedStudy) -> None:
    """Two periods; then reports that are late, and records that are none."""
    panel = deployed.write_panel(random_symbols("01", 200, 4, seed=17))
    deployed.do("send", panel, "--through", 2, "--close")
    deployed.do("close", "--period", 2, "--wait")
    deployed.do("send", panel, "--period", 1)

    async def append() -> None:
        async with deployed.connect() as log:
            await log.append(deployed.topics.reports, 0, b"no report")

    asyncio.run(append())


@pytest.mark.parametrize("path", dashboards.FILES, ids=lambda path: path.stem)
def test_no_query_of_a_dashboard_comes_back_empty(prometheus: Prometheus, path: Path) -> None:
    prometheus.wait_for(*dashboards.queries(dashboards.read(path)))


def test_every_recording_rule_records(prometheus: Prometheus) -> None:
    prometheus.wait_for(*(rule["record"] for rule in rules("record")))


def test_every_series_that_a_rule_selects_exists(prometheus: Prometheus) -> None:
    selectors = {selector for kind in ("alert", "record") for rule in rules(kind)
                 for selector in re.findall(r"(?:\w+:)?\b[a-z]\w+(?::\w+)?\{[^}]*\}", rule["expr"])}  # fmt: skip
    of_open_studies = {'streamproc_present_people{job="streamproc-public"}'}
    assert of_open_studies < selectors
    assert len(selectors) > 20
    prometheus.wait_for(*(selectors - of_open_studies))


def test_rejects_are_counted_by_reason_from_the_first(prometheus: Prometheus) -> None:
    prometheus.wait_for(*(f'increase(streamproc_rejects_total{{reason="{reason}"}}[15m])' for reason in Reason))
    prometheus.wait_for(
        'sum(streamproc_rejects_total{reason="late"}) == 200', 'sum(streamproc_rejects_total{reason="undecodable"}) == 1'
    )


def test_every_metric_has_the_study_of_its_process_and_not_the_namespace(prometheus: Prometheus) -> None:
    prometheus.wait_for(f'{{study="{NAMESPACE}", __name__="up"}}')
    found = prometheus.query('count by (study) ({__name__=~"streamproc_.*|process_.*"})')
    assert len(found) == 1
    assert found[0]["metric"]["study"] != NAMESPACE


def test_every_target_is_up_and_only_the_operators_job_has_what_is_private(prometheus: Prometheus) -> None:
    prometheus.wait_for("count(up == 1) == 3")
    prometheus.wait_for('streamproc_periods_released{job="streamproc-public"}')
    # Not a query that finds nothing: so does one that is not answered. Of a job without any series all would be absent.
    prometheus.wait_for('absent({job="streamproc-public", __name__=~"streamproc_(reports|rejects|lag|people|state).*"})')
    prometheus.wait_for('{job="streamproc-operator", __name__="streamproc_people", role="gatherer"}')


def test_what_is_due_is_shown(prometheus: Prometheus) -> None:
    end = datetime(2999, 4, 1, tzinfo=UTC).timestamp()  # of period 3
    prometheus.wait_for(f"max(streamproc_next_release_timestamp_seconds) == {end:.0f}")
