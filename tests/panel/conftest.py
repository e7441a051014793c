"""Panels of a window and of a cumulative release, and of every kind and measure."""

from __future__ import annotations

import pytest

from streamproc.panel import Panel
from streamproc.study import CumulativeRelease, WindowRelease
from tests.panel.released import released
from tests.releases.random_studies import KINDS, release_of


@pytest.fixture
def window() -> Panel:
    return released(WindowRelease("quarterly", 3), ("A", "B", "C"), 5, 4, 20, seed=1)


@pytest.fixture
def cumulative() -> Panel:
    return released(CumulativeRelease("ever", event=("1",), weights="rule"), ("0", "1"), 5, 4, 20, seed=1)


@pytest.fixture(params=KINDS)
def any_kind(request: pytest.FixtureRequest) -> Panel:
    return released(release_of(request.param, "ever"), ("0", "1"), 5, 4, 20, seed=1)
