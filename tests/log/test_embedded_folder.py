"""An acknowledged record survives a power cut only if the folders that lead to it do."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from streamproc.errors import LogUnavailable
from streamproc.log.connect import connect
from streamproc.log.port import TopicSettings
from streamproc.storage.filesystem import LocalFileSystem


@pytest.mark.parametrize("made", ["", "new", "new/log", "new/log/log.sqlite"])
async def test_every_new_folder_is_synced_before_the_first_record_is_acknowledged(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that a process made which died before it had synced it."""
    (tmp_path / made).parent.mkdir(parents=True, exist_ok=True)
    if made.endswith(".sqlite"):
        (tmp_path / made).touch()
    else:
        (tmp_path / made).mkdir(exist_ok=True)
    synced: list[Path] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        fsync(handle)
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")))

    monkeypatch.setattr(os, "fsync", noted)
    async with connect("embedded:new/log", folder=tmp_path) as log:
        await log.create_topic("topic", TopicSettings(1))
        await log.append("topic", 0, b"it")

    assert set(synced) >= {tmp_path, tmp_path / "new", tmp_path / "new" / "log"}


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EIO])
async def test_a_folder_that_cannot_be_synced_at_all_is_no_trouble_but_one_that_fails_is(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync_folder(self: LocalFileSystem, folder: Path) -> None:
        if folder == tmp_path.parent:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(LocalFileSystem, "sync_folder", sync_folder)
    fails = pytest.raises(LogUnavailable, match="cannot be created: Input/output error")
    with nullcontext() if code == errno.EINVAL else fails:
        async with connect("embedded:log", folder=tmp_path) as log:
            await log.create_topic("topic", TopicSettings(1))
