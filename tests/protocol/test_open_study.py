"""The public records of an open study: whatever does not follow from what came before is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamproc.errors import Malformed, VerificationFailed
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol import snapshots
from streamproc.protocol.columns import (
    ColumnAssembler,
    ColumnChunk,
    ContractRecord,
    DecodedColumn,
    NewRows,
    decode_synthetic,
)
from streamproc.protocol.ledger import Intent, PeriodRecord, StudyRecord, Summary, decode_ledger, digest
from streamproc.protocol.ledger_verifier import LedgerVerifier, VerifiedLedger, verify_chain
from streamproc.protocol.release_audit import ReleaseAudit, check_due_columns
from streamproc.protocol.snapshots import SnapshotChunk
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.open_flow import OpenContract
from streamproc.releases.step import Column, PresentPeople
from streamproc.study.fingerprint import public_values
from tests.forged import Change, cheaper, rechained, with_column, with_measurements, with_release, with_unpaid_redraw
from tests.stream_model.open_study import NAMES, OPEN_STUDY, PERIODS, Published, publish, published

STUDY = OPEN_STUDY


def audit(ledger_values: Sequence[bytes], columns: Mapping[str, Sequence[bytes]]) -> VerifiedLedger:
    """Check every release, period by period."""
    ledger = verify_chain(ledger_values)
    assert ledger is not None
    check_due_columns(STUDY.releases, ledger)
    for name in NAMES:
        contract, *chunks = [decode_synthetic(value) for value in columns[name]]
        assert isinstance(contract, ContractRecord)
        audited, assembler = ReleaseAudit(contract), ColumnAssembler(contract)
        for chunk in chunks:
            assert isinstance(chunk, ColumnChunk | SnapshotChunk)
            column = assembler.add(chunk)
            if column is not None:
                audited.add_column(column.symbols, ledger)
        audited.check_spending(ledger)
    return ledger


@pytest.mark.parametrize("redrawn", [(), (2, 9)])
def test_what_a_study_publishes_is_what_is_recomputed(redrawn: tuple[int, ...]) -> None:
    public = published(redrawn=redrawn)

    ledger = audit(public.ledger, public.columns)

    assert ledger.is_over and ledger.period == PERIODS
    for name in NAMES:
        record = decode_synthetic(public.columns[name][0])
        assert isinstance(record, ContractRecord) and record.n_star == 0
        spent = [each.releases[name].rho_spent for each in ledger.periods]
        assert spent == sorted(spent)
        if not redrawn:
            flat = 2 * STUDY.population.tenure + 2  # type: ignore[operator]
            assert spent[-1] <= record.contract.rho and set(spent[flat:]) <= {spent[flat - 1]}


def test_a_verifier_that_keeps_little_says_the_same_about_the_end() -> None:
    public, verifier = published(), LedgerVerifier(keep=2)
    for value in public.ledger:
        verifier.add(value)
    some, everything = verifier.verified(), verify_chain(public.ledger)
    assert some is not None and everything is not None

    assert (some.period, some.head, some.intents, some.is_over) == (PERIODS, everything.head, (), True)
    assert some.periods == everything.periods[-2:] and some.record(PERIODS) == everything.periods[-1]
    assert {period for _, period in some.measurements} == {PERIODS - 1, PERIODS}
    with pytest.raises(LookupError):
        some.record(PERIODS - 2)


def another(ledger: Sequence[bytes]) -> list[bytes]:
    """A further period after the last one, like it and well announced."""
    last = decode_ledger(ledger[-1])
    assert isinstance(last, PeriodRecord)
    following = replace(last, period=Period(last.period + 1), previous=digest(ledger[-1]))
    return [*ledger, Intent(following.period, digest(following.encode())).encode(), following.encode()]


def test_nothing_comes_after_the_last_period() -> None:
    ledger = published().ledger

    with pytest.raises(VerificationFailed, match="comes after the last period"):
        verify_chain(another(ledger))
    repeated = Intent(Period(PERIODS), digest(ledger[-1])).encode()
    assert verify_chain([*ledger, repeated]) is not None


def test_only_an_open_study_ends_early() -> None:
    closed = {**public_values(STUDY), "population": {}}
    ledger = [StudyRecord(closed, bytes(32), insecure=True).encode(), *published().ledger[1:]]
    same_rows = with_release("w", n_star=9), with_release("s", n_star=9), with_release("c", n_star=9)

    def change(record: PeriodRecord) -> PeriodRecord:
        for each in same_rows:
            record = each(record)
        return record

    with pytest.raises(VerificationFailed, match="only an open study can end early"):
        verify_chain(rechained(ledger, change))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (with_release("w", [7], n_star=3), "fewer synthetic people of w than there were"),
        (with_release("w", [7], n_star=None, columns=()), "lacks a column of w"),
        (with_release("w", [7], contract=bytes(32)), "must state the contract of w once"),
        (with_release("w", [1], contract=None), "must state the contract of w once"),
        (with_release("s", range(7, PERIODS + 1), n_star=lambda rows: rows + 1), "period 7: release s states"),
    ],
)
def test_the_number_of_rows_follows_from_the_columns(change: Change, problem: str) -> None:
    public = published()

    with pytest.raises(VerificationFailed, match=problem):
        audit(rechained(public.ledger, change), public.columns)


@pytest.mark.parametrize("name", NAMES)
def test_spending_that_is_too_low_is_noticed(name: str) -> None:
    public = published()

    with pytest.raises(VerificationFailed, match=f"release {name} states that it has spent"):
        audit(cheaper(public.ledger, name, 0.999), public.columns)
    with pytest.raises(VerificationFailed, match="1 repeated draws cost"):
        audit(with_unpaid_redraw(public.ledger, 5), public.columns)


@pytest.mark.parametrize("name", NAMES)
def test_other_measurements_are_noticed(name: str) -> None:
    public = published()

    def more(data: IntArray) -> IntArray:
        data[0] += 2_000_000
        return data

    with pytest.raises(VerificationFailed, match=f"release {name}, period 6: .* do not follow from the measurements"):
        audit(with_measurements(public.ledger, name, 6, more), public.columns)


def forged_column(name: str, period: int, change: Callable[[Column], Column]) -> None:
    public = published()
    ledger, columns = with_column(public.ledger, public.columns[name], name, period, change)
    audit(ledger, {**public.columns, name: columns})


def test_synthetic_people_whose_tenure_is_over_must_leave() -> None:
    name, tenure = "c", 4
    contract = stated_contracts(STUDY, 0, insecure=True)[name]
    assert isinstance(contract, OpenContract)
    left, found = len(contract.alphabet), []
    for period in range(1, PERIODS):
        state, column = published().states[period][name], columns_of(name)[period]
        over = np.flatnonzero(state.ages == tenure)
        # Somebody younger in the same state stays, so that the two can change places and no count differs.
        stays = (state.ages < (tenure or 0)) & (column[: len(state.states)] != left)
        found += [
            (period + 1, old, young) for old in over for young in np.flatnonzero(stays & (state.states == state.states[old]))
        ]
    period, old, young = found[0]

    def swap(column: Column) -> Column:
        column[[old, young]] = column[[young, old]]
        return column

    with pytest.raises(VerificationFailed, match=f"release {name}, period {period}: 1 of its"):
        forged_column(name, period, swap)


def columns_of(name: str) -> list[Column]:
    return [column.symbols for column in decoded_columns(published().columns[name])]


def decoded_columns(values: Sequence[bytes]) -> list[DecodedColumn]:
    """The columns in the values of a release's topic."""
    record, *chunks = [decode_synthetic(value) for value in values]
    assert isinstance(record, ContractRecord)
    assembler = ColumnAssembler(record)
    found = [assembler.add(chunk) for chunk in chunks if isinstance(chunk, ColumnChunk | SnapshotChunk)]
    return [column for column in found if column is not None]


