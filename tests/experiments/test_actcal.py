"""Where the real panel comes from. Nothing is downloaded here."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import actcal_data, subjects
from experiments.report import Settings
from streamproc.errors import PanelFileError


@pytest.fixture
def fresh(settings: Settings, tmp_path: Path) -> Settings:
    """With a folder in which nothing was kept yet."""
    return replace(settings, out=tmp_path / "out")


def wheel(folder: Path, table: str, member: str = "sequenzo/datasets/actcal.csv") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "sequenzo-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(member, table)
    return folder / "sequenzo-1.0-py3-none-any.whl"


TABLE = ",".join(["id", "age00", *actcal_data.MONTHS]) + "\n" + ",".join(["1", "47", *"ABCDABCDABCD"]) + "\n"
PANEL = b"individual,1,2,3,4,5,6,7,8,9,10,11,12\n0,A,B,C,D,A,B,C,D,A,B,C,D\n"


def test_the_months_of_the_wheel_become_a_panel_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actcal_data, "SHA256", hashlib.sha256(PANEL).hexdigest())

    assert actcal_data.panel_file(wheel(tmp_path, TABLE)) == PANEL


@pytest.mark.parametrize(
    ("table", "member", "reason"),
    [
        (TABLE, "sequenzo/datasets/actcal.csv", "is not the one these experiments are about"),
        (TABLE, "sequenzo/datasets/other.csv", "has no sequenzo/datasets/actcal.csv"),
        ("id,jan00\n1,A\n", "sequenzo/datasets/actcal.csv", "with the columns jan00 to dec00"),
    ],
)
def test_another_wheel_is_refused_with_the_way_out(tmp_path: Path, table: str, member: str, reason: str) -> None:
    with pytest.raises(actcal_data.NoActcal, match=reason) as refused:
        actcal_data.panel_file(wheel(tmp_path, table, member))

    assert "--actcal FILE" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_it_is_downloaded_once_and_then_kept(fresh: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def download(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        wheel(Path(command[command.index("--dest") + 1]), TABLE)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", download)
    monkeypatch.setattr(actcal_data, "SHA256", hashlib.sha256(PANEL).hexdigest())

    first, second = actcal_data.actcal(fresh), actcal_data.actcal(fresh)

    assert first.tolist() == second.tolist() == [[0, 1, 2, 3] * 3]
    assert len(commands) == 1
    assert "--no-deps" in commands[0]


def test_without_the_network_one_line_says_how_to_pass_the_panel(fresh: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1))

    with pytest.raises(actcal_data.NoActcal) as refused:
        actcal_data.actcal(fresh)

    assert str(refused.value).startswith("pip could not download sequenzo")
    assert "--actcal FILE" in str(refused.value)


def test_a_given_file_is_taken_instead(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_bytes(PANEL)

    assert actcal_data.actcal(replace(settings, actcal=tmp_path / "mine.csv")).tolist() == [[0, 1, 2, 3] * 3]


def test_a_given_file_with_other_symbols_is_refused(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_bytes(PANEL.replace(b"A", b"E"))

    with pytest.raises(PanelFileError, match="line 2, column 2"):
        actcal_data.actcal(replace(settings, actcal=tmp_path / "mine.csv"))


def test_without_actcal_the_other_panel_is_still_compared(
    fresh: Settings, monkeypatch: pytest.MonkeyPatch, printed: Callable[[], str]
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1))

    assert [subject.name for subject in subjects.both_panels(fresh)] == ["poverty"]
    assert "left out actcal: pip could not download" in printed()
