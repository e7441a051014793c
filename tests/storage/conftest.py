"""Places to run studies in, and disks that are full or read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.stream.conftest import deploy_study, programs, shared_study  # noqa: F401

PAGE = 4096
"""Bytes; the least room that a file takes."""

Mount = Callable[[Path, int], None]
"""Puts a disk with so many free pages beneath a folder, with what is in the folder."""


@pytest.fixture
def small_disk() -> Iterator[Mount]:
    """Real disks that get full; only root may have them."""
    mounted: list[Path] = []

    def mount(folder: Path, free: int) -> None:
        within = folder.rename(folder.with_name("within"))
        folder.mkdir(0o700)
        used = sum(-(-file.stat().st_size // PAGE) for file in within.iterdir())
        options = f"size={(used + free) * PAGE},mode=0700"
        try:
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("only root may mount a small disk, where the machine allows it")
        mounted.append(folder)
        for file in within.iterdir():
            shutil.copy2(file, folder)
        assert os.statvfs(folder).f_bfree == free

    yield mount
    for folder in mounted:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def make_read_only(small_disk: Mount) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        if os.geteuid() == 0:  # whom permissions do not keep from writing
            small_disk(folder, 10)
            subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        else:
            folder.chmod(0o500)

    return make
