"""The commands of a steward and of anybody else, on a study that has not begun, on one under way and on one that is over."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgpack
import numpy as np
import pytest

from streamproc.cli.formatting import INSECURE, format_epsilon
from tests.broker import KafkaBroker
from tests.stream.conftest import BROKERS, DeployStudy
from tests.stream.deployed_study import DeployedStudy, random_symbols
from tests.stream.programs import PATIENCE
from tests.stream.public_records import RELEASES

T = 4

RHO = 0.50002
"""Of the study that is over; the nearest to four digits would be less than was spent."""


@pytest.fixture(scope="module", params=BROKERS)
def finished(request: pytest.FixtureRequest, shared_study: DeployStudy) -> DeployedStudy:
    """A study that is over, which the tests only read."""
    deployed = shared_study(request.param, rho=RHO)
    panel = deployed.write_panel(random_symbols("01", 200, T, seed=8))
    roles = deployed.start("run", "--until-done")
    watcher = deployed.start("watch", "--json")
    deployed.do("send", panel, "--close")
    roles.done()
    (deployed.folder / "watched").write_text(watcher.done().out)
    return deployed


@pytest.fixture(params=BROKERS)
def fresh(request: pytest.FixtureRequest, deploy_study: DeployStudy) -> DeployedStudy:
    """A study of which there is a file and nothing else."""
    return deploy_study(request.param)


def nothing_was_created(deployed: DeployedStudy) -> bool:
    return not deployed.all_topics() and {path.name for path in deployed.folder.iterdir()} <= {"study.toml", "out"}


def test_before_a_study_has_begun_there_is_nothing_to_see_and_nothing_is_created(fresh: DeployedStudy) -> None:
    status = fresh.status()
    assert (status["study"], status["horizon"]) == (fresh.parameters.name, T)
    assert (status["watermark"], status["released"], status["rho_spent"], status["epsilon_spent"]) == (0, 0, 0, 0)
    assert status["releases"]["recent"] == {"n_star": None, "n_pad": None, "rho": 0.25, "rho_spent": 0, "clamped": 0}
    assert "0 of 4 periods" in fresh.do("status").out
    looked = fresh.call("verify")
    assert (looked.code, looked.out) == (6, "")
    assert looked.complaint.startswith(f"streamproc: study {fresh.parameters.name}: there is no ledger of this study here")
    assert len(looked.complaint.splitlines()) == 1
    as_json = fresh.call("verify", "--json")
    assert (as_json.code, as_json.complaint) == (6, looked.complaint)
    verified = json.loads(as_json.out)
    assert (verified["verified"], verified["columns"], verified["head"]) == (None, 0, None)
    fresh.do("pull", "--out", fresh.folder / "out")
    assert json.loads((fresh.folder / "out" / "ledger.json").read_text()) == {"study": None, "periods": []}
    assert "kafka-acls" in fresh.do("init", "--print").out
    assert nothing_was_created(fresh)


def test_send_and_close_work_with_no_process_up(fresh: DeployedStudy) -> None:
    panel = fresh.write_panel(random_symbols("01", 200, T, seed=9))
    fresh.do("send", panel, "--through", 2)
    partitions = [fresh.values(fresh.topics.reports, partition) for partition in range(4)]
    assert sum(map(len, partitions)) == 400

    fresh.do("close", "--period", 1)
    fresh.do("close", "--period", 1)
    assert fresh.ends() == [tuple(map(len, partitions))]
    too_early = fresh.call("close", "--period", 3)
    assert too_early.code == 2
    assert too_early.complaint == "streamproc: period 3: period 2 must be closed first\n"
    beyond = fresh.call("close", "--period", 5)
    assert beyond.code == 2
    assert beyond.complaint == "streamproc: --period 5: the study has periods 1..4\n"
    assert len(fresh.ends()) == 1

    fresh.do("send", panel, "--period", 3)
    assert fresh.do("init").out.startswith("all topics are there")
    assert fresh.status()["released"] == 0


def test_close_can_wait_until_the_period_is_released(fresh: DeployedStudy) -> None:
    panel = fresh.write_panel(random_symbols("01", 200, T, seed=10))
    fresh.do("send", panel, "--period", 1)
    waiting = fresh.start("close", "--period", 1, "--wait")
    fresh.start("run")
    waiting.done()
    assert fresh.status()["released"] == 1
    assert fresh.status()["watermark"] == 1


def test_a_study_that_is_over_is_done_at_once(finished: DeployedStudy) -> None:
    finished.start("run", "--until-done").done()
    finished.start("gather").done()
    finished.start("synthesize").done()


def test_status_says_what_was_spent(finished: DeployedStudy) -> None:
    status = finished.status()
    assert set(status) >= {
        "study",
        "horizon",
        "watermark",
        "released",
        "rho",
        "rho_spent",
        "epsilon_spent",
        "delta",
        "releases",
    }
    assert (status["watermark"], status["released"]) == (T, T)
    assert status["rho"] == RHO
    assert RHO - 1e-12 <= status["rho_spent"] <= RHO
    for release in RELEASES:
        assert set(status["releases"][release]) == {"n_star", "n_pad", "rho", "rho_spent", "clamped"}
        # The float next to the half of the decimal that the file states lies above it.
        assert status["releases"][release]["rho"] == math.nextafter(RHO / 2, 0)
    window = status["releases"]["recent"]
    assert window["n_star"] == 200 + 4 * window["n_pad"]
    assert status["releases"]["ever"]["n_star"] == 200
    shown = " ".join(finished.do("status").out.split())
    assert "4 of 4 periods released, rho 0.5001 of 0.5001 spent" in shown
    assert shown.count(" 0.2501 0.2501 ") == len(RELEASES)
    assert f"epsilon {format_epsilon(status['epsilon_spent'])} at delta 1e-6" in shown


def test_watch_ends_quietly_when_nobody_reads_its_lines_any_more(finished: DeployedStudy) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "streamproc", "watch", str(finished.file)]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


def test_watch_ends_when_its_reader_goes_away_though_no_column_comes(fresh: DeployedStudy) -> None:
    """As `watch STUDY | head -1` does; the next column may be a month away."""
    read, write = os.pipe()
    command = [sys.executable, "-m", "streamproc", "watch", str(fresh.file), "--broker", fresh.url]
    with subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE, text=True) as watching:
        os.close(write)
        assert watching.stderr is not None
        assert "waiting for" in watching.stderr.readline()
        os.close(read)
        assert watching.wait(PATIENCE) == 128 + signal.SIGPIPE


def test_what_a_seed_made_says_so_wherever_it_is_seen(deploy_study: DeployStudy, tmp_path: Path) -> None:
    deployed = deploy_study("embedded", horizon=2, partitions=1)
    deployed.do("send", deployed.write_panel(random_symbols("01", 200, 2, seed=8)), "--close")
    seeded = deployed.start("run", "--until-done", "--seed", 5)
    seeded.done()
    assert INSECURE in seeded.log
    for command in (["verify"], ["watch"], ["pull", "--out", tmp_path / "pulled"]):
        assert deployed.do(*command).complaint.splitlines()[-1] == INSECURE
    assert json.loads(deployed.do("verify", "--json").out)["insecure"] is True
    assert all(json.loads(line)["insecure"] for line in deployed.do("watch", "--json").out.splitlines())
    assert INSECURE in deployed.do("status").out


def test_watch_prints_a_line_for_each_column_and_ends(finished: DeployedStudy) -> None:
    lines = [json.loads(line) for line in (finished.folder / "watched").read_text().splitlines()]
    assert all(set(line) == {"release", "period", "rows", "digest"} for line in lines)
    for release in RELEASES:
        assert [line["period"] for line in lines if line["release"] == release] == [1, 2, 3, 4]
        rows = finished.status()["releases"][release]["n_star"]
        assert {line["rows"] for line in lines if line["release"] == release} == {rows}

    again = [json.loads(line) for line in finished.do("watch", "--json").out.splitlines()]
    assert sorted(again, key=lambda line: (line["release"], line["period"])) == sorted(
        lines, key=lambda line: (line["release"], line["period"])
    )
    people = finished.do("watch", "--release", "ever").out.splitlines()
    assert [line.split(":")[0] for line in people] == [f"ever period {period}" for period in (1, 2, 3, 4)]
    unknown = finished.call("watch", "--release", "never")
    assert (unknown.code, unknown.complaint) == (2, "streamproc: release: got 'never', allowed: recent, ever\n")


def test_watch_says_once_and_to_people_what_it_waits_for(fresh: DeployedStudy) -> None:
    watcher = fresh.start("watch")
    said = f"{fresh.url}: waiting for period 1 of recent, period 1 of ever; Ctrl-C ends"
    assert watcher.says("waiting for") == said
    assert nothing_was_created(fresh)
    stopped = watcher.stop()
    assert (stopped.code, stopped.out, stopped.complaint) == (0, "", f"{said}\n")


def test_pull_writes_the_columns_in_the_order_of_the_topic(finished: DeployedStudy, tmp_path: Path) -> None:
    finished.do("pull", "--out", tmp_path / "out")
    ledger = json.loads((tmp_path / "out" / "ledger.json").read_text())
    assert [record["period"] for record in ledger["periods"]] == [1, 2, 3, 4]
    watched = [json.loads(line) for line in (finished.folder / "watched").read_text().splitlines()]
    digests = {(line["release"], str(line["period"])): line["digest"] for line in watched}
    for release in RELEASES:
        with (tmp_path / "out" / f"{release}.csv").open(newline="") as file:
            header, *rows = csv.reader(file)
        assert header == ["synthetic", "1", "2", "3", "4"]
        assert [row[0] for row in rows] == [str(number) for number in range(len(rows))]
        in_ledger = {
            period: digest
            for record in ledger["periods"]
            for period, digest in record["releases"][release]["columns"].items()
        }
        assert in_ledger == {period: digest for (name, period), digest in digests.items() if name == release}
        from_topic = np.concatenate([symbols(value) for value in finished.values(finished.topics.synthetic(release))[1:]])
        assert np.array(rows)[:, 1:].astype(int).T.ravel().tolist() == from_topic.tolist()


def test_pull_writes_parquet_when_asked_and_deletes_nothing(finished: DeployedStudy, tmp_path: Path) -> None:
    finished.do("pull", "--out", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ever.csv", "ledger.json", "recent.csv"]
    finished.do("pull", "--out", tmp_path, "--parquet")
    finished.do("pull", "--out", tmp_path)
    assert {path.stem for path in tmp_path.glob("*.parquet")} == set(RELEASES)


def test_pull_replaces_an_earlier_pull_only_by_what_continues_it(
    finished: DeployedStudy, deploy_study: DeployStudy, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    other = deploy_study("embedded")
    released = other.start("run", "--until-done")
    other.do("send", other.write_panel(random_symbols("01", other.parameters.people, 4, seed=5)), "--close")
    assert released.end().code == 0
    finished.do("pull", "--out", out)
    finished.do("pull", "--out", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    missing = deploy_study("embedded").call("pull", "--out", out)
    another = other.call("pull", "--out", out)
    assert (missing.code, another.code) == (0, 4)
    assert "holds no ledger of" in missing.complaint
    assert "its head is not in the ledger that was read" in another.complaint
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_pull_without_what_parquet_needs_writes_nothing(
    finished: DeployedStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ended = finished.call("pull", "--out", tmp_path / "out", "--parquet")
    assert (ended.code, ended.complaint) == (2, "streamproc: this needs pyarrow: pip install streamproc[frames]\n")
    assert not (tmp_path / "out").exists()


def symbols(value: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The rows of a column of a binary release."""
    column = msgpack.unpackb(value)
    return np.unpackbits(np.frombuffer(column["data"], dtype=np.uint8))[: column["rows"]]


