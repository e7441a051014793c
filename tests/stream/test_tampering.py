"""`verify` detects every change, addition and removal of released records."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgpack
import numpy as np
import pytest

from streamproc.privacy.types import Period
from streamproc.protocol.ledger import Intent, MeasurementChunk
from tests.stream.deployed_study import DeployedStudy


def append(deployed: DeployedStudy, topic: str, *values: bytes) -> None:
    async def work() -> None:
        async with deployed.connect() as log:
            for value in values:
                await log.append(topic, 0, value)

    asyncio.run(work())


def rewrite(deployed: DeployedStudy, topic: str, at: int, change: Callable[[bytes], bytes | None]) -> None:
    """Change the value of one record in the file itself, or remove it."""
    record = deployed.records(topic)[at]
    assert record.value is not None
    changed = change(record.value)
    with sqlite3.connect(deployed.folder / "log" / "log.sqlite") as db:
        (partition,) = db.execute("SELECT id FROM partitions WHERE topic = ?", (topic,)).fetchone()
        row = partition * 2**40 + record.offset
        if changed is None:
            db.execute("DELETE FROM records WHERE id = ?", (row,))
        else:
            assert changed != record.value
            db.execute("UPDATE records SET value = ? WHERE id = ?", (changed, row))
    db.close()


def with_field(name: str, change: Callable[[object], object]) -> Callable[[bytes], bytes]:
    def changed(value: bytes) -> bytes:
        record = msgpack.unpackb(value)
        return bytes(msgpack.packb(record | {name: change(record[name])}))

    return changed


def flipped(data: object) -> bytes:
    assert isinstance(data, bytes)
    return bytes([data[0] ^ 0x80, *data[1:]])


def with_padding(value: bytes) -> bytes:
    """One person of padding in each bin is passed off as a real one."""
    record = msgpack.unpackb(value)
    return bytes(msgpack.packb(record | {"n_pad": record["n_pad"] - 1, "n": record["n"] + 4}))


def another_column(deployed: DeployedStudy) -> None:
    topic = deployed.topics.synthetic("ever")
    last = deployed.values(topic)[-1]
    append(deployed, topic, with_field("period", lambda period: 4)(last))


def a_part_of_a_column(deployed: DeployedStudy) -> None:
    topic = deployed.topics.synthetic("ever")
    column = msgpack.unpackb(deployed.values(topic)[-1]) | {"period": 4, "rows": 8}
    append(deployed, topic, msgpack.packb(column | {"data": column["data"][:1]}))


def a_last_record_again(deployed: DeployedStudy) -> None:
    append(deployed, deployed.topics.ledger, deployed.values(deployed.topics.ledger)[-1])


TAMPERING: dict[str, tuple[Callable[[DeployedStudy], None], str]] = {
    "a flipped row": (
        lambda deployed: rewrite(deployed, deployed.topics.synthetic("ever"), 2, with_field("data", flipped)),
        "release ever, period 2: the column is not what the ledger says",
    ),
    "a lost column": (
        lambda deployed: rewrite(deployed, deployed.topics.synthetic("recent"), -1, lambda value: None),
        "release recent: the ledger has 3 columns, its topic 2",
    ),
    "another column": (another_column, "release ever: its topic holds more than the 3 columns of the ledger"),
    "a part of a column": (a_part_of_a_column, "release ever: its topic holds more than the 3 columns of the ledger"),
    "other padding": (
        lambda deployed: rewrite(deployed, deployed.topics.synthetic("recent"), 0, with_padding),
        "release recent: its contract is not the one that the ledger states",
    ),
    "less spending": (
        lambda deployed: rewrite(deployed, deployed.topics.ledger, -1, with_field("rho_spent", lambda rho: 0.1)),
        "is not the one draw that was announced and not abandoned",
    ),
    "a record that follows nothing": (a_last_record_again, "is of period 3, but 4 is next"),
    "a draw announced beyond the last": (
        lambda deployed: append(deployed, deployed.topics.ledger, Intent(Period(5), bytes(32)).encode()),
        "announces period 5, but 4 is next",
    ),
    "a draw announced after the end": (
        lambda deployed: append(deployed, deployed.topics.ledger, Intent(Period(4), bytes(32)).encode()),
        "the ledger goes on after its last record of a period, 3",
    ),
    "measurements after the end": (
        lambda deployed: append(
            deployed, deployed.topics.ledger, MeasurementChunk("ever", Period(4), 0, 4, np.arange(4)).encode()
        ),
        "the ledger goes on after its last record of a period, 3",
    ),
    "no record at all": (lambda deployed: append(deployed, deployed.topics.ledger, b"\xc1"), "is malformed"),
}


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_is_found_out(honest: DeployedStudy, tmp_path: Path, what: str) -> None:
    deployed = DeployedStudy(tmp_path / "copy", honest.url, honest.parameters, honest.programs)
    shutil.copytree(honest.folder, deployed.folder)
    deployed.do("verify")
    tamper, finding = TAMPERING[what]

    tamper(deployed)

    verified = deployed.call("verify", "--json")
    assert verified.code == 4
    said = json.loads(verified.out)
    assert (said["study"], said["verified"]) == (deployed.parameters.name, False)
    assert finding in said["problem"]
    assert verified.complaint == f"streamproc: {said['problem']}\n"
    assert len(verified.complaint.splitlines()) == 1


@pytest.mark.parametrize("command", [["watch"], ["pull", "--out", "pulled"]], ids=["watch", "pull"])
def test_a_changed_column_is_found_by_every_reader(
    honest: DeployedStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    deployed = DeployedStudy(tmp_path / "copy", honest.url, honest.parameters, honest.programs)
    shutil.copytree(honest.folder, deployed.folder)
    monkeypatch.chdir(tmp_path)
    tamper, finding = TAMPERING["a flipped row"]

    tamper(deployed)

    ended = deployed.call(*command)
    assert ended.code == 4
    assert finding in ended.complaint
    assert not (tmp_path / "pulled").exists()
