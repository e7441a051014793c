"""What a gatherer keeps for each person, besides the index from their id to their row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest

from streamproc.gatherer.logic import GathererLogic, PartitionContext
from streamproc.gatherer.member_index import MemberIndex
from streamproc.privacy.types import Period
from streamproc.protocol.control import Cut
from streamproc.protocol.rejects import Reason
from streamproc.protocol.reports import ReportBatch, encode_batches, encode_report
from streamproc.protocol.state_file import pack_arrays, unpack_arrays
from streamproc.releases.tally_state import TallyState
from streamproc.study import CumulativeRelease, Population, WindowRelease
from tests.stream_model.report_sequences import LogRecord
from tests.studies import build_study

PEOPLE = 100_000
NAMES = [f"person-{number}" for number in range(PEOPLE)]
KINDS = ("dense/", "sparse/", "undecided/")


def kept_bytes(gathering: GathererLogic) -> int:
    """Of all arrays, and of the hashes."""
    hashes = len(gathering._people._hashes)
    return hashes + sum(array.nbytes for array in arrays_in(gathering))


def arrays_in(thing: object) -> Iterator[np.ndarray]:
    if isinstance(thing, np.ndarray):
        # What counts of a part of an array is the array.
        yield thing if thing.base is None else np.asarray(thing.base)
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from arrays_in(value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from arrays_in(value)
    elif type(thing).__module__.startswith(("streamproc.gatherer", "streamproc.releases")) and not isinstance(
        thing, MemberIndex
    ):
        yield from arrays_in(vars(thing))


def everybody_reports(gathering: GathererLogic, period: int, offset: int) -> int:
    """Ingest the reports in batches; returns the offset after them."""
    times, symbols = np.full(PEOPLE, period, dtype=np.uint16), np.zeros(PEOPLE, dtype=np.uint8)
    for value in encode_batches(NAMES, times, symbols):
        gathering.ingest([LogRecord(offset, value)])
        offset += 1
    return offset


@pytest.mark.parametrize("rule", ["first", "last"])
def test_at_most_64_bytes_a_person_before_and_after_it_is_known_who_takes_part(rule: Literal["first", "last"]) -> None:
    """Three windows, two cumulative releases; everybody reports, and early for the next period too."""
    population = Population(initial="0", size=PEOPLE, duplicates=rule)
    study = build_study(
        WindowRelease("w", 3),
        CumulativeRelease("c", ("1",)),
        CumulativeRelease("d", ("0",)),
        partitions=1,
        population=population,
    )
    gathering = GathererLogic(PartitionContext(study, 0, b"k" * 32))
    end = everybody_reports(gathering, 1, 0)
    assert gathering.people == PEOPLE
    assert kept_bytes(gathering) <= 64 * PEOPLE

    gathering.add_cut(Cut(Period(1), (end,)))
    assert len(gathering.close_periods(end)) == 1
    end = everybody_reports(gathering, 3, everybody_reports(gathering, 2, end))
    assert 16 * PEOPLE < kept_bytes(gathering) <= 64 * PEOPLE
    assert isinstance(gathering._cohort, TallyState)


@pytest.mark.parametrize("rule", ["first", "last"])
def test_one_members_reports_for_every_later_period_take_kilobytes(rule: Literal["first", "last"]) -> None:
    gathering = full_partition(250_000, 365, rule)
    before = kept_bytes(gathering)
    gathering.ingest([LogRecord(10 + t, encode_report(NAMES[-1], t, "1")) for t in range(2, 366)])
    gathering.add_cut(Cut(Period(2), (1_000,)))

    # The next period has a slot of 9 bytes for each person, and some more.
    assert kept_bytes(gathering) - before < 12 * 250_000 + 500_000
    assert sum(array.nbytes for name, array in gathering.arrays().items() if name.startswith("sparse/")) < 50_000
    assert len(gathering.close_periods(1_000)) == 1


@pytest.mark.parametrize("rule", ["first", "last"])
def test_everybodys_reports_for_later_periods_take_12_bytes_each_at_most(rule: Literal["first", "last"]) -> None:
    gathering = full_partition(PEOPLE, 12, rule)
    before, end = kept_bytes(gathering), 100
    for period in range(2, 13):
        end = everybody_reports(gathering, period, end)
    gathering.add_cut(Cut(Period(2), (end,)))

    assert kept_bytes(gathering) - before < 12 * PEOPLE * 11


@pytest.mark.parametrize("rule", ["first", "last"])
def test_a_checkpoint_with_slots_for_later_periods_is_read_sparsely(rule: Literal["first", "last"]) -> None:
    """As state files before version 3 have them."""
    gathering = full_partition(PEOPLE, 365, rule)
    gathering.ingest([LogRecord(10 + t, encode_report(NAMES[-1], t, "1")) for t in range(2, 366)])
    gathering.add_cut(Cut(Period(2), (1_000,)))
    state = {name: array for name, array in gathering.arrays().items() if not name.startswith(KINDS)}
    for period, reports in gathering._open._reports.items():
        reports.make_dense()
        state |= {f"open/{period}/{name}": array for name, array in reports.arrays().items()}
    assert "open/365/symbols" in state

    resumed = GathererLogic.restored(gathering._context, state)
    assert kept_bytes(resumed) < kept_bytes(gathering) // 10 + 64 * PEOPLE
    assert resumed.arrays()["dense/periods"].tolist() == [2]
    assert resumed.arrays()["sparse/periods"].tolist() == list(range(3, 366))
    for period in range(2, 366):
        resumed.add_cut(Cut(Period(period), (1_000,)))
    assert [tally.counts["w"].tolist()[1] for tally in resumed.close_periods(1_000)] == [1] * 364


@pytest.mark.parametrize("rule", ["first", "last"])
@pytest.mark.parametrize("cut", [3, 9_000])
def test_a_checkpoint_with_reports_for_3000_periods_can_be_read(rule: Literal["first", "last"], cut: int) -> None:
    """All report for all periods before the first is closed. Below the cut of period 1 lie its own reports, or all."""
    population = Population(initial="0", duplicates=rule)
    study = build_study(WindowRelease("w", 1), partitions=1, horizon=3_000, population=population)
    gathering = GathererLogic(PartitionContext(study, 0, b"k" * 32))
    reports = [(name, period) for period in range(1, 3_001) for name in NAMES[:3]]
    gathering.ingest([LogRecord(offset, encode_report(name, t, "1")) for offset, (name, t) in enumerate(reports)])
    gathering.add_cut(Cut(Period(1), (cut,)))
    assert len(gathering.close_periods(9_000)) == 1

    state = gathering.arrays()
    packed = pack_arrays({"arrays": state})
    again = GathererLogic.restored(gathering._context, unpack_arrays(packed)["arrays"])
    assert len(state) < 20
    assert pack_arrays({"arrays": again.arrays()}) == packed
    for period in (2, 3):
        again.add_cut(Cut(Period(period), (9_000,)))
    assert [tally.counts["w"].tolist() for tally in again.close_periods(9_000)] == [[0, 3]] * 2


@pytest.mark.parametrize("rule", ["first", "last"])
def test_batches_with_a_later_and_a_bad_report_take_the_stated_memory(rule: Literal["first", "last"]) -> None:
    """For each person and later period 12 bytes, for each batch record 15, and 12 for its one reason of rejects."""
    gathering = full_partition(2_000, 12, rule)
    before, offset = kept_bytes(gathering), 100
    symbols = np.zeros(2, dtype=np.uint8)
    for period in range(3, 13):
        times = np.array([period, 0], dtype=np.uint16)
        batches = [ReportBatch([name, name], times, symbols).encode() for name in NAMES[:2_000]]
        gathering.ingest([LogRecord(offset + place, value) for place, value in enumerate(batches)])
        offset += len(batches)
    gathering.add_cut(Cut(Period(2), (offset,)))
    assert gathering.drain_rejects() == []

    assert (kept_bytes(gathering) - before) / (2_000 * 10) <= 12 + 15 + 12
    again = GathererLogic.restored(gathering._context, gathering.arrays())
    for period in range(2, 13):
        again.add_cut(Cut(Period(period), (offset,)))
    assert len(again.close_periods(offset)) == 11
    rejects = again.drain_rejects()
    assert [reject.offset for reject in rejects] == list(range(100, offset))
    assert {tuple(reject.by_reason.items()) for reject in rejects} == {((Reason.PERIOD_OUT_OF_RANGE, 1),)}


def full_partition(people: int, horizon: int, rule: Literal["first", "last"]) -> GathererLogic:
    """Everybody is in it; period 1 is settled."""
    population = Population(initial="0", size=people, duplicates=rule)
    study = build_study(WindowRelease("w", 1), partitions=1, horizon=horizon, population=population)
    gathering = GathererLogic(PartitionContext(study, 0, b"k" * 32))
    names = [f"person-{number}" for number in range(people)]
    times, symbols = np.ones(people, dtype=np.uint16), np.zeros(people, dtype=np.uint8)
    gathering.ingest([LogRecord(place, value) for place, value in enumerate(encode_batches(names, times, symbols))])
    gathering.add_cut(Cut(Period(1), (10,)))
    assert [tally.people for tally in gathering.close_periods(10)] == [people]
    return gathering


def test_periods_that_anybody_claims_do_not_fill_the_index_of_claims() -> None:
    gathering = full_partition(10, 2_000, "first")
    gathering.ingest([LogRecord(10 + t, encode_report(NAMES[0], t, "1")) for t in range(2, 2_001)])
    assert len(gathering._codes._prepared) <= 514
    for period in range(2, 2_001):
        gathering.add_cut(Cut(Period(period), (3_000,)))
    assert [tally.counts["w"].tolist()[1] for tally in gathering.close_periods(3_000)] == [1] * 1_999
