"""The rule about skips of conftest.py: on a developer's machine they pass, with CI=true they do not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MARKED_AND_SKIPPED = """
import pytest

@pytest.mark.kafka
@pytest.mark.skipif(True, reason="no broker here")
def test_decorated(): ...

@pytest.mark.docker
def test_called(): pytest.skip("no engine here")
"""

UNMARKED_AND_SKIPPED = """
import pytest

def test_skipped(): pytest.skip("not on this platform")
"""

MARKED_AND_EXPECTED_TO_FAIL = """
import pytest

@pytest.mark.kafka
@pytest.mark.xfail
def test_expected_to_fail(): raise ValueError
"""

MODULE_SKIPPED = """
import pytest

pytest.skip("no broker here", allow_module_level=True)
"""


def run_pytest(folder: Path, test: str, *, ci: str) -> str:
    """Run one test file under our conftest and return what pytest said."""
    shutil.copy(Path(__file__).parent / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    kafka\n    docker\n")
    (folder / "test_it.py").write_text(test)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA"],
        cwd=folder,
        env={**os.environ, "CI": ci, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def test_in_ci_a_skipped_broker_test_is_a_failure(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, MARKED_AND_SKIPPED, ci="true")

    assert "1 failed, 1 error" in said  # a skip by decorator happens in the setup, which can only err
    assert "marked kafka was skipped, and CI=true: Skipped: no broker here" in said
    assert "marked docker was skipped, and CI=true: Skipped: no engine here" in said


def test_elsewhere_a_skipped_broker_test_is_a_skip(tmp_path: Path) -> None:
    assert "2 skipped" in run_pytest(tmp_path, MARKED_AND_SKIPPED, ci="")


def test_in_ci_a_module_that_skips_itself_is_a_failure(tmp_path: Path) -> None:
    assert "1 error" in run_pytest(tmp_path, MODULE_SKIPPED, ci="true")


@pytest.mark.parametrize(
    ("test", "outcome"), [(UNMARKED_AND_SKIPPED, "1 skipped"), (MARKED_AND_EXPECTED_TO_FAIL, "1 xfailed")]
)
def test_in_ci_other_skips_and_expected_failures_stay_what_they_are(tmp_path: Path, test: str, outcome: str) -> None:
    assert outcome in run_pytest(tmp_path, test, ci="true")
