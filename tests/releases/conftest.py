"""Counts without rows, for tests that need many runs and only look at counts."""

from __future__ import annotations

import numpy as np
import pytest

from streamproc.privacy.types import IntArray
from streamproc.releases import cumulative_paper_synthesis, window_synthesis
from streamproc.releases.row_assignment import Codes


@pytest.fixture
def no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No synthetic row is made or given a symbol. What is measured, rounded, clamped and released does not look at rows."""

    def none(*given: object) -> Codes:
        return np.zeros(0, dtype=np.uint8)

    def unchanged(groups: Codes, counts: IntArray, rng: np.random.Generator) -> Codes:
        return np.zeros(len(groups), dtype=np.uint8)

    monkeypatch.setattr(window_synthesis, "shuffled_rows", none)
    monkeypatch.setattr(window_synthesis, "assign_symbols", unchanged)
    monkeypatch.setattr(cumulative_paper_synthesis, "assign_symbols", unchanged)
