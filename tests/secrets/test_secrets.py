"""Nobody learns from anything but a noisy release who somebody is, what they reported, or how many did."""

from __future__ import annotations

import sqlite3
import stat

from tests.secrets.planted import (
    PEOPLE,
    counts_in,
    marks_in,
    murmur,
    numbers_in,
    numbers_of,
    plain_hashes,
)
from tests.secrets.scenario import Seen
from tests.stream.deployed_study import DeployedStudy
from tests.stream.public_records import read_public_records


def test_no_process_says_who_or_what(seen: Seen) -> None:
    said = {name: program.out + program.log for name, program in seen.processes.items()}
    said |= {name: ended.out + ended.complaint for name, ended in seen.commands.items() if name not in seen.public}

    assert all(text for name, text in said.items() if name != "crashing")
    assert {name: marks for name, text in said.items() if (marks := marks_in(text))} == {}
    assert [name for name, text in said.items() if "SECRETSYMBOL" in text] == []


def test_no_process_says_how_many(seen: Seen) -> None:
    assert len(seen.counts) > 15
    assert counts_in({3_919.0, 3_919 / PEOPLE}, seen.counts) == {3_919.0, 3_919 / PEOPLE}, "the search itself works"

    for name, program in seen.processes.items():
        if name != "send":  # its user, who has the file, may know how many reports it sent
            assert counts_in(numbers_in(program.out + program.log), seen.counts) == set(), name


def test_the_operator_learns_neither_who_nor_what(seen: Seen) -> None:
    shown = "".join(seen.operator.values())

    assert "streamproc_reports_total" in shown
    assert marks_in(shown) == set()
    assert "SECRETSYMBOL" not in shown


def test_everybody_learns_only_what_is_released(seen: Seen) -> None:
    assert "SECRETSYMBOL" in seen.public["/api/v1/bins?release=recent"], "which symbols there are is public"
    for name, text in seen.public.items():
        assert marks_in(text) == set(), name
        # Rows are numbered; the numbers of records are looked at below.
        if ".csv" not in name and "/records/" not in name:
            assert counts_in(numbers_in(text), seen.counts) == set(), name
    for path in seen.pulled.iterdir():
        content = path.read_text()
        assert marks_in(content) == set(), path.name
        if path.suffix == ".json":
            assert counts_in(numbers_in(content), seen.counts) == set(), path.name


def test_public_topics_hold_no_id_and_no_exact_count(deployed: DeployedStudy, seen: Seen) -> None:
    for topic, values in read_public_records(deployed).items():
        assert values
        for value in values:
            assert marks_in(value) == set(), topic
            assert counts_in(numbers_of(value), seen.counts) == set(), topic


def test_rejects_say_where_and_why_but_not_whose(deployed: DeployedStudy) -> None:
    values = deployed.values(deployed.topics.rejects)
    reasons = b"".join(values)

    for reason in ("undecodable", "unknown-symbol", "unknown-person", "period-out-of-range", "late", "duplicate", "foreign"):
        assert reason.encode() in reasons
    assert marks_in(reasons) == set()
    assert b"SECRETSYMBOL" not in reasons


def test_ids_are_in_the_reports_topic_only(deployed: DeployedStudy) -> None:
    reports = b"".join((record.key or b"") + (record.value or b"") for record in deployed.records(deployed.topics.reports))
    assert "SECRET-ID" in marks_in(reports), "the search itself works"

    for topic in deployed.all_topics() - {deployed.topics.reports}:
        for record in deployed.records(topic, committed=False):
            assert marks_in((record.key or b"") + (record.value or b"")) == set(), topic


def test_the_state_folder_is_its_owners_and_knows_nobody_by_name(deployed: DeployedStudy, seen: Seen) -> None:
    assert stat.S_IMODE(deployed.state.stat().st_mode) == 0o700
    files = {path.name: path for path in deployed.state.iterdir()}
    assert {"synthesizer.state", "synthesizer.settled", "gather-0.state", "gather-1.state"} <= files.keys()
    files |= {f"{lost.name}, lost": lost for lost in (deployed.folder / "lost").glob("*")}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o600}
    for name, path in files.items():
        content = path.read_bytes()
        assert marks_in(content) == set(), name
        for row in range(30):
            assert [kind for kind, digest in plain_hashes(row).items() if digest in content] == [], name
        # Chance finds three of these in 400 kB once in ten million runs.
        assert sum(part in content for row in range(10) for part in murmur(row)) <= 2, name


def test_after_a_purge_no_file_knows_anybody(deployed: DeployedStudy, seen: Seen) -> None:
    if not deployed.url.startswith("embedded:"):
        assert seen.purged is None, "topics that are gone are gone on any broker, and files are the broker's own"
        return
    assert seen.purged is not None
    assert marks_in((deployed.folder / "log" / "log.sqlite").read_bytes()), "the search itself works"

    left = {path.relative_to(seen.purged): path.read_bytes() for path in seen.purged.rglob("*") if path.is_file()}

    assert {str(name) for name in left} >= {"study.toml", "log/log.sqlite"}
    assert {str(name): marks for name, content in left.items() if (marks := marks_in(content))} == {}
    assert not (seen.purged / deployed.state.name).exists()


def test_an_embedded_log_is_its_owners(deployed: DeployedStudy) -> None:
    folder = deployed.folder / "log"
    if not deployed.url.startswith("embedded:"):
        assert not folder.exists()
        return
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    with sqlite3.connect(folder / "log.sqlite") as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in set(tables) - {"records"}:
            assert marks_in(repr(db.execute(f"SELECT * FROM {table}").fetchall())) == set(), table
    db.close()
