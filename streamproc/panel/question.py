"""Questions as the page's addresses write them, and what they mean in words.

`bin:LABEL`, `symbol:S` (the newest symbol), `ever:S` and `always:S` (in the last `k` periods) of a window release;
`atleast:B` of a cumulative one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from streamproc.errors import UnsupportedQuery
from streamproc.panel.accuracy import window_stderr
from streamproc.panel.query import AtLeast, LastSymbols, count_of, exactly
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.contract import Contract, CumulativeContract, WindowContract
from streamproc.study import bin_labels

MAX_EXAMPLES = 24
"""Questions that the page offers by itself; any other may be asked."""


@dataclass(frozen=True, eq=False)
class WindowQuestion:
    """A predicate on the last symbols, with its standard errors as far as they were needed."""

    contract: WindowContract
    name: str
    label: str
    query: LastSymbols

    @property
    def first(self) -> int:
        """The first period at which it can be asked."""
        return self.query.width

    def codes(self, period: int) -> IntArray:
        """The bins that say yes; the same from period `k` on."""
        return _codes(self, min(period, self.contract.mechanism.k))

    def stderr(self, period: int) -> float:
        """In people. What rounding adds settles after `k` more periods, so there are at most `2 k` different ones."""
        settled = min(period, 2 * self.contract.mechanism.k)
        return _bin_stderr(self.contract, settled) if self.name.startswith("bin:") else _stderr(self, settled)


@dataclass(frozen=True, eq=False)
class CountQuestion:
    """At least `b` ones so far."""

    contract: CumulativeContract
    name: str
    label: str
    query: AtLeast

    @property
    def first(self) -> int:
        """Before period `b` nobody can have so many."""
        return self.query.b


Question = WindowQuestion | CountQuestion


@lru_cache(maxsize=256)
def question(contract: Contract, name: str) -> Question:
    """The question of this name; UnsupportedQuery says what the release knows instead."""
    kind, _, rest = name.partition(":")
    if isinstance(contract, CumulativeContract):
        is_number = rest.isascii() and rest.isdigit() and len(rest) < 10
        if kind == "atleast" and is_number and 1 <= int(rest) <= contract.mechanism.horizon:
            return CountQuestion(contract, name, _at_least(contract, int(rest)), AtLeast(int(rest)))
        raise UnsupportedQuery(f"query: release {contract.name} answers atleast:1 to atleast:{contract.mechanism.horizon}")
    k = contract.mechanism.k
    if kind == "bin":
        symbols = rest.split("|") if any(len(symbol) > 1 for symbol in contract.alphabet) else list(rest)
        if len(symbols) == k and set(symbols) <= set(contract.alphabet):
            return WindowQuestion(contract, name, _window_in_words(symbols), exactly(*symbols))
    elif rest in contract.alphabet:
        if kind == "symbol":
            return WindowQuestion(contract, name, f"{quoted(rest)} in the newest period", exactly(rest))
        if kind == "ever":
            label = f"{quoted(rest)} at least once in the last {k} periods"
            return WindowQuestion(contract, name, label, count_of({rest}, at_least=1, of=k))
        if kind == "always":
            label = f"{quoted(rest)} in each of the last {k} periods"
            return WindowQuestion(contract, name, label, count_of({rest}, at_least=k, of=k))
    raise UnsupportedQuery(f"query: release {contract.name} answers bin:, symbol:, ever: and always: of its symbols")


def examples(contract: Contract) -> list[Question]:
    """What a reader is likely to ask, the most telling first."""
    return [question(contract, name) for _, name in zip(range(MAX_EXAMPLES), _example_names(contract), strict=False)]


def _example_names(contract: Contract) -> Iterator[str]:
    if isinstance(contract, CumulativeContract):
        yield from (f"atleast:{b}" for b in range(1, contract.mechanism.horizon + 1))
        return
    newest_first = contract.alphabet[::-1]
    yield from (f"symbol:{symbol}" for symbol in newest_first)
    if contract.mechanism.k > 1:
        for symbol in newest_first:
            yield f"ever:{symbol}"
            yield f"always:{symbol}"


def labels(contract: WindowContract) -> list[str]:
    """Of all bins, by code."""
    return _labels(contract.alphabet, contract.mechanism.k)


@lru_cache(maxsize=8)
def _labels(alphabet: tuple[str, ...], k: int) -> list[str]:
    return bin_labels(alphabet, k)


@lru_cache(maxsize=64)
def _codes(asked: WindowQuestion, period: int) -> IntArray:
    if asked.name.startswith("bin:"):
        # One bin of 65,536 is found without a look at what the others say.
        return np.array([labels(asked.contract).index(asked.name.removeprefix("bin:"))])
    return np.flatnonzero(asked.query.weights(asked.contract, period))


@lru_cache(maxsize=1024)
def _stderr(asked: WindowQuestion, period: int) -> float:
    return window_stderr(asked.contract.mechanism, _weights(asked.contract, asked.codes(period)), Period(period))


@lru_cache(maxsize=1024)
def _bin_stderr(contract: WindowContract, period: int) -> float:
    """The same for every bin, by symmetry."""
    return window_stderr(contract.mechanism, _weights(contract, np.array([0])), Period(period))


def _weights(contract: WindowContract, codes: IntArray) -> FloatArray:
    weights = np.zeros(contract.mechanism.bins)
    weights[codes] = 1.0
    return weights


def quoted(symbol: str) -> str:
    """So that it is not taken for a number or a word of the sentence."""
    return f"“{symbol}”"


def _window_in_words(symbols: list[str]) -> str:
    return ", then ".join(map(quoted, symbols)) if len(symbols) > 1 else f"{quoted(symbols[0])} in the newest period"


def _at_least(contract: CumulativeContract, b: int) -> str:
    event = " or ".join(map(quoted, contract.event))
    return f"{event} in at least {b} {'period' if b == 1 else 'periods'} so far"
