"""The bytes of the page `docs/wire-format.md`, written down once and never to change within a version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgpack
import pytest

from streamproc.protocol.columns import ContractRecord
from streamproc.protocol.state_file import pack_arrays, seal
from tests.protocol.examples import EXAMPLES

HERE = Path(__file__).parent
GOLDEN: dict[str, str] = json.loads((HERE / "golden.json").read_text())
PAGE = (HERE.parent.parent / "docs" / "wire-format.md").read_text()


def encoded_again(decoded: Any) -> bytes:
    if isinstance(decoded, tuple):
        from streamproc.protocol.reports import encode_report

        return encode_report(*decoded)
    if isinstance(decoded, ContractRecord):
        (contract,) = decoded.encode()
        return contract
    value = decoded.encode()
    assert isinstance(value, bytes)
    return value


def test_every_example_is_written_down() -> None:
    assert GOLDEN.keys() == EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_encoded_to_the_golden_bytes(name: str) -> None:
    assert EXAMPLES[name].encoded.hex() == GOLDEN[name]


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden_bytes_are_decoded_and_encoded_to_the_same(name: str) -> None:
    golden = bytes.fromhex(GOLDEN[name])

    assert encoded_again(EXAMPLES[name].decode(golden)) == golden


@pytest.mark.parametrize("name", EXAMPLES)
def test_keys_in_another_order_and_unknown_ones_change_nothing(name: str) -> None:
    golden = bytes.fromhex(GOLDEN[name])
    fields = msgpack.unpackb(golden)
    shuffled = msgpack.packb({"x-later": [1, {"a": None}], **dict(reversed(fields.items()))})

    assert encoded_again(EXAMPLES[name].decode(shuffled)) == golden


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_shows_the_golden_bytes(name: str) -> None:
    shown = "".join(PAGE.split())

    assert f"`{name}`" in PAGE
    assert GOLDEN[name] in shown


def test_the_page_shows_a_whole_state_file() -> None:
    file = seal(bytes(range(32)), pack_arrays({"period": 3}))

    assert file.hex() in "".join(PAGE.split())
