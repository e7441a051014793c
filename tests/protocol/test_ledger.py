"""Records of the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamproc.errors import InvalidInput, LedgerConflict, Malformed, StudyChanged
from streamproc.privacy.types import Period, Rho
from streamproc.protocol.ledger import (
    CHUNK_MEASUREMENTS,
    Intent,
    MeasurementChunk,
    PeriodRecord,
    ReleasePeriod,
    StudyRecord,
    decode_ledger,
    decode_study_record,
    measurement_chunks,
    require_same_study,
)
from streamproc.study import WindowRelease
from streamproc.study.fingerprint import fingerprint, public_values
from tests.protocol.examples import PERIOD
from tests.studies import build_study

DIGESTS = st.binary(min_size=32, max_size=32)
PERIODS = st.integers(1, 10_000).map(Period)
COSTS = st.floats(0, 1000).map(Rho)
RELEASES = st.builds(
    ReleasePeriod,
    rho=COSTS,
    rho_spent=COSTS,
    clamped=st.integers(0, 65_536),
    n_star=st.integers(0, 2**31 - 1),
    columns=st.lists(st.tuples(PERIODS, DIGESTS), max_size=3).map(tuple),
    measurements=DIGESTS,
    contract=st.none() | DIGESTS,
)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9-]{0,9}", fullmatch=True)
RECORDS = (
    st.builds(
        StudyRecord, st.dictionaries(st.text(max_size=5), st.integers(0, 9) | st.text(max_size=5)), DIGESTS, st.booleans()
    )
    | st.builds(Intent, PERIODS, DIGESTS)
    | st.builds(
        PeriodRecord,
        PERIODS,
        st.dictionaries(NAMES, RELEASES, min_size=1, max_size=3),
        COSTS,
        DIGESTS,
        st.lists(DIGESTS, max_size=2).map(tuple),
    )
)


@given(RECORDS)
def test_a_record_comes_back(record: StudyRecord | Intent | PeriodRecord) -> None:
    assert decode_ledger(record.encode()) == record


@given(hnp.arrays(np.int64, st.integers(0, 20)), PERIODS)
def test_measurements_come_back(numbers: Any, period: Period) -> None:
    decoded = [decode_ledger(chunk.encode()) for chunk in measurement_chunks("r", period, [numbers[:5], numbers[5:]])]

    assert [number for chunk in decoded if isinstance(chunk, MeasurementChunk) for number in chunk.data] == numbers.tolist()


def test_many_measurements_take_several_records() -> None:
    numbers = np.arange(2 * CHUNK_MEASUREMENTS + 1)

    chunks = measurement_chunks("r", Period(1), [numbers])

    assert [(chunk.first, len(chunk.data), chunk.total) for chunk in chunks] == [
        (0, CHUNK_MEASUREMENTS, len(numbers)),
        (CHUNK_MEASUREMENTS, CHUNK_MEASUREMENTS, len(numbers)),
        (2 * CHUNK_MEASUREMENTS, 1, len(numbers)),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"v": 2},
        {"v": "1"},
        {"type": "Period"},
        {"type": ["period"]},
        {"period": 1.0},
        {"releases": {}},
        {"releases": []},
        {"releases": {"a.b": {}}},
        {"releases": {"a": 1}},
        {"releases": {b"a": {}}},
        {"rho_spent": -0.5},
        {"rho_spent": float("nan")},
        {"rho_spent": float("inf")},
        {"rho_spent": 0},
        {"previous": b"short"},
        {"abandoned": None},
        {"abandoned": [b"short"]},
    ],
)
def test_a_period_record_that_cannot_be_is_malformed(wrong: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        decode_ledger(msgpack.packb(msgpack.unpackb(PERIOD.encode()) | wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"rho": -1.0},
        {"rho_spent": None},
        {"clamped": -1},
        {"n_star": -1},
        {"n_star": None},
        {"columns": {}},
        {"columns": [1]},
        {"columns": [[1]]},
        {"columns": [[0, bytes(32)]]},
        {"columns": [[1, bytes(31)]]},
        {"columns": [[1, bytes(32)]] * 65},
        {"measurements": bytes(33)},
        {"contract": bytes(31)},
        {"contract": "0" * 32},
        {"contract": 1},
    ],
)
def test_a_release_of_a_period_that_cannot_be_is_malformed(wrong: dict[str, Any]) -> None:
    fields = msgpack.unpackb(PERIOD.encode())
    fields["releases"]["months-poor"] |= wrong

    with pytest.raises(Malformed):
        decode_ledger(msgpack.packb(fields))


@pytest.mark.parametrize(
    "wrong",
    [
        {"study": 1},
        {"study": [1]},
        {"study": {1: 2}},
        {"fingerprint": bytes(31)},
        {"fingerprint": "0" * 32},
        {"insecure": 1},
    ],
)
def test_a_study_record_that_cannot_be_is_malformed(wrong: dict[str, Any]) -> None:
    fields = {"v": 1, "type": "study", "study": {}, "fingerprint": bytes(32), "insecure": False}

    with pytest.raises(Malformed):
        decode_ledger(msgpack.packb(fields | wrong))


def test_a_study_record_holds_a_map() -> None:
    with pytest.raises(Malformed):
        StudyRecord(["no", "map"], bytes(32), insecure=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [b"1234567", "12345678", None, bytes(16)])
def test_measurements_that_cannot_be_are_malformed(data: object) -> None:
    fields = {"v": 1, "type": "measurement", "release": "r", "period": 1, "first": 0, "total": 1, "data": data}

    with pytest.raises(Malformed):
        decode_ledger(msgpack.packb(fields))


@pytest.mark.parametrize("salt", [None, b"", bytes(31), bytes(33), "s" * 32, 0])
def test_a_salt_is_absent_or_32_bytes(salt: object) -> None:
    fields = msgpack.unpackb(PERIOD.encode())
    assert "salt" not in fields

    with pytest.raises(Malformed, match="salt: expected 32 bytes"):
        decode_ledger(msgpack.packb(fields | {"salt": salt}))


def test_the_digest_of_a_contract_is_absent_where_there_is_none() -> None:
    first = PERIOD.releases["months-poor"]

    assert first.fields()["contract"] == first.contract
    assert "contract" not in replace(first, contract=None).fields()


STUDY = build_study(WindowRelease("w", 2), alphabet=("0", "1"))
BEGUN = StudyRecord(public_values(STUDY), fingerprint(STUDY, None), insecure=True)


def test_the_same_study_is_accepted_by_its_fingerprint_and_by_its_public_values() -> None:
    require_same_study(BEGUN, STUDY, fingerprint(STUDY, None))
    require_same_study(BEGUN, STUDY, fingerprint(STUDY, None), insecure=True)
    require_same_study(BEGUN, STUDY, None)


def test_a_role_with_another_fingerprint_is_refused_with_exit_3() -> None:
    with pytest.raises(StudyChanged, match="begun with other values") as changed:
        require_same_study(BEGUN, STUDY, b"x" * 32)
    assert (changed.value.study, changed.value.exit_code) == (STUDY.name, 3)


def test_a_reader_with_other_public_values_sees_which_with_exit_2() -> None:
    other = StudyRecord({**BEGUN.study, "horizon": 4}, BEGUN.fingerprint, insecure=True)
    with pytest.raises(InvalidInput, match="these differ: horizon$") as wrong:
        require_same_study(other, STUDY, None)
    assert wrong.value.exit_code == 2


@pytest.mark.parametrize("old", [{"measure": "contrast"}, {"measure": "histogram"}, {"counter": "sqrt"}])
@pytest.mark.parametrize("mark", [fingerprint(STUDY, None), None], ids=["role", "reader"])
def test_a_study_of_version_0_1_is_refused_with_exit_3(old: dict[str, str], mark: bytes | None) -> None:
    (release,) = BEGUN.study["releases"]
    begun = replace(BEGUN, study={**BEGUN.study, "releases": [release | old]})

    with pytest.raises(StudyChanged, match=r"begun with version 0\.1 .*; finish it with version 0\.1$") as changed:
        require_same_study(begun, STUDY, mark)
    assert changed.value.exit_code == 3


@pytest.mark.parametrize("releases", [None, 1, "w", [1], {"measure": "contrast"}])
def test_releases_of_another_form_are_other_values(releases: object) -> None:
    begun = replace(BEGUN, study={**BEGUN.study, "releases": releases})

    with pytest.raises(InvalidInput, match="these differ: releases$"):
        require_same_study(begun, STUDY, None)


def test_a_reader_sees_values_that_only_the_ledger_has() -> None:
    begun = replace(BEGUN, study={**BEGUN.study, "questions": []})

    with pytest.raises(InvalidInput, match="these differ: questions$"):
        require_same_study(begun, STUDY, None)


def test_a_study_does_not_go_on_without_the_seed_it_was_begun_with() -> None:
    with pytest.raises(StudyChanged, match="begun with a seed and cannot go on without one"):
        require_same_study(BEGUN, STUDY, BEGUN.fingerprint, insecure=False)


@pytest.mark.parametrize("value", [None, b"", Intent(Period(1), bytes(32)).encode()])
def test_a_ledger_that_does_not_begin_with_a_study_record_is_refused(value: bytes | None) -> None:
    with pytest.raises(LedgerConflict, match="topic same.ledger: does not begin with a study record"):
        decode_study_record("same.ledger", value)
