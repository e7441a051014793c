"""Periods that close by the clock."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

from tests.stream.conftest import NewPlace
from tests.stream.places import Place, random_symbols


def scheduled(start: datetime, every: str = "2s") -> str:
    return f'\n[schedule]\nstart = {start.isoformat(timespec="seconds")}\nevery = "{every}"\n'


def cut_times(place: Place) -> list[datetime]:
    """When each record of the control topic but the first, the key, was appended."""
    with sqlite3.connect(place.folder / "log" / "log.sqlite") as db:
        query = (
            "SELECT at FROM records, partitions p WHERE p.topic = ? AND records.id / (1 << 40) = p.id ORDER BY records.id"
        )
        rows = db.execute(query, (place.topics.control,)).fetchall()
    db.close()
    return [datetime.fromtimestamp(at, UTC) for (at,) in rows][1:]


def test_periods_close_by_themselves_and_never_early(new_place: NewPlace) -> None:
    """`--catch-up`, because a slow machine may miss more than one."""
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    place = new_place("embedded", schedule=scheduled(start, "1s"))
    place.do("send", place.write_panel(random_symbols("01", 200, 4, seed=14)))

    place.start("run", "--until-done", "--catch-up").done()

    assert place.status()["released"] == 4
    ends = [start + timedelta(seconds=period) for period in (1, 2, 3, 4)]
    assert all(cut >= end for cut, end in zip(cut_times(place), ends, strict=True))


def test_missed_periods_are_closed_only_when_told(new_place: NewPlace) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=2)
    place = new_place("embedded", schedule=scheduled(long_ago, "1h"))
    place.do("send", place.write_panel(random_symbols("01", 200, 4, seed=15)))

    refused = place.start("run").end()
    assert refused.code == 3
    assert refused.complaint.splitlines()[-1].startswith("streamproc: schedule: period 1 ended at ")
    assert "--catch-up" in refused.complaint.splitlines()[-1]
    assert place.ends() == []

    place.do("close", "--period", 1)
    refused = place.start("synthesize").end()
    assert refused.code == 3
    assert "schedule: periods 2..4 ended and nobody closed them" in refused.complaint
    assert len(place.ends()) == 1

    place.start("run", "--until-done", "--catch-up").done()
    assert len(place.ends()) == 4
    assert place.status()["released"] == 4
