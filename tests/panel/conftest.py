"""A panel of each kind of release."""

from __future__ import annotations

import pytest

from streamproc.panel import Panel
from streamproc.study import CumulativeRelease, WindowRelease
from tests.panel.released import released


@pytest.fixture
def window() -> Panel:
    return released(WindowRelease("quarterly", 3), ("A", "B", "C"), 5, 4, 20, seed=1)


@pytest.fixture
def cumulative() -> Panel:
    return released(CumulativeRelease("ever", event=("1",)), ("0", "1"), 5, 4, 20, seed=1)
