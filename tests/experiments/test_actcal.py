"""The actcal experiment on a small panel like it, and where the real one comes from. Nothing is downloaded here."""

from __future__ import annotations

import csv
import hashlib
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments import actcal, actcal_data, ratios
from experiments.answers import BIMONTHLY
from experiments.report import Settings
from experiments.trials import Symbols
from streamproc.errors import PanelFileError


@pytest.fixture
def fresh(settings: Settings, tmp_path: Path) -> Settings:
    """With a folder in which nothing was kept yet."""
    return replace(settings, out=tmp_path / "out")


def test_paper_and_ours_stand_side_by_side_for_each_budget_and_question(settings: Settings, levels: Symbols) -> None:
    actcal.report(replace(settings, runs=2), levels)

    with (settings.out / "actcal.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["question"] for line in lines] == 3 * [
        "all bins",
        *BIMONTHLY,
        "no work in at least b months, all b",
        "no work in at least 3 months so far",
        "no work in at least 6 months so far",
    ]
    for line in lines:
        for kind in ("rms", "max"):
            ratio = float(line[f"{kind}_ours"]) / float(line[f"{kind}_paper"])
            assert float(line[f"{kind}_ratio"]) == pytest.approx(ratio, rel=1e-4)
    assert (settings.out / "actcal.png").read_bytes().startswith(b"\x89PNG")


def test_the_questions_mean_what_they_say(settings: Settings, levels: Symbols) -> None:
    window = actcal._window(replace(settings, runs=1), levels, 0.05)
    truth = {comparison.question: comparison.truth for comparison in window}
    for place, month in enumerate((2, 4, 6, 8, 10, 12)):
        before, now = levels[:, month - 2], levels[:, month - 1]
        expected = {
            "no work in at least one month": (before == 3) | (now == 3),
            "no work in both months": (before == 3) & (now == 3),
            "found work": (before == 3) & (now != 3),
            "full time in both months": (before == 0) & (now == 0),
        }
        assert {question: truth[question][place] for question in expected} == pytest.approx(
            {question: holds.mean() for question, holds in expected.items()}
        )


def test_the_running_counts_are_those_of_months_without_work(settings: Settings, levels: Symbols) -> None:
    everything, three, six = actcal._cumulative(replace(settings, runs=1), levels, 0.05)
    months = np.cumsum(levels == 3, axis=1)

    assert everything.truth.shape == (78,)
    assert three.truth.tolist() == [(months[:, t] >= 3).mean() for t in range(2, 12)]
    assert six.truth.tolist() == [(months[:, t] >= 6).mean() for t in range(5, 12)]


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

    assert [subject.name for subject in ratios.subjects(fresh)] == ["poverty"]
    assert "left out actcal: pip could not download" in printed()
