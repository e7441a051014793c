"""Help is shown without importing what the commands need to do their work, so that it is there at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamproc.cli.declarations import COMMANDS

SLOW = {"numpy", "rich", "aiohttp", "aiokafka", "opendp", "msgpack", "prometheus_client"}

SHOW = """
import sys
from streamproc.__main__ import main
try:
    main()
finally:
    print(*(name for name in sys.modules if "." not in name), sep="\\n", file=sys.stderr)
"""


def imported_by(*arguments: str) -> set[str]:
    """The packages that `streamproc ARGUMENTS...` imports in a process of its own."""
    shown = subprocess.run([sys.executable, "-c", SHOW, *arguments], capture_output=True, text=True, check=True)
    assert shown.stdout
    return set(shown.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"]], ids=" ".join)
def test_the_help_imports_nothing_slow(arguments: list[str]) -> None:
    assert not imported_by(*arguments) & SLOW


@pytest.mark.parametrize("command", [str(command.name) for command in COMMANDS])
def test_the_help_of_a_command_imports_nothing_slow(command: str) -> None:
    assert not imported_by(command, "--help") & SLOW


def test_a_command_that_works_imports_what_it_needs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The tests above can fail: the list of what was imported is complete."""
    assert "numpy" in imported_by("demo", "--people", "50", "--out", str(tmp_path_factory.mktemp("demo")))


def test_importing_the_package_imports_nothing_slow() -> None:
    script = "import streamproc, sys; assert 'Study' in dir(streamproc); print(*sys.modules, sep='\\n')"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert not set(shown.stdout.split()) & SLOW
