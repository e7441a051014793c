"""Which cuts count."""

from __future__ import annotations

import pytest

from streamproc.privacy.types import Period
from streamproc.protocol.control import Cut, CutSequence


@pytest.fixture
def cuts() -> CutSequence:
    """Of two partitions and three periods, the first of them closed."""
    sequence = CutSequence(partitions=2, horizon=3)
    assert sequence.offer(Cut(Period(1), (5, 0)))
    return sequence


def test_the_next_period_is_closed_by_its_first_cut(cuts: CutSequence) -> None:
    assert cuts.offer(Cut(Period(2), (5, 7)))
    assert not cuts.offer(Cut(Period(2), (6, 7)))
    assert cuts.cuts == (Cut(Period(1), (5, 0)), Cut(Period(2), (5, 7)))


@pytest.mark.parametrize(
    ("period", "ends"),
    [
        pytest.param(1, (5, 0), id="closed before"),
        pytest.param(3, (9, 9), id="not the next"),
        pytest.param(2, (9,), id="a partition lacking"),
        pytest.param(2, (9, 9, 9), id="a partition too many"),
        pytest.param(2, (4, 9), id="going back"),
    ],
)
def test_other_cuts_are_ignored(cuts: CutSequence, period: int, ends: tuple[int, ...]) -> None:
    assert not cuts.offer(Cut(Period(period), ends))
    assert cuts.period == 1


def test_nothing_is_closed_after_the_last_period(cuts: CutSequence) -> None:
    over = []
    for period in (2, 3):
        assert cuts.offer(Cut(Period(period), (9, 9)))
        over.append(cuts.is_over)
    assert over == [False, True]
    assert not cuts.offer(Cut(Period(4), (9, 9)))


def test_an_open_study_ends_with_its_first_last_cut() -> None:
    cuts = CutSequence(partitions=1, horizon=1_000_000, is_open=True)
    offered = [Cut(Period(1), (5,)), Cut(Period(3), (5,), last=True), Cut(Period(2), (5,), last=True)]
    assert [(cuts.offer(cut), cuts.is_over) for cut in offered] == [(True, False), (False, False), (True, True)]
    assert not any(cuts.offer(Cut(Period(period), (5,))) for period in (2, 3))
    assert cuts.period == 2


def test_a_closed_study_has_no_last_cut(cuts: CutSequence) -> None:
    assert not cuts.offer(Cut(Period(2), (9, 9), last=True))
    assert cuts.offer(Cut(Period(2), (9, 9)))
    assert not cuts.is_over
