"""How a window of symbols is written: the labels of bins in files, metrics and questions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product


def bin_label(symbols: Sequence[str], alphabet: Sequence[str]) -> str:
    """The label of one window, oldest symbol first: joined by `|` if any symbol of the alphabet is longer than one."""
    return _joint(alphabet).join(symbols)


def bin_labels(alphabet: Sequence[str], k: int) -> list[str]:
    """The labels of all `q^k` bins, by code: the base-`q` number whose most significant digit is the oldest symbol."""
    return [_joint(alphabet).join(symbols) for symbols in product(alphabet, repeat=k)]


def _joint(alphabet: Sequence[str]) -> str:
    return "" if all(len(symbol) == 1 for symbol in alphabet) else "|"
