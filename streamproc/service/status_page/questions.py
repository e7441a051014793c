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
from streamproc.privacy.quantities import FloatArray, Period
from streamproc.study import bin_labels
from streamproc.synth.contract import Contract, CumulativeContract, WindowContract

MOST_EXAMPLES = 24
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

    def weights(self, period: int) -> FloatArray:
        """A 1 for each bin that says yes; the same from period `k` on."""
        return _weights(self, min(period, self.contract.mechanism.k))

    def stderr(self, period: int) -> float:
        """In people. What rounding adds settles after `k` more periods, so there are at most `2 k` different ones."""
        return _stderr(self, min(period, 2 * self.contract.mechanism.k))


@dataclass(frozen=True, eq=False)
class CountQuestion:
    """At least `b` ones so far."""

    contract: CumulativeContract
    name: str
    label: str
    query: AtLeast

    @property
    def first(self) -> int:
        """At period 1 everybody who could have `b` ones is known: nobody, if `b > 1`."""
        return 1


Question = WindowQuestion | CountQuestion


@lru_cache(maxsize=256)
def question(contract: Contract, name: str) -> Question:
    """The question of this name; UnsupportedQuery says what the release knows instead."""
    kind, _, rest = name.partition(":")
    if isinstance(contract, CumulativeContract):
        if kind == "atleast" and rest.isascii() and rest.isdigit() and 1 <= int(rest[:9]) <= contract.mechanism.horizon:
            return CountQuestion(contract, name, _at_least(contract, int(rest)), AtLeast(int(rest)))
        raise UnsupportedQuery(f"query: release {contract.name} answers atleast:1 to atleast:{contract.mechanism.horizon}")
    k = contract.mechanism.k
    if kind == "bin":
        symbols = rest.split("|") if any(len(symbol) > 1 for symbol in contract.alphabet) else list(rest)
        if len(symbols) == k and set(symbols) <= set(contract.alphabet):
            return WindowQuestion(contract, name, _window_in_words(symbols), exactly(*symbols))
    elif rest in contract.alphabet:
        if kind == "symbol":
            return WindowQuestion(contract, name, f"{rest} in the newest period", exactly(rest))
        if kind == "ever":
            label = f"{rest} at least once in the last {k} periods"
            return WindowQuestion(contract, name, label, count_of({rest}, at_least=1, of=k))
        if kind == "always":
            label = f"{rest} in each of the last {k} periods"
            return WindowQuestion(contract, name, label, count_of({rest}, at_least=k, of=k))
    raise UnsupportedQuery(f"query: release {contract.name} answers bin:, symbol:, ever: and always: of its symbols")


def examples(contract: Contract) -> list[Question]:
    """What a reader is likely to ask, the most telling first."""
    return [question(contract, name) for _, name in zip(range(MOST_EXAMPLES), _example_names(contract), strict=False)]


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


@lru_cache(maxsize=256)
def _weights(asked: WindowQuestion, period: int) -> FloatArray:
    if asked.name.startswith("bin:"):
        # One bin of 65,536 is found by its code, without a look at the others.
        weights = np.zeros(asked.contract.mechanism.bins)
        weights[labels(asked.contract).index(asked.name.removeprefix("bin:"))] = 1.0
        return weights
    return asked.query.weights(asked.contract, period)


@lru_cache(maxsize=1024)
def _stderr(asked: WindowQuestion, period: int) -> float:
    return window_stderr(asked.contract.mechanism, asked.weights(period), Period(period))


def _window_in_words(symbols: list[str]) -> str:
    return " then ".join(symbols) if len(symbols) > 1 else f"{symbols[0]} in the newest period"


def _at_least(contract: CumulativeContract, b: int) -> str:
    event = " or ".join(contract.event)
    return f"{event} in at least {b} {'period' if b == 1 else 'periods'} so far"
