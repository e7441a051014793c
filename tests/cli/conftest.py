"""Run the command line in this process, as a script would meet it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamproc.cli import main as app
from tests.bad_input import PANEL_STUDY
from tests.studies import cumulative_table, study_toml, window_table

PLANNED = study_toml(
    window_table("quarterly", 3),
    cumulative_table("months-poor"),
    name="poverty",
    horizon=12,
    population={"size": 23374},
    rho=0.005,
)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    complaint: str


Command = Callable[..., Ended]


@pytest.fixture
def streamproc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`streamproc ARGUMENTS...`: its exit code, standard output and standard error."""

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["streamproc", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return Ended(code or 0, *capsys.readouterr())

    return run


@pytest.fixture
def small_study(tmp_path: Path) -> Path:
    """The file of a study that has not begun."""
    path = tmp_path / "study.toml"
    path.write_text(PANEL_STUDY)
    return path


@pytest.fixture
def plan_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a study to plan in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(PLANNED)
    return tmp_path


@pytest.fixture
def plan(plan_folder: Path, streamproc: Command) -> Any:
    """Run `streamproc plan STUDY ...`, with one part of the study replaced: its exit code, output and complaint."""

    def run(*arguments: str, change: tuple[str, str] | None = None, study: str = "study.toml") -> tuple[int, str, str]:
        if change is not None:
            assert change[0] in PLANNED
            (plan_folder / "study.toml").write_text(PLANNED.replace(*change))
        ended = streamproc("plan", study, *arguments)
        return ended.code, ended.out, ended.complaint

    return run
