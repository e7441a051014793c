"""A browser, a study that is half-way, and the page served without its roles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.status_page.browser import MISSING, PROGRAM, Chromium
from tests.status_page.shown_study import ShownStudy, sticky
from tests.stream.programs import Programs
from tests.studies import StudyParameters


@pytest.fixture(scope="package")
def chromium() -> Iterator[Chromium]:
    if PROGRAM is None:
        pytest.skip(MISSING)
    chromium = Chromium()
    yield chromium
    chromium.close()


@pytest.fixture
def browser(chromium: Chromium) -> Iterator[Chromium]:
    yield chromium
    chromium.leave()


@pytest.fixture
def new_study(tmp_path: Path) -> Iterator[ShownStudy]:
    """Of four periods, nobody has reported, nothing runs."""
    with Programs(tmp_path) as programs:
        yield ShownStudy(tmp_path / "study", programs, StudyParameters("young", people=300, rho=0.05))


@pytest.fixture(scope="package")
def half_way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownStudy]:
    """Three of five periods are released, and the roles run. For tests that only look."""
    folder = tmp_path_factory.mktemp("half-way")
    with Programs(folder) as programs:
        shown = ShownStudy(folder / "study", programs, StudyParameters("half-way", horizon=5, people=400, rho=0.05))
        panel = shown.deployed.write_panel(sticky("01", 400, 5, stays=0.8, first=(0.7, 0.3), seed=6))
        shown.serve()
        shown.release(panel, 1, 3)
        yield shown
