"""The layers of the package, as the contracts of pyproject.toml state them; and that those contracts can fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def check_contracts(root: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    """Check the package that lies in `root` against the contracts of `root`: all, or those named."""
    chosen = [part for contract in contracts for part in ("--contract", contract)]
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
            "--no-logo",
            *chosen,
        ],
        cwd=root,
        # In front of the installed package, which would be checked in place of the copy.
        env={**os.environ, "PYTHONPATH": str(root), "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package and its contracts, to be broken."""
    shutil.copytree(ROOT / "streamproc", tmp_path / "streamproc", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_package_keeps_its_layers() -> None:
    outcome = check_contracts(ROOT)

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("contract", "module", "wrong"),
    [
        ("layers", "privacy", "streamproc.releases"),
        ("layers", "releases", "streamproc.panel"),
        ("layers", "panel", "streamproc.log"),
        ("layers", "log", "streamproc.cli"),
        ("pure", "privacy", "random"),
        ("pure", "study", "pathlib"),
        ("pure", "releases", "time"),
        ("pure", "gatherer", "asyncio"),
        ("pure", "synthesizer", "os"),
        ("pure", "panel", "asyncio"),
        ("opendp", "privacy", "opendp"),
        ("opendp", "cli", "opendp"),
        ("layers", "cli", "streamproc.testing"),
        ("layers", "service", "streamproc.testing"),
        ("layers", "log", "streamproc.testing"),
    ],
)
def test_a_wrong_import_breaks_the_contract(copy: Path, contract: str, module: str, wrong: str) -> None:
    (copy / "streamproc" / module / "misplaced.py").write_text(f"import {wrong}\n")

    outcome = check_contracts(copy, contract)

    assert outcome.returncode == 1
    assert f"streamproc.{module}.misplaced -> {wrong}" in outcome.stdout


@pytest.mark.parametrize(
    ("module", "wrong"),
    [
        ("gatherer/member_index", "streamproc.storage.filesystem"),
        ("gatherer/report_buffer", "streamproc.log.kafka.log"),
        ("synthesizer/outbox", "streamproc.storage.entropy"),
        ("synthesizer/recovery", "streamproc.log.port"),
    ],
)
def test_the_logic_of_a_role_that_imports_the_shell_breaks_the_contract(copy: Path, module: str, wrong: str) -> None:
    path = copy / "streamproc" / f"{module}.py"
    path.write_text(f"{path.read_text()}\nimport {wrong}\n")

    outcome = check_contracts(copy, "logic")

    assert outcome.returncode == 1
    assert f"streamproc.{module.replace('/', '.')} -> {wrong}" in outcome.stdout


@pytest.mark.parametrize("module", ["log", "storage", "cli"])
def test_the_shell_may_meet_the_outside_world(copy: Path, module: str) -> None:
    (copy / "streamproc" / module / "__init__.py").write_text("import time\n")
    (copy / "streamproc" / module / "outside.py").write_text("import os, pathlib, socket\n")

    outcome = check_contracts(copy, "pure")

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_the_package_itself_may_not_import_what_is_for_tests(copy: Path) -> None:
    with (copy / "streamproc" / "__main__.py").open("a") as file:
        file.write("import streamproc.testing\n")

    outcome = check_contracts(copy, "testing")

    assert outcome.returncode == 1
    assert "streamproc.__main__ -> streamproc.testing" in outcome.stdout


def test_a_module_without_a_place_in_the_layers_breaks_the_contract(copy: Path) -> None:
    (copy / "streamproc" / "stray.py").touch()

    outcome = check_contracts(copy, "layers")

    assert outcome.returncode == 1
    assert "stray" in outcome.stdout
