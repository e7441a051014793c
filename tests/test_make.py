"""What the pages say of `make` holds."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.simulation import __main__ as simulate
from tests.simulation import crashes

ROOT = Path(__file__).parents[1]
RELIABILITY = (ROOT / "docs" / "reliability.md").read_text()


def make(*arguments: str, folder: Path = ROOT) -> list[str]:
    """Return the lines that `make ARGUMENTS...` prints, independent of the `make` that may run these tests."""
    environ = {name: value for name, value in os.environ.items() if name not in {"ARGS", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}}
    ended = subprocess.run(["make", *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


def would_run(*arguments: str) -> list[str]:
    """Return the last command that `make ARGUMENTS...` would run."""
    return shlex.split(make("-n", *arguments)[-1])


def test_a_simulation_of_no_seed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--seeds", "0"], ["--seeds", "-1", "--trace"]):
        with pytest.raises(SystemExit) as ended:
            simulate.main(arguments)
        assert ended.value.code == 2
        assert f"--seeds {arguments[1]}: expected 1 or more" in capsys.readouterr().err


def test_one_seed_and_two_crashes_are_repeated_as_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    (one_seed,) = re.findall(r"`make (simulate SEEDS=1 [^`]*)`", RELIABILITY)
    _, _, module, *seed = would_run(*shlex.split(one_seed.replace("N", "5")))
    assert module == "tests.simulation"
    assert simulate.main(seed) == 0
    *trace, last = capsys.readouterr().out.splitlines()
    assert last.startswith("1 seeds, ")
    assert len(trace) > 100

    (two_crashes,) = re.findall(r"`make (crashes [^`]*)`", RELIABILITY)
    _, _, module, *moments = would_run(*shlex.split(two_crashes))
    assert module == "tests.simulation.crashes"
    assert crashes.main(moments) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 crashes, 0 violations"


def test_coverage_is_of_all_quick_tests_or_not_shown() -> None:
    everything = would_run("test")
    assert everything[-2:] == ["-m", "not slow"]
    assert {"--cov", "--cov-branch", "--cov-report=term"} < set(everything)
    one = would_run("test", "ARGS=tests/test_make.py")
    assert one == [*(word for word in everything if not word.startswith("--cov")), "tests/test_make.py"]


def test_help_shows_a_newcomer_about_ten_targets_and_help_all_shows_every_one() -> None:
    named = {line.split()[1] for line in make("help-all")}
    documented = set(re.findall(r"^\.PHONY: ([a-z-]+)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named == documented - {"help"}

    *targets, hint = make("help")
    assert hint.strip().startswith("ARGS=")
    assert 8 <= len(targets) <= 12
    assert {"run", "test", "lint", "help-all"} < {line.split()[1] for line in targets} < named


def test_the_demo_installs_the_runtime_lock_only_and_the_tests_add_the_other(tmp_path: Path) -> None:
    """In a fresh clone, where nothing is installed yet."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, tmp_path)

    def installed(target: str) -> list[str]:
        commands = "\n".join(make("-n", target, folder=tmp_path))
        return re.findall(r"--require-hashes --requirement (\S+)", commands)

    assert installed("run") == ["requirements.lock"]
    assert installed("test") == installed(".venv/installed") == ["requirements.lock", "requirements-dev.lock"]
