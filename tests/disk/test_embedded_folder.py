"""An acknowledged record survives a power cut only if the folders that lead to it do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamproc.ports.connect import connect
from streamproc.ports.log import TopicSettings


async def test_every_new_folder_is_synced_before_the_first_record_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
