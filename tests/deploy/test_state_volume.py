"""A volume as Kubernetes mounts it belongs to root and to the pod's group; the state folder in it is the program's alone."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stream.programs import PATIENCE, ROOT
from tests.studies import StudyParameters

POD = 10001
"""The user and the group of our pods."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a volume that belongs to root"),
]


@pytest.fixture
def volume() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "volume").mkdir()
    os.chown(folder / "volume", 0, POD)
    (folder / "volume").chmod(0o2770)
    yield folder / "volume"
    shutil.rmtree(folder)


def as_pod(*arguments: object, state: Path) -> subprocess.Popen[str]:
    command, environ = (
        [sys.executable, "-m", "streamproc", *map(str, arguments)],
        {**os.environ, "STREAMPROC_STATE": str(state)},
    )
    try:
        return subprocess.Popen(
            command, cwd=ROOT, env=environ, user=POD, group=POD, extra_groups=[POD], stderr=subprocess.PIPE, text=True
        )
    except PermissionError:
        pytest.skip(f"{sys.executable} is where only root can reach it")


def done(*arguments: object, state: Path) -> None:
    with as_pod(*arguments, state=state) as program:
        assert program.stderr is not None
        complaint = program.stderr.read()
    assert program.returncode == 0, complaint


def test_a_pod_makes_and_keeps_a_state_folder_of_its_own(volume: Path) -> None:
    study, panel, state = volume.parent / "study.toml", volume.parent / "panel.csv", volume / "state"
    study.write_text(StudyParameters("volume", horizon=2, partitions=1, people=3).text(f"embedded:{volume / 'log'}"))
    panel.write_text("individual,1,2\na,0,1\nb,1,1\nc,0,0\n")
    done("send", study, panel, "--through", 1, "--close", state=state)
    with as_pod("run", study, state=state) as first:
        assert first.stderr is not None
        for line in first.stderr:
            if "period released" in line:
                first.terminate()
        assert first.wait(PATIENCE) == 0

    done("send", study, panel, "--period", 2, "--close", state=state)
    done("run", study, "--until-done", state=state)
    assert stat.S_IMODE(state.stat().st_mode) & 0o777 == 0o700
    for file in state.iterdir():
        assert (file.stat().st_uid, stat.S_IMODE(file.stat().st_mode)) == (POD, 0o600)
