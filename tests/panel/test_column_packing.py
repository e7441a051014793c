"""A packed column is what NumPy's packbits makes of its symbols' bits."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamproc.panel.column_packing import bits_for, column_digest, pack_symbols


@pytest.mark.parametrize(("symbols", "bits"), [(2, 1), (3, 2), (4, 2), (5, 4), (16, 4), (17, 8), (64, 8)])
def test_a_row_takes_as_few_bits_as_divide_a_byte(symbols: int, bits: int) -> None:
    assert bits_for(symbols) == bits


@given(
    st.integers(2, 64).flatmap(
        lambda q: st.tuples(st.just(q), arrays(np.uint8, st.integers(0, 40), elements=st.integers(0, q - 1)))
    )
)
def test_a_column_is_packed_high_bits_first(case: tuple[int, npt.NDArray[np.uint8]]) -> None:
    symbols, column = case
    in_bits = np.unpackbits(column[:, None], axis=1)[:, 8 - bits_for(symbols) :]

    assert pack_symbols(column, bits_for(symbols)) == np.packbits(in_bits).tobytes()


def test_a_column_of_four_symbols_takes_two_bits_each() -> None:
    assert pack_symbols(np.array([0, 1, 2, 3, 3], dtype=np.uint8), 2) == bytes([0b00011011, 0b11000000])


def test_a_digest_is_that_of_the_packed_bytes() -> None:
    column = np.array([1, 0, 1, 1, 0, 0, 0, 1, 1], dtype=np.uint8)

    assert column_digest(column, 1) == hashlib.sha256(bytes([0b10110001, 0b10000000])).digest()
