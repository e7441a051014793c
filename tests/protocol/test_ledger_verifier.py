"""A ledger is believed only if every record follows from those before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamproc.errors import VerificationFailed
from streamproc.privacy.accountant import total_spent
from streamproc.privacy.types import IntArray, Period, Rho
from streamproc.protocol.ledger import (
    CHUNK_MEASUREMENTS,
    Intent,
    MeasurementChunk,
    PeriodRecord,
    ReleasePeriod,
    StudyRecord,
    decode_ledger,
    digest,
    measurement_chunks,
    measurements_digest,
)
from streamproc.protocol.ledger_verifier import LedgerVerifier, VerifiedLedger, verify_chain
from tests.protocol.examples import STUDY

HORIZON = 4
K = 2
"""Release `w` gives its first columns at period 2, release `c` at period 1."""


def measured(release: str, period: int) -> list[IntArray]:
    if release == "w":
        return [] if period < K else [np.arange(CHUNK_MEASUREMENTS + 3) - period]
    return [np.array([period, -b]) for b in range(period)]


def column(release: str, period: int) -> tuple[Period, bytes]:
    return Period(period), digest(f"{release}{period}".encode())


def release_period(release: str, period: int) -> ReleasePeriod:
    started = period >= (K if release == "w" else 1)
    first = 1 if (release, period) == ("w", K) else period
    return ReleasePeriod(
        rho=Rho(0.25 if started else 0.0),
        rho_spent=Rho(0.25 * (period - (K - 1 if release == "w" else 0)) if started else 0.0),
        clamped=0,
        n_star=10 if started else None,
        columns=tuple(column(release, each) for each in range(first, period + 1)) if started else (),
        measurements=measurements_digest(measured(release, period)),
    )


def period_record(period: int, previous: bytes) -> PeriodRecord:
    releases = {name: release_period(name, period) for name in ("w", "c")}
    spent = total_spent([release.rho_spent for release in releases.values()])
    return PeriodRecord(Period(period), releases, spent, previous)


def chunks(period: int) -> list[bytes]:
    return [
        chunk.encode() for name in ("w", "c") for chunk in measurement_chunks(name, Period(period), measured(name, period))
    ]


Change = Callable[[PeriodRecord], PeriodRecord]


def ledger(periods: int = HORIZON, *, at: int = 0, change: Change = lambda record: record) -> list[bytes]:
    """A whole ledger; the record of period `at` is changed before it is announced, so that only the change is wrong."""
    values = [STUDY.encode()]
    head = digest(values[0])
    for period in range(1, periods + 1):
        record = period_record(period, head)
        value = (change(record) if period == at else record).encode()
        head = digest(value)
        values += [Intent(Period(period), head).encode(), *chunks(period), value]
    return values


def changed(name: str, **values: Any) -> Change:
    return lambda record: replace(record, releases={**record.releases, name: replace(record.releases[name], **values)})


def test_a_whole_ledger_is_verified_and_its_content_handed_over() -> None:
    verified = verify_chain(ledger())

    assert isinstance(verified, VerifiedLedger)
    assert verified.study == STUDY
    assert verified.period == HORIZON
    assert [record.period for record in verified.periods] == [1, 2, 3, 4]
    assert verified.column_digests("w") == tuple(column("w", period)[1] for period in range(1, HORIZON + 1))
    assert verified.head == digest(ledger()[-1])
    assert verified.intents == ()
    for name in ("w", "c"):
        for period in range(1, HORIZON + 1):
            expected = np.concatenate([np.zeros(0, np.int64), *measured(name, period)])
            assert verified.measurements[name, Period(period)].tolist() == expected.tolist()


def test_a_ledger_that_has_not_begun_is_none() -> None:
    assert verify_chain([]) is None


def test_a_walker_knows_at_every_record_what_holds_so_far() -> None:
    verifier = LedgerVerifier()
    for value in ledger(2):
        assert verifier.add(value).encode() == value
        assert verifier.verified() is not None


def test_every_prefix_of_a_ledger_is_a_ledger() -> None:
    values = ledger(3)

    for length in range(1, len(values) + 1):
        verified = verify_chain(values[:length])
        assert verified is not None
        done = [value for value in values[:length] if isinstance(decode_ledger(value), PeriodRecord)]
        assert verified.period == len(done)


def test_an_intent_without_its_record_is_shown() -> None:
    wrong, right = Intent(Period(2), bytes(32)).encode(), Intent(Period(2), bytes([1] * 32)).encode()

    verified = verify_chain([*ledger(1), wrong, right, wrong])

    assert verified is not None
    assert verified.intents == (bytes(32), bytes([1] * 32))


@pytest.mark.parametrize("repeat", [1, 2])
def test_an_intent_may_be_said_again_before_and_after_its_record(repeat: int) -> None:
    values = ledger(2)
    places = [place for place, value in enumerate(values) if isinstance(decode_ledger(value), Intent)]
    again = [values[places[-1]]] * repeat

    assert verify_chain([*values[: places[-1]], *again, *values[places[-1] :], *again]) is not None


@pytest.mark.parametrize("place", range(len(ledger(3))))
def test_a_record_left_out_is_noticed(place: int) -> None:
    values = ledger(3)
    last = place == len(values) - 1

    if last:
        verified = verify_chain(values[:-1])
        assert verified is not None
        assert verified.period == 2
        return
    with pytest.raises(VerificationFailed, match="ledger record [0-9]+: "):
        verify_chain(values[:place] + values[place + 1 :])


@pytest.mark.parametrize("place", range(1, len(ledger(2)) - 1))
def test_two_records_swapped_are_noticed(place: int) -> None:
    values = ledger(2)
    kinds = [type(decode_ledger(value)) for value in values[place : place + 2]]
    values[place], values[place + 1] = values[place + 1], values[place]
    # What an intent announces leaves in the same transaction, whose records of one release are in order among themselves.
    harmless = kinds == [Intent, MeasurementChunk] or (
        kinds == [MeasurementChunk] * 2 and decode_ledger(values[place]).release != decode_ledger(values[place + 1]).release  # type: ignore[union-attr]
    )

    if harmless:
        verify_chain(values)
    else:
        with pytest.raises(VerificationFailed):
            verify_chain(values)


@pytest.mark.parametrize("place", range(len(ledger(2))))
def test_a_flipped_bit_anywhere_is_noticed_by_the_end(place: int) -> None:
    values = ledger(3)
    byte = len(values[place]) - 1
    values[place] = values[place][:byte] + bytes([values[place][byte] ^ 1])

    with pytest.raises(VerificationFailed):
        verify_chain(values)


@pytest.mark.parametrize(
    ("at", "change", "problem"),
    [
        (2, lambda record: replace(record, period=Period(3)), "is of period 3, but 2 is next"),
        (2, lambda record: replace(record, previous=bytes(32)), "not chained"),
        (2, lambda record: replace(record, releases={"c": record.releases["c"]}), "other releases"),
        (1, lambda record: replace(record, releases={"w": record.releases["w"]}), "no release for some measurements"),
        (2, lambda record: replace(record, rho_spent=Rho(0.1)), "do not add up"),
        (2, lambda record: replace(record, abandoned=(bytes(32),)), "never announced"),
        (2, changed("c", rho_spent=Rho(0.2)), "spending of c"),
        (2, changed("c", rho=Rho(0.125)), "spending of c"),
        (3, changed("c", n_star=11), "synthetic people of c"),
        (2, changed("c", columns=()), "column of c"),
        (2, changed("c", columns=(column("c", 1), column("c", 2))), "column of c"),
        (1, changed("w", columns=(column("w", 2),), n_star=10), "column of w"),
        (2, changed("w", columns=(column("w", 2),)), "column of w"),
        (3, changed("w", measurements=bytes(32)), "measurements of w"),
    ],
)
def test_a_record_that_does_not_follow_is_named_with_its_fault(at: int, change: Change, problem: str) -> None:
    with pytest.raises(VerificationFailed, match=problem):
        verify_chain(ledger(at=at, change=change))


def test_another_draw_that_was_announced_and_not_abandoned_is_refused() -> None:
    values = ledger(1)
    other = Intent(Period(1), bytes(32)).encode()

    with pytest.raises(VerificationFailed, match="the one draw that was announced"):
        verify_chain([values[0], other, *values[1:]])
    with pytest.raises(VerificationFailed, match="the one draw that was announced"):
        verify_chain([*values[:2], other, *values[2:]])


def test_a_lost_draw_may_be_replaced_if_the_record_says_so() -> None:
    lost = bytes(32)
    values = ledger(2, at=1, change=lambda record: replace(record, abandoned=(lost,)))

    assert verify_chain([values[0], Intent(Period(1), lost).encode(), *values[1:]]) is not None


def test_nothing_is_announced_or_measured_ahead_of_time() -> None:
    with pytest.raises(VerificationFailed, match="announces period 3, but 2 is next"):
        verify_chain([*ledger(1), Intent(Period(3), bytes(32)).encode()])
    with pytest.raises(VerificationFailed, match="measures period 3, but 2 is next"):
        verify_chain([*ledger(1), measurement_chunks("c", Period(3), measured("c", 3))[0].encode()])
    with pytest.raises(VerificationFailed, match="announces period 1, but 2 is next"):
        verify_chain([*ledger(1), Intent(Period(1), bytes(32)).encode()])


@pytest.mark.parametrize("value", [None, b"", b"\xc0", ledger(1)[1]])
def test_what_does_not_begin_with_a_study_is_no_ledger(value: bytes | None) -> None:
    with pytest.raises(VerificationFailed, match="ledger record 0: "):
        verify_chain([value])


def test_a_second_study_record_is_refused() -> None:
    with pytest.raises(VerificationFailed, match="ledger record 1: "):
        verify_chain([STUDY.encode(), StudyRecord({}, bytes(32), insecure=True).encode()])