def test_somebody_who_enters_does_not_leave_at_once() -> None:
    def leave(column: Column) -> Column:
        column[-1] = len(STUDY.alphabet)
        return column

    with pytest.raises(VerificationFailed, match="somebody leaves who has just entered"):
        forged_column("w", 4, leave)


@pytest.mark.parametrize(
    "change",
    [
        lambda chunk: replace(chunk, new=None),
        lambda chunk: replace(chunk, new=NewRows(chunk.new.before + 1, chunk.new.entrants)),
        lambda chunk: replace(chunk, new=NewRows(chunk.new.before, chunk.new.entrants - 1)),
        lambda chunk: replace(
            chunk, rows=chunk.rows - 1, total=chunk.total - 1, data=chunk.data[: -(-(chunk.rows - 1) // 4)]
        ),
        lambda chunk: replace(chunk, period=Period(chunk.period + 1)),
    ],
    ids=["no entrants", "another first row", "other entrants", "too short", "another period"],
)
def test_a_column_has_an_entry_for_everybody_present_and_for_those_who_enter(
    change: Callable[[ColumnChunk], ColumnChunk],
) -> None:
    record, *chunks = [decode_synthetic(value) for value in published().columns["w"]]
    assert isinstance(record, ContractRecord)
    assembler = ColumnAssembler(record)
    for chunk in chunks[:3]:
        assert isinstance(chunk, ColumnChunk)
        assembler.add(chunk)
    assert isinstance(chunks[3], ColumnChunk)

    with pytest.raises(VerificationFailed, match="expected row 0 of"):
        assembler.add(change(chunks[3]))


def test_a_column_of_a_closed_study_has_no_new_rows() -> None:
    from tests.protocol.examples import COLUMN, MONTHS_POOR
    from tests.protocol.test_node import records_of

    chunk = decode_synthetic(records_of(MONTHS_POOR, [COLUMN])[1])
    assert isinstance(chunk, ColumnChunk)

    with pytest.raises(VerificationFailed, match="expected row 0 of 10"):
        ColumnAssembler(MONTHS_POOR).add(replace(chunk, new=NewRows(0, 10)))


EVERY = 4
"""Periods between summaries in the tests below."""


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> Published:
    """The study with a summary in every few periods, which it does not end with."""
    monkeypatch.setattr(snapshots, "SUMMARY_EVERY", EVERY)
    return publish(last=False, redrawn=(3,))


def test_summaries_are_recomputed_from_columns_and_measurements(often: Published) -> None:
    ledger = audit(often.ledger, often.columns)

    assert [record.period for record in ledger.periods if record.summary is not None] == [4, 8, 12]
    summary = ledger.record(12).summary
    assert summary is not None and summary.abandoned == 1 and summary.study == digest(often.ledger[0])
    for name, release in summary.releases.items():
        state = often.states[12][name]
        assert release.present == len(state.numbers) and release.numbers.tolist() == state.estimates.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_a_snapshot_comes_back_from_its_chunks(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(snapshots, "CHUNK_ROWS", 16)
    rng = np.random.default_rng(seed)
    numbers = np.cumsum(1 + rng.integers(0, [1, 300, 40_000_000][seed], size=50)) - 1
    shorts = rng.integers(0, 60_000, size=(2, 50)).astype(np.uint16)
    present = PresentPeople(numbers.astype(np.uint32), shorts[0], shorts[1])
    chunks = [decode_synthetic(chunk.encode()) for chunk in snapshots.snapshot_chunks("w", Period(128), present)]

    assembler = snapshots.SnapshotAssembler("w", Period(128), 50)
    done = [isinstance(chunk, SnapshotChunk) and assembler.add(chunk, keep=True) for chunk in chunks]
    again = assembler.present()

    assert done == [False, False, False, True]
    assert again.numbers.tolist() == numbers.tolist()
    assert (again.states == present.states).all() and (again.ages == present.ages).all()


@pytest.mark.parametrize(
    "numbers",
    [b"\x00", b"\x00\x80", b"\x80\x00\x00", b"\x00\x00\x00", b"\x80\x80\x80\x80\x80\x01\x00", b"\xff\xff\xff\xff\x7f\x00"],
)
def test_row_numbers_are_in_their_shortest_form(numbers: bytes) -> None:
    assert snapshots.unpack_gaps(b"\x81\x02\x03", 2).tolist() == [257, 261]
    with pytest.raises(Malformed):
        snapshots.unpack_gaps(numbers, 2)


def with_summary(release: str, **values: Any) -> Change:
    """Replace values of one release in every summary; a callable is given the old value."""

    def change(record: PeriodRecord) -> PeriodRecord:
        if record.summary is None:
            return record
        entry = record.summary.releases[release]
        new = {name: value(getattr(entry, name)) for name, value in values.items()}
        releases = {**record.summary.releases, release: replace(entry, **new)}
        return replace(record, summary=replace(record.summary, releases=releases))

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda record: replace(record, summary=None), "lacks a summary that is due"),
        (with_summary("w", contract=lambda _: bytes(32)), "states another contract"),
        (with_summary("w", present=lambda present: present - 1), "period 4: the summary of release w is not that"),
        (with_summary("s", snapshot=lambda _: bytes(32)), "period 4: the summary of release s is not that"),
        (with_summary("c", estimates=lambda estimates: estimates[8:] + estimates[:8]), "the summary of release c"),
        (with_summary("c", estimates=lambda estimates: estimates[8:]), "the summary of release c"),
    ],
)
def test_a_summary_that_does_not_follow_is_refused(often: Published, change: Change, problem: str) -> None:
    with pytest.raises(VerificationFailed, match=problem):
        audit(rechained(often.ledger, change), often.columns)


