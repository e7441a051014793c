"""The two rules for several reports of one person, one period, against lists in plain Python."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.gatherer import report_buffer
from streamproc.gatherer.report_buffer import NO_SYMBOL, KeepFirst, KeepLast
from streamproc.privacy.types import IntArray

Rule = type[KeepFirst] | type[KeepLast]
Report = tuple[int, int, int]
"""Row, symbol, offset."""

RULES = pytest.mark.parametrize("rule", [KeepFirst, KeepLast])


def add(reports: KeepFirst | KeepLast, *new: Report, sure: int = 0) -> list[int]:
    rows, symbols, offsets = (np.array([report[part] for report in new], dtype=np.int64) for part in range(3))
    return [int(offset) for offset in reports.add(rows, symbols.astype(np.uint8), offsets, sure)]


def plainly(rule: Rule, all_reports: list[Report], cut: int, people: int) -> list[int]:
    symbols = [int(NO_SYMBOL)] * people
    below = [report for report in all_reports if report[2] < cut]
    for row, symbol, _ in reversed(below) if rule is KeepFirst else below:
        symbols[row] = symbol
    return symbols


@st.composite
def in_order(draw: st.DrawFn) -> list[Report]:
    steps = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)), max_size=30))
    offsets = np.cumsum([step for _, _, step in steps]).tolist()
    return [(row, symbol, offset) for (row, symbol, _), offset in zip(steps, offsets, strict=True)]


@RULES
@given(
    log=in_order(),
    cut=st.integers(0, 40),
    sure=st.integers(0, 40),
    parts=st.integers(1, 5),
    resume=st.booleans(),
    dense_from=st.integers(0, 5),
    few=st.sampled_from([0, 3, 64]),
)
def test_settling_follows_the_rule_and_names_every_other_report_once(
    rule: Rule, log: list[Report], cut: int, sure: int, parts: int, resume: bool, dense_from: int, few: int
) -> None:
    reports, named = rule(), []
    with patch.object(report_buffer, "_MIN_REPEATS", few):
        for part in range(parts):
            if part == dense_from:
                named += reports.make_dense().tolist()
            named += add(reports, *log[part * len(log) // parts : (part + 1) * len(log) // parts], sure=min(sure, cut))
            if resume:
                reports = rule(**reports.arrays())  # type: ignore[arg-type]
    settled = reports.close(cut, 5)

    assert settled.symbols.tolist() == plainly(rule, log, cut, 5)
    assert settled.symbols.dtype == np.uint8
    named += settled.late.tolist() + settled.repeated.tolist()
    counted = len(settled.symbols) - settled.symbols.tolist().count(NO_SYMBOL)
    assert len(named) == len(log) - counted
    assert sorted(named + settled.counted.tolist()) == sorted(offset for _, _, offset in log)
    assert set(settled.late.tolist()) <= {offset for _, _, offset in log if offset >= cut}
    assert settled.late.tolist() == sorted(settled.late.tolist())


@RULES
@given(log=in_order(), members=st.lists(st.booleans(), min_size=5, max_size=5), sure=st.integers(0, 20))
def test_strangers_reports_are_dropped_and_the_rest_closes_ranks(
    rule: Rule, log: list[Report], members: list[bool], sure: int
) -> None:
    reports = rule()
    named = add(reports, *log, sure=sure)
    dropped = reports.retain(np.array(members)).tolist()
    stays = [report for report in log if members[report[0]]]
    ranks = (np.cumsum(members) - 1).tolist()

    cut = 100
    settled = reports.close(cut, sum(members))
    assert settled.symbols.tolist() == plainly(rule, [(ranks[row], s, o) for row, s, o in stays], cut, sum(members))
    assert dropped == sorted(dropped)
    counted = len({row for row, _, _ in stays})
    assert len(named) + len(dropped) + len(settled.repeated) == len(log) - counted


def test_the_first_report_beyond_the_cut_is_late_and_those_after_it_were_repeats() -> None:
    reports = KeepFirst()
    reports.make_dense()

    assert add(reports, (0, 1, 10), (0, 2, 11)) == [11]
    assert reports.close(10, 1).late.tolist() == [10]


def test_the_last_report_below_a_cut_counts_though_later_ones_were_read() -> None:
    reports = KeepLast()
    add(reports, (0, 1, 3), (0, 2, 4), (0, 3, 9))

    settled = reports.close(5, 1)
    assert (settled.symbols.tolist(), settled.late.tolist(), settled.repeated.tolist()) == ([2], [9], [3])


def test_under_last_only_what_may_lie_beyond_the_cut_is_kept_in_full() -> None:
    reports = KeepLast()
    reports.make_dense()
    add(reports, *[(0, symbol, offset) for offset, symbol in enumerate([1, 2, 3, 1])])
    assert reports.undecided == 4

    assert reports.decide(3).tolist() == [0, 1]
    assert reports.undecided == 1
    assert add(reports, (0, 2, 4), sure=5) == [2, 3]
    assert reports.undecided == 0
    assert reports.close(5, 1).symbols.tolist() == [2]


def test_many_small_additions_under_last_take_little_more_room_than_their_reports() -> None:
    reports = KeepLast()
    one: IntArray = np.zeros(1, dtype=np.int64)
    for offset in range(2000):
        reports.add(one, one.astype(np.uint8), one + offset, 0)

    assert reports.undecided == 2000
    assert reports._open._buffer.nbytes <= 2000 * 13 * 5 // 4


@RULES
def test_sparse_reports_take_33_bytes_for_each_row_at_most(rule: Rule) -> None:
    """However often they are repeated."""
    reports = rule()
    named = 0
    for wave in range(50):
        rows = np.arange(1_000, dtype=np.int64)
        named += len(reports.add(rows, rows.astype(np.uint8), rows + 1_000 * wave, 10**6))
        assert reports.sparse_bytes <= 33 * 1_000 + 1_100
    assert named + 2_000 >= 49_000
    assert named + len(reports.make_dense()) == 49_000
    assert reports.sparse_bytes == 0