def test_verify_says_what_it_verified_and_where_the_chain_ends(finished: DeployedStudy, tmp_path: Path) -> None:
    """As the analyst's page says: two who see the same head have the same ledger."""
    finished.do("pull", "--out", tmp_path / "out")
    head = json.loads((tmp_path / "out" / "ledger.json").read_text())["head"]

    assert finished.do("verify").out == f"{finished.parameters.name}: 4 periods, 8 columns verified, head {head}\n"
    verified = {"study": finished.parameters.name, "verified": True, "periods": 4, "columns": 8, "head": head}
    assert json.loads(finished.do("verify", "--json").out) == verified | {"insecure": False}


def test_looking_needs_neither_a_state_folder_nor_a_process_and_creates_nothing(
    finished: DeployedStudy, tmp_path: Path
) -> None:
    topics = finished.all_topics()
    for command in (["status"], ["verify"], ["watch"], ["pull", "--out", tmp_path / "out"]):
        finished.do(*map(str, command), "--state", str(tmp_path / "state"))
    assert not (tmp_path / "state").exists()
    assert finished.all_topics() == topics


@pytest.fixture
def changed(finished: DeployedStudy) -> Iterator[DeployedStudy]:
    """The finished study under a file that says something else."""
    before = finished.file.read_text()
    finished.file.write_text(before.replace("horizon = 4", "horizon = 5").replace('name = "ever"', 'name = "once"'))
    yield finished
    finished.file.write_text(before)


