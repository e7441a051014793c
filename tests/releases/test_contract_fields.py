"""A contract from a topic and one from a file's metadata are held to the same bounds."""

from __future__ import annotations

import json
import math
from typing import Any

import msgpack
import pytest

from streamproc.errors import InvalidInput, Malformed
from streamproc.panel import Panel
from streamproc.panel.metadata import metadata_from_text, metadata_text
from streamproc.protocol.columns import ContractRecord, decode_synthetic
from streamproc.releases.kind import MAX_ROWS
from tests.protocol.examples import MONTHS_POOR, QUARTERLY

RECORDS = {"window": QUARTERLY, "cumulative": MONTHS_POOR}

OF_BOTH: list[tuple[str, Any]] = [
    ("kind", "spell"),
    ("kind", None),
    ("release", "no name"),
    ("release", 3),
    ("alphabet", ["0"]),
    ("alphabet", "01"),
    ("n", 0),
    ("n", -1),
    ("n", MAX_ROWS + 1),
    ("n", 10.0),
    ("n", True),
    ("rho", 0.0),
    ("rho", -1.0),
    ("rho", 1000.5),
    ("rho", 1),
    ("adjacency", "add-one"),
    ("horizon", 0),
    ("horizon", 10_001),
    ("insecure", 0),
]

OF_KIND: dict[str, list[tuple[str, Any]]] = {
    "window": [
        ("k", 0),
        ("k", 3),  # more than its horizon
        ("measure", "paper"),
        ("n_pad", -1),
        ("n_pad", MAX_ROWS),
        ("sigma_first", 0.0),
        ("sigma_later", -1.0),
    ],
    "cumulative": [
        ("alphabet", ["a", "b"]),
        ("horizon", 2_001),
        ("event", []),
        ("event", [1]),
        ("counter", "none"),
        ("sigmas", [1.0]),
        ("sigmas", [1.0, 0.0]),
        ("sigmas", 2.0),
    ],
}

BAD = [(kind, field, value) for kind in RECORDS for field, value in OF_BOTH + OF_KIND[kind]]


def read_from_topic(record: ContractRecord, change: dict[str, Any]) -> None:
    fields: dict[str, Any] = msgpack.unpackb(record.encode())
    decode_synthetic(msgpack.packb(fields | change))


def read_from_file(record: ContractRecord, change: dict[str, Any]) -> None:
    values = json.loads(metadata_text(Panel(record.contract)))
    values["contract"] |= change
    metadata_from_text(json.dumps(values))


@pytest.mark.parametrize("kind", RECORDS)
def test_a_right_contract_is_read_the_same_from_both(kind: str) -> None:
    record = RECORDS[kind]
    read = decode_synthetic(record.encode())
    assert isinstance(read, ContractRecord)

    from_file = metadata_from_text(metadata_text(Panel(record.contract))).contract

    assert read.contract.to_dict() == from_file.to_dict() == record.contract.to_dict()


@pytest.mark.parametrize(("kind", "field", "value"), BAD)
def test_what_one_reader_refuses_the_other_refuses(kind: str, field: str, value: Any) -> None:
    with pytest.raises(Malformed, match=f"{field}: expected"):
        read_from_topic(RECORDS[kind], {field: value})
    with pytest.raises(InvalidInput, match=rf"contract\.{field}: got .*, allowed: ") as refused:
        read_from_file(RECORDS[kind], {field: value})
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(("kind", "field"), [("window", "rho"), ("window", "sigma_first"), ("cumulative", "rho")])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_malformed(kind: str, field: str, value: float) -> None:
    with pytest.raises(Malformed, match=f"{field}: expected a finite number"):
        read_from_topic(RECORDS[kind], {field: value})
