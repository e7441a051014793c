"""Periods that close by the clock."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.stream.conftest import DeployStudy
from tests.stream.deployed_study import DeployedStudy, random_symbols


def scheduled(start: datetime, every: str = "2s") -> str:
    return f'\n[schedule]\nstart = {start.isoformat(timespec="seconds")}\nevery = "{every}"\n'


def cut_times(deployed: DeployedStudy) -> list[datetime]:
    """When each record of the control topic but the first, the key, was appended."""
    with sqlite3.connect(deployed.folder / "log" / "log.sqlite") as db:
        query = (
            "SELECT at FROM records, partitions p WHERE p.topic = ? AND records.id / (1 << 40) = p.id ORDER BY records.id"
        )
        rows = db.execute(query, (deployed.topics.control,)).fetchall()
    db.close()
    return [datetime.fromtimestamp(at, UTC) for (at,) in rows][1:]


def test_periods_close_by_themselves_and_never_early(deploy_study: DeployStudy) -> None:
    """`--catch-up`, because a slow machine may miss more than one."""
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    deployed = deploy_study("embedded", schedule=scheduled(start, "1s"))
    deployed.do("send", deployed.write_panel(random_symbols("01", 200, 4, seed=14)))

    deployed.start("run", "--until-done", "--catch-up").done()

    assert deployed.status()["released"] == 4
    ends = [start + timedelta(seconds=period) for period in (1, 2, 3, 4)]
    assert all(cut >= end for cut, end in zip(cut_times(deployed), ends, strict=True))


def test_missed_periods_are_closed_only_with_catch_up(deploy_study: DeployStudy) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=2)
    deployed = deploy_study("embedded", schedule=scheduled(long_ago, "1h"))
    deployed.do("send", deployed.write_panel(random_symbols("01", 200, 4, seed=15)))

    refused = deployed.start("run").end()
    assert refused.code == 3
    assert refused.complaint.splitlines()[-1].startswith("streamproc: schedule: period 1 ended at ")
    assert "--catch-up" in refused.complaint.splitlines()[-1]
    assert deployed.ends() == []

    deployed.do("close", "--period", 1)
    refused = deployed.start("synthesize").end()
    assert refused.code == 3
    assert "schedule: periods 2..4 ended and nobody closed them" in refused.complaint
    assert len(deployed.ends()) == 1

    deployed.start("run", "--until-done", "--catch-up").done()
    assert len(deployed.ends()) == 4
    assert deployed.status()["released"] == 4


def test_a_closed_period_is_held_until_its_release_time_over_a_restart(deploy_study: DeployStudy) -> None:
    """The steward closes long before the scheduled cut; then the release times are set to the past."""
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    deployed = deploy_study("embedded", schedule=scheduled(later, "1h") + 'release_after = "30m"\n', horizon=2)
    deployed.do("send", deployed.write_panel(random_symbols("01", 200, 2, seed=16)))
    closed = deployed.do("close", "--period", 1)
    planned = f"{later + timedelta(hours=1.5):%Y-%m-%d %H:%M:%S} UTC"
    assert closed.complaint.splitlines() == [f"period 1 is released at {planned}, not before"]

    roles = deployed.start("run", "--until-done")
    assert planned in roles.says("drawn, waiting for the release time period=1")
    assert roles.stop().code == 0
    assert deployed.status()["released"] == 0
    public = [deployed.topics.ledger, deployed.topics.synthetic("recent"), deployed.topics.synthetic("ever")]
    assert [len(deployed.values(topic, committed=False)) for topic in public] == [1, 0, 0]  # the study record

    deployed.do("close", "--period", 2)
    past = datetime(2026, 1, 1, tzinfo=UTC)
    deployed.write_study(replace(deployed.parameters, schedule=scheduled(past, "1h") + 'release_after = "30m"\n'))
    done = deployed.start("run", "--until-done").done()
    assert done.complaint.count("the release time has passed, publishing late") == 2
    stamps = [[record.timestamp for record in deployed.records(topic)] for topic in public]
    first, second = (round(1000 * (past + timedelta(hours=hours)).timestamp()) for hours in (1.5, 2.5))
    assert sorted(set(stamps[0])) == [0, first, second] and stamps[0] == sorted(stamps[0])
    assert stamps[1] == stamps[2] == [first, first, second]  # the contract and a column, then a column
