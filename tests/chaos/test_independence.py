"""The checker judges the program by its documents, so it must not share a line with it."""

from __future__ import annotations

import subprocess
import sys

from tests.chaos.processes import ROOT

LOADED = "import sys; print(sorted(name for name in sys.modules if name.partition('.')[0] == 'streamproc'))"


def loaded_by(*modules: str) -> str:
    """Which modules of the program come along when these are imported in a new process."""
    program = f"import {', '.join(modules)}; {LOADED}"
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_the_checker_and_all_that_brings_it_its_evidence_load_nothing_of_the_program() -> None:
    assert loaded_by("tests.chaos.checker", "tests.chaos.topics", "tests.chaos.run", "tests.chaos.reporter") == "[]\n"


def test_what_loads_something_of_the_program_is_noticed() -> None:
    assert "'streamproc.protocol.topics'" in loaded_by("streamproc.protocol.topics")