def test_a_study_file_that_changed_is_refused(changed: DeployedStudy) -> None:
    """With 3 to who would go on with it, which could break the promise; with 2 to who only looks: the file is wrong."""
    topics = changed.all_topics()
    for role in ("run", "gather", "synthesize"):
        ended = changed.start(role).end()
        assert ended.code == 3, ended.complaint
        assert "was begun with other values" in ended.complaint.splitlines()[-1]
    for look in ("status", "verify", "watch"):
        looked = changed.call(look)
        assert looked.code == 2
        why = "its ledger was begun with other values; these differ: horizon, releases"
        assert looked.complaint == f"streamproc: study {changed.parameters.name}: {why}\n"
    assert changed.all_topics() == topics


def test_a_study_never_changes_between_a_seed_and_none(finished: DeployedStudy, deploy_study: DeployStudy) -> None:
    with_seed = finished.start("run", "--seed", 1).end()
    assert with_seed.code == 3
    assert "it was begun without a seed and cannot go on with one" in with_seed.complaint
    seeded = deploy_study("embedded")
    roles = seeded.start("run", "--seed", 1)
    seeded.do("send", seeded.write_panel(random_symbols("01", 200, T, seed=11)), "--period", 1, "--close")
    roles.says("period released")
    assert seeded.status()["insecure"] is True
    assert INSECURE in seeded.do("status").out
    assert INSECURE not in finished.do("status").out
    roles.stop()
    without = seeded.start("run").end()
    assert without.code == 3
    assert "it was begun with a seed and cannot go on without one" in without.complaint


