"""An acknowledged record survives a power cut only if the folders that lead to it do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamproc.ports.connect import connect
from streamproc.ports.log import TopicSettings


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