def test_a_summary_of_another_study_or_of_other_losses_is_refused(often: Published) -> None:
    def another_study(record: PeriodRecord) -> PeriodRecord:
        return record if record.summary is None else replace(record, summary=replace(record.summary, study=bytes(32)))

    def other_losses(record: PeriodRecord) -> PeriodRecord:
        return record if record.summary is None else replace(record, summary=replace(record.summary, abandoned=0))

    with pytest.raises(VerificationFailed, match="has the summary of another study"):
        verify_chain(rechained(often.ledger, another_study))
    with pytest.raises(VerificationFailed, match="has a summary of another number of lost draws"):
        verify_chain(rechained(often.ledger, other_losses))
    with pytest.raises(VerificationFailed, match="one that is not"):
        verify_chain(rechained(often.ledger, lambda record: replace(record, summary=summary_of(often, 4))))


def summary_of(public: Published, period: int) -> Summary | None:
    ledger = verify_chain(public.ledger)
    assert ledger is not None
    return ledger.record(period).summary


def test_a_column_is_complete_with_its_snapshot(often: Published) -> None:
    record, *chunks = [decode_synthetic(value) for value in often.columns["w"]]
    assert isinstance(record, ContractRecord)
    column, snapshot, following = chunks[3], chunks[4], chunks[5]
    assert isinstance(column, ColumnChunk) and isinstance(snapshot, SnapshotChunk) and isinstance(following, ColumnChunk)

    def begun() -> ColumnAssembler:
        assembler = ColumnAssembler(record)
        for chunk in chunks[:3]:
            assert isinstance(chunk, ColumnChunk)
            assembler.add(chunk)
        return assembler

    assembler = begun()
    done = [(assembler.add(each), assembler.has_begun) for each in (column, snapshot)]
    (nothing, begins), (whole, goes_on) = done
    assert nothing is None and whole is not None and (begins, goes_on) == (True, False)
    assert whole.snapshot == snapshots.snapshot_digest([snapshot])
    with pytest.raises(VerificationFailed, match="a snapshot is missing, or has no column before it"):
        assembler.add(snapshot)
    assembler = begun()
    assembler.add(column)
    with pytest.raises(VerificationFailed, match="period 4: a snapshot is missing"):
        assembler.add(following)
    assembler = begun()
    assembler.add(column)
    with pytest.raises(VerificationFailed, match="expected row 0 of .* of the snapshot of period 4"):
        assembler.add(replace(snapshot, period=Period(8)))