@pytest.mark.kafka
def test_a_seed_needs_leave_on_a_real_broker(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("kafka")
    refused = deployed.call("run", "--seed", 1)
    assert refused.code == 2
    assert "STREAMPROC_ALLOW_INSECURE=1" in refused.complaint
    assert not deployed.all_topics()


@pytest.mark.kafka
def test_an_analyst_sees_what_is_public_and_no_watermark(
    deploy_study: DeployStudy, kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed = deploy_study("kafka")
    deployed.do("init")
    public = [deployed.topics.ledger, *map(deployed.topics.synthetic, RELEASES)]
    kafka_broker.allow("--operation", "Read", *(word for topic in public for word in ("--topic", topic)))
    for name, value in kafka_broker.guest_environment().items():
        monkeypatch.setenv(name, value)

    found = json.loads(deployed.do("status", "--json", "--broker", kafka_broker.guest_url).out)
    assert found["watermark"] is None
    assert found["released"] == 0
    assert deployed.call("verify", "--broker", kafka_broker.guest_url).code == 6
    for command in (["close", "--period", 1], ["run"], ["gather"], ["synthesize"]):
        denied = deployed.call(*map(str, command), "--broker", kafka_broker.guest_url)
        assert denied.code == 5, denied.complaint
        reason = denied.complaint.splitlines()[-1]
        assert "does not allow it" in reason or "which permissions each role needs" in reason


def test_a_study_nobody_has_reported_to_is_not_closed_by_mistake(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded")
    refused = deployed.call("close", "--period", 1)
    assert refused.code == 3
    assert "without people; send first" in refused.complaint
    symbols = random_symbols("01", deployed.parameters.people, 4, seed=1)
    silent = symbols.copy()
    silent[:, 0] = ""
    refused = deployed.call("send", deployed.write_panel(silent), "--period", 1, "--close")
    assert refused.code == 3
    assert "without people; send first" in refused.complaint
    deployed.do("send", deployed.write_panel(symbols), "--period", 1)
    assert "period 1 closed" in deployed.do("close", "--period", 1).out
