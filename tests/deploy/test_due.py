"""How far the releases are and when the next is due, as the operator's metrics show it."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from streamproc.service.deployment import Deployment
from streamproc.service.monitor import ProcessMonitor
from tests.stream.conftest import DeployStudy

PAST = '\n[schedule]\nstart = 2001-01-01T00:00:00Z\nevery = "month"\n'


def shown(health: ProcessMonitor, name: str) -> float | None:
    found = [sample for family in health.operator.registry.collect() for sample in family.samples]
    return next((sample.value for sample in found if sample.name == name), None)


def due(health: ProcessMonitor) -> float | None:
    return shown(health, "streamproc_next_release_timestamp_seconds")


def test_the_released_period_is_shown_once_the_ledger_is_read(deploy_study: DeployStudy) -> None:
    health = ProcessMonitor(Deployment.of(deploy_study("embedded").file))
    assert shown(health, "streamproc_released_period") is None
    health.show_ledger(None)
    assert shown(health, "streamproc_released_period") == 0


def test_a_process_that_has_not_read_the_ledger_calls_nothing_overdue(deploy_study: DeployStudy) -> None:
    health = ProcessMonitor(Deployment.of(deploy_study("embedded", schedule=PAST).file))
    assert due(health) is None  # not +Inf either: the largest of all processes counts, and would hide what others know
    health.show_ledger(None)
    assert due(health) == datetime(2001, 2, 1, tzinfo=UTC).timestamp()


def test_a_release_is_due_at_its_release_time(deploy_study: DeployStudy) -> None:
    health = ProcessMonitor(Deployment.of(deploy_study("embedded", schedule=f'{PAST}release_after = "36h"\n').file))
    health.show_ledger(None)
    assert due(health) == datetime(2001, 2, 2, 12, tzinfo=UTC).timestamp()


def test_nothing_is_due_without_a_schedule(deploy_study: DeployStudy) -> None:
    health = ProcessMonitor(Deployment.of(deploy_study("embedded").file))
    health.show_ledger(None)
    assert due(health) == math.inf
