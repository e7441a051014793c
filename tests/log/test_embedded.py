"""The embedded log: several processes, crashes, and files that are not what they should be."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event, Timer
from types import SimpleNamespace

import pytest

from streamproc.errors import InvalidInput, LogUnavailable, NoSuchTopic
from streamproc.log.embedded import EmbeddedLog, database
from streamproc.log.port import Offset, TopicSettings
from streamproc.storage.filesystem import FileLock, is_held
from tests.log.backends import new_topic, read_all, values
from tests.log.uncommitted import read_uncommitted

ROOT = Path(__file__).parent.parent.parent


def start(what: str, folder: Path, topic: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.log.embedded_process", what, str(folder), topic, *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    async with EmbeddedLog(tmp_path / "log") as log:
        yield log


async def test_several_processes_append_at_once_and_nothing_is_lost_or_torn(log: EmbeddedLog) -> None:
    topic = await new_topic(log)
    processes = [start("append", log.folder, topic, name, "40") for name in ("ann", "ben", "cas")]
    outputs = [(await asyncio.to_thread(process.communicate))[0] for process in processes]

    found = await read_all(log, topic)
    for name, output in zip((b"ann", b"ben", b"cas"), outputs, strict=True):
        plain = [b"%s/%d" % (name, number) for number in range(40)]
        assert [found[int(line)] for line in output.split()] == plain
        mine = [value for value in found if value is not None and value.startswith(name)]
        assert mine == [
            each
            for number, value in enumerate(plain)
            for each in ([value, value + b"a", value + b"b"] if number % 10 == 0 else [value])
        ]
    assert len(found) == 3 * (40 + 8)


async def test_records_acknowledged_to_a_killed_process_are_there(log: EmbeddedLog) -> None:
    topic = await new_topic(log)
    process = start("append", log.folder, topic, "ann", "100000")
    assert process.stdout is not None
    acknowledged = [int(await asyncio.to_thread(process.stdout.readline)) for _ in range(50)]
    process.kill()
    rest, _ = await asyncio.to_thread(process.communicate)
    acknowledged += [int(line) for line in rest.split("\n")[:-1]]

    found = values(await read_uncommitted(log, topic))
    assert [found[offset] for offset in acknowledged] == [b"ann/%d" % number for number in range(len(acknowledged))]


async def test_a_killed_member_leaves_its_partitions_to_the_others(log: EmbeddedLog) -> None:
    topic = await new_topic(log, partitions=4)
    process = start("join", log.folder, topic)
    assert process.stdout is not None
    assert (await asyncio.to_thread(process.stdout.readline)).split() == ["0", "1", "2", "3"]
    member = await log.join_group(f"{topic}.gather", topic)
    async with asyncio.timeout(120):
        while len(await member.assigned()) != 2:
            pass
        process.kill()
        while await member.assigned() != frozenset(range(4)):
            pass
    await asyncio.to_thread(process.communicate)
    await member.close()


async def test_more_members_than_partitions_wait_without_any(log: EmbeddedLog) -> None:
    topic = await new_topic(log, partitions=1)
    first, second = [await log.join_group(f"{topic}.gather", topic) for _ in range(2)]

    assert await first.assigned() == {0}
    assert await second.assigned(timeout=0.1) == frozenset()
    await first.close()
    assert await second.assigned() == {0}
    await second.close()


async def test_a_partition_is_only_let_go_of_when_its_owner_has_seen_that_it_must(log: EmbeddedLog) -> None:
    topic = await new_topic(log, partitions=2)
    first, second = [await log.join_group(f"{topic}.gather", topic) for _ in range(2)]
    assert await first.assigned() == {0, 1}
    assert await second.assigned(timeout=0.1) == frozenset()

    kept = await first.assigned()
    assert len(kept) == 1
    assert await second.assigned(timeout=0.1) == frozenset()
    assert await first.assigned(timeout=0.1) == kept
    assert await second.assigned() == {0, 1} - kept
    await first.close()
    await second.close()


async def test_a_full_disk_is_an_error_and_acknowledged_records_stay(log: EmbeddedLog) -> None:
    topic = await new_topic(log)
    process = start("fill", log.folder, topic)
    *acknowledged, last = (await asyncio.to_thread(process.communicate))[0].splitlines()

    assert last.startswith(("LogUnavailable", "OutcomeUnknown"))
    assert len(acknowledged) > 5
    assert (await read_all(log, topic))[: len(acknowledged)] == [b"x" * 100_000] * len(acknowledged)
    await log.append(topic, 0, b"room again")


async def test_asking_creates_nothing_on_disk(tmp_path: Path) -> None:
    async with EmbeddedLog(tmp_path / "log") as log:
        assert await log.topics() == {}
        await log.delete_topic("absent")
        for attempt in (log.append("absent", 0, b"x"), log.reader("absent", 0, Offset(0)), log.settings_of("absent")):
            with pytest.raises(NoSuchTopic):
                await attempt
    assert list(tmp_path.iterdir()) == []


async def test_a_new_file_that_another_connection_is_setting_up_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(tmp_path / "log.sqlite", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    # The other connection finishes while the log waits for its next attempt.
    waiting = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: other.close())
    monkeypatch.setattr(database, "time", waiting)
    async with EmbeddedLog(tmp_path) as log:
        topic = await new_topic(log)
        assert topic in await log.topics()


async def test_a_new_file_that_stays_locked_is_unavailable_after_the_timeout(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "log.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    log = EmbeddedLog(tmp_path, timeout=0.05)
    with pytest.raises(LogUnavailable, match="database is locked"):
        await log.topics()
    other.close()


async def test_nobody_else_may_read_the_files(log: EmbeddedLog) -> None:
    topic = await new_topic(log)
    await log.append(topic, 0, b"secret")
    member = await log.join_group(f"{topic}.gather", topic)
    await member.assigned()

    assert log.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in log.folder.iterdir()} == {0o600}
    await member.close()


async def test_records_are_forgotten_when_they_are_older_than_the_topic_keeps_them(log: EmbeddedLog) -> None:
    await log.create_topic("rejects", TopicSettings(1, retention_ms=200))
    await log.append_many("rejects", 0, [(None, b"old")] * 3)
    await asyncio.sleep(0.3)
    async with EmbeddedLog(log.folder) as later:
        await later.append("rejects", 0, b"new")
        assert await later.start_offset("rejects", 0) == 3
        assert await read_all(later, "rejects") == [b"new"]


def _garbage(file: Path) -> None:
    file.write_bytes(b"these are not the tables you are looking for" * 100)


def _other_database(file: Path) -> None:
    with sqlite3.connect(file) as db:
        db.execute("CREATE TABLE recipes (name TEXT)")
    db.close()


def _other_version(file: Path) -> None:
    db = sqlite3.connect(file)
    db.execute("PRAGMA user_version = 99")
    db.close()


def _torn(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    [
        (_garbage, InvalidInput, "expected an embedded log, but the file is damaged"),
        (_other_version, InvalidInput, "an embedded log of version 99, expected 1"),
        (_torn, InvalidInput, "expected an embedded log, but the file is damaged"),
        (_folder, LogUnavailable, "unable to open database file"),
    ],
)
async def test_a_file_that_is_no_log_is_refused_in_one_line(tmp_path: Path, damage, kind, message: str) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "log"
    async with EmbeddedLog(folder) as log:
        topic = await new_topic(log)
        await log.append(topic, 0, b"x" * 50_000)
    damage(folder / "log.sqlite")

    with pytest.raises(kind, match=message) as refused:
        async with EmbeddedLog(folder) as log:
            await read_all(log, topic)
    assert "\n" not in str(refused.value)


async def test_another_kind_of_database_is_left_alone(tmp_path: Path) -> None:
    _other_database(tmp_path / "log.sqlite")
    before = (tmp_path / "log.sqlite").read_bytes()

    with pytest.raises(InvalidInput, match="another kind of database"):
        async with EmbeddedLog(tmp_path) as log:
            await log.create_topic("topic", TopicSettings(1))
    assert (tmp_path / "log.sqlite").read_bytes() == before


async def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")

    with pytest.raises((InvalidInput, LogUnavailable), match="log"):
        async with EmbeddedLog(tmp_path / "log") as log:
            await log.create_topic("topic", TopicSettings(1))


async def test_a_folder_that_vanishes_while_it_is_used_is_unavailable_or_empty(log: EmbeddedLog) -> None:
    topic = await new_topic(log)
    shutil.rmtree(log.folder)

    async with EmbeddedLog(log.folder) as reopened:
        with pytest.raises(NoSuchTopic):
            await reopened.append(topic, 0, b"x")


async def test_a_member_that_is_closed_in_the_middle_of_a_look_holds_nothing(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = Event(), Event()
    take = FileLock.take

    def slowly(path: Path) -> FileLock | None:
        begun.set()
        go_on.wait(60)
        return take(path)

    topic = await new_topic(log, partitions=2)
    member = await log.join_group(f"{topic}.gather", topic)
    monkeypatch.setattr(FileLock, "take", slowly)
    looking = asyncio.create_task(member.assigned())
    await asyncio.to_thread(begun.wait, 60)
    looking.cancel()
    Timer(0.1, go_on.set).start()
    await member.close()
    await asyncio.get_running_loop().shutdown_default_executor()  # the look has ended

    locks = list(log.folder.glob("*.lock"))
    assert locks and not any(map(is_held, locks))


async def test_where_nothing_can_be_locked_members_say_so_and_keep_no_file_open(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_locks(handle: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    topic = await new_topic(log)
    member = await log.join_group(f"{topic}.gather", topic)
    monkeypatch.setattr("fcntl.flock", without_locks)
    with pytest.raises(LogUnavailable, match=f"locks of {topic}.gather: No locks available"):
        await member.assigned()

    opened = {os.readlink(file) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()}
    assert not any(name.endswith(".lock") for name in opened if name.startswith(str(log.folder)))


async def test_no_log_is_made_among_other_files_nor_read_from_a_file(tmp_path: Path) -> None:
    released, panel = tmp_path / "released", tmp_path / "panel.csv"
    released.mkdir()
    for file in (released / "summary.json", panel):
        file.write_text("")
    async with EmbeddedLog(released) as log:
        with pytest.raises(InvalidInput, match="released: holds other files, expected a log or an empty folder"):
            await new_topic(log)
    assert [file.name for file in released.iterdir()] == ["summary.json"]
    with pytest.raises(InvalidInput, match=r"panel.csv: is a file, expected a folder"):
        await EmbeddedLog(panel).__aenter__()


async def test_a_log_is_made_in_a_volume_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    async with EmbeddedLog(tmp_path) as log:
        await new_topic(log)


@pytest.mark.parametrize("create", [False, True], ids=["asked", "made"])
async def test_a_folder_that_must_not_be_looked_into_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, create: bool
) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    # Not by its mode: the tests may run as root, who looks into everything.
    monkeypatch.setattr(Path, "iterdir" if create else "exists", denied)
    log = EmbeddedLog(tmp_path)
    with pytest.raises(LogUnavailable, match=f"embedded log .*{tmp_path.name}: cannot be read: Permission denied"):
        await (new_topic(log) if create else log.topics())


async def test_a_folder_that_must_not_be_written_to_is_said_to_be_the_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EmbeddedLog(tmp_path) as log:
        await new_topic(log)
    (tmp_path / "log.sqlite-shm").symlink_to(tmp_path / "absent" / "file")  # which SQLite cannot make
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(LogUnavailable, match="the folder is not writable"):
        await EmbeddedLog(tmp_path).topics()
