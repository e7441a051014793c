"""A contract from a topic and one from a file's metadata are held to the same bounds."""

from __future__ import annotations

import json
import math
from typing import Any

import msgpack
import numpy as np
import pytest

from streamproc.errors import InvalidInput, Malformed
from streamproc.panel import Panel
from streamproc.panel.metadata import metadata_from_text, metadata_text
from streamproc.protocol.columns import ContractRecord, decode_synthetic
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.flow import encode_integers
from streamproc.releases.kind import MAX_ROWS
from tests.releases.random_studies import KINDS, release_of
from tests.studies import build_study


def record_of(kind: str) -> ContractRecord:
    [contract] = stated_contracts(build_study(release_of(kind), horizon=4), 1000, insecure=False).values()
    return ContractRecord(contract, contract.expected_rows)


RECORDS = {kind: record_of(kind) for kind in KINDS}

OF_ALL: list[tuple[str, Any]] = [
    ("kind", "histogram"),
    ("kind", None),
    ("measure", "contrast"),
    ("measure", None),
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

OF_WINDOWS: list[tuple[str, Any]] = [
    ("k", 0),
    ("k", 5),  # more than its horizon
    ("k", 2.0),
    ("n_pad", -1),
    ("n_pad", MAX_ROWS),
]

OF_EVENTS: list[tuple[str, Any]] = [
    ("alphabet", ["a", "b"]),
    ("event", []),
    ("event", [1]),
    ("event", "1"),
]

OF_AUTOMATA: list[tuple[str, Any]] = [
    ("horizon", 1_001),
    ("sigma", 0.0),
    ("sigma", -1.0),
    ("sigma", 2),
    ("matrices", None),
    ("matrices", ""),
    ("matrices", [1, 2]),
    ("matrices", "AAAA"),
]

OF_KIND: dict[str, list[tuple[str, Any]]] = {
    "window-flow": [
        *OF_WINDOWS,
        ("weights", [1.0]),
        ("weights", [1.0, 0.0]),
        ("weights", [1.0, -1.0]),
        ("weights", [1.0, 1e-61]),
        ("weights", [1.0, 1e61]),
        ("weights", [1.0, 1]),
        ("weights", 2.0),
    ],
    "window-paper": [*OF_WINDOWS, ("sigma", 0.0), ("sigma", -1.0), ("sigma", "1")],
    "cumulative-flow": [*OF_EVENTS, *OF_AUTOMATA, ("most", 0), ("most", 5), ("most", 65), ("most", 2.0)],
    "cumulative-paper": [
        *OF_EVENTS,
        ("horizon", 2_001),
        ("sigmas", [1.0]),
        ("sigmas", [1.0, 1.0, 1.0, 0.0]),
        ("sigmas", 2.0),
    ],
    "spell": [*OF_EVENTS, *OF_AUTOMATA, ("length", 0), ("length", 5), ("length", 65), ("length", "2")],
    "pattern": [*OF_AUTOMATA, ("pattern", 1), ("pattern", ""), ("pattern", "1("), ("pattern", "1*"), ("pattern", "2")],
}

BAD = [(kind, field, value) for kind in RECORDS for field, value in OF_ALL + OF_KIND[kind]]


def read_from_topic(record: ContractRecord, change: dict[str, Any]) -> None:
    [encoded] = record.encode()
    fields: dict[str, Any] = msgpack.unpackb(encoded)
    decode_synthetic(msgpack.packb(fields | change))


def read_from_file(record: ContractRecord, change: dict[str, Any]) -> None:
    values = json.loads(metadata_text(Panel(record.contract)))
    values["contract"] |= change
    metadata_from_text(json.dumps(values))


@pytest.mark.parametrize("kind", RECORDS)
def test_a_right_contract_is_read_the_same_from_both(kind: str) -> None:
    record = RECORDS[kind]
    [encoded] = record.encode()
    read = decode_synthetic(encoded)
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


FLOATS = [
    ("window-flow", "rho"),
    ("window-paper", "sigma"),
    ("cumulative-flow", "sigma"),
    ("cumulative-paper", "rho"),
    ("spell", "sigma"),
    ("pattern", "sigma"),
]


@pytest.mark.parametrize(("kind", "field"), FLOATS)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_malformed(kind: str, field: str, value: float) -> None:
    with pytest.raises(Malformed, match=f"{field}: expected a finite number"):
        read_from_topic(RECORDS[kind], {field: value})


@pytest.mark.parametrize("kind", ["cumulative-flow", "spell", "pattern"])
def test_matrices_that_do_not_determine_the_counts_are_refused(kind: str) -> None:
    contract = RECORDS[kind].contract
    zeros = encode_integers([np.zeros_like(matrix) for matrix in contract.mechanism.matrices])
    with pytest.raises(Malformed, match="contract: expected values that are consistent with each other"):
        read_from_topic(RECORDS[kind], {"matrices": zeros})
    with pytest.raises(InvalidInput, match="values that do not fit together"):
        read_from_file(RECORDS[kind], {"matrices": zeros})


def test_a_contract_of_version_0_1_is_refused_with_what_to_do() -> None:
    """Its window had the measure `contrast` and its cumulative release had a counter instead of a measure."""
    finished = "a study that was begun with version 0.1 is finished with version 0.1"
    for kind, measure in (("window-flow", "contrast"), ("window-paper", "histogram"), ("cumulative-flow", None)):
        with pytest.raises(InvalidInput, match=rf"contract\.measure: got .*, allowed: flow or paper; {finished}"):
            read_from_file(RECORDS[kind], {"measure": measure})
