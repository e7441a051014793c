"""`streamproc plan --plot`: pictures, and what is said where there can be none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamproc.cli.commands import plan as plan_module

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nowhere/plan.png", "No such file or directory"),
        ("study.toml/plan.png", "Not a directory"),
        ("folder.png", "it is a folder"),
    ],
)
def test_a_plot_that_cannot_be_written_is_refused_before_anything_is_computed(
    plan: Any, plan_folder: Path, monkeypatch: pytest.MonkeyPatch, path: str, why: str
) -> None:
    (plan_folder / "folder.png").mkdir()
    monkeypatch.setattr(plan_module, "plan_study", None)

    assert plan("--plot", path) == (2, "", f"streamproc: --plot: {path} cannot be written: {why}\n")


def test_without_matplotlib_the_error_says_how_to_get_it(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    code, out, complaint = plan("--plot", "plan.png")

    assert (code, out) == (2, "")
    assert "pip install streamproc[plot]" in complaint


def test_a_plan_without_a_plot_does_not_load_matplotlib(plan_folder: Path) -> None:
    script = (
        "import sys; from streamproc.cli.main import streamproc as s; "
        "s.main(['plan', 'study.toml'], standalone_mode=False); "
        "sys.exit('matplotlib' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", script], cwd=plan_folder, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(("name", "magic"), [("plan.png", PNG), ("plan.SVG", b"<?xml"), ("plan.pdf", b"%PDF")])
def test_a_plot_is_a_picture_of_the_named_kind(plan: Any, plan_folder: Path, name: str, magic: bytes) -> None:
    code, out, complaint = plan("--plot", name)

    assert (code, complaint) == (0, "")
    assert out.endswith(f"Plot: {name}\n")
    assert (plan_folder / name).read_bytes().startswith(magic)


def test_a_plot_is_not_blank_and_leaves_json_alone(plan: Any, plan_folder: Path) -> None:
    from matplotlib.image import imread

    # A dollar sign would be taken for mathematics, and the letter is in no font that comes with matplotlib.
    code, out, complaint = plan("--json", "--plot", "plan.png", change=('["0", "1"]', '["$a", "b$ \\u4e00"]'))

    assert (code, complaint) == (0, "")
    assert json.loads(out)["study"] == "poverty"
    picture = imread(plan_folder / "plan.png")
    assert picture.shape[1] == 1800
    assert (picture[..., :3].min(axis=2) < 0.5).mean() > 0.005
