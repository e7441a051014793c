"""The memory a plan expects, and the studies too large for it."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from streamproc.errors import StudyError
from streamproc.planning import plan_study
from tests.planning.formulas import N, months, only, poverty_study, quarterly


@pytest.mark.parametrize(("k", "row_bytes"), [(3, 1), (8, 1), (9, 2)])
def test_memory_is_the_narrowest_code_for_every_synthetic_row(k: int, row_bytes: int) -> None:
    release = only(plan_study(poverty_study(quarterly(k=k), rho=1), N))

    assert release.memory.row_bytes == row_bytes
    rows = N + 2**k * release.contract.n_pad
    assert release.memory.rows == rows
    assert release.memory.kept_bytes == row_bytes * rows
    assert release.memory.column_bytes == math.ceil(rows / 8)


def test_a_synthetic_panel_too_large_to_number_is_refused() -> None:
    with pytest.raises(StudyError, match=r"release\.quarterly\.k"):
        plan_study(poverty_study(quarterly(k=16), rho=1e-11), N)


def test_a_share_too_small_for_64_bit_noise_is_refused_by_name() -> None:
    with pytest.raises(StudyError, match=r"release\.months\.share"):
        plan_study(poverty_study(quarterly(share=Fraction(1, 2)), months(share=Fraction(1, 10**20))), N)
