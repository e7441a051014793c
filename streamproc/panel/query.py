"""Questions an analyst may ask, as values: a predicate on the last symbols, or "at least `b` ones so far"."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from streamproc.errors import UnsupportedQuery
from streamproc.privacy.quantities import FloatArray
from streamproc.synth.contract import WindowContract

Window: TypeAlias = tuple[str, ...]
"""Consecutive symbols, oldest first."""


@dataclass(frozen=True)
class LastSymbols:
    """Which share of people has last `width` symbols that satisfy `predicate`?"""

    name: str
    width: int
    predicate: Callable[[Window], bool]
    symbols: frozenset[str] = frozenset()
    """Symbols it speaks of: a release that has no such symbol refuses rather than answer "nobody" to a slip of the pen."""

    def weights(self, contract: WindowContract, period: int) -> FloatArray:
        """A 1 for each bin of the release that answers yes at `period`; refused if no bin can tell."""
        k = contract.mechanism.k
        if self.width < 1:
            raise UnsupportedQuery(f"{self.name}: a window has at least one symbol, got width {self.width}")
        if self.width > k:
            raise UnsupportedQuery(
                f"{self.name}: looks back over {self.width} periods, but release {contract.name} was measured over "
                f"windows of k = {k}; longer windows of its synthetic people mean nothing about real ones"
            )
        foreign = sorted(self.symbols.difference(contract.alphabet))
        if foreign:
            known = ", ".join(contract.alphabet)
            raise UnsupportedQuery(f"{self.name}: {foreign[0]!r} is no symbol of release {contract.name}, whose are {known}")
        if period < self.width:
            raise UnsupportedQuery(f"{self.name}: needs {self.width} periods, but period {period} comes before that")
        yes = [self.predicate(window) for window in itertools.product(contract.alphabet, repeat=self.width)]
        newer = contract.mechanism.q ** max(k - period, 0)  # symbols of the first k periods come all at once, at period k
        weights: FloatArray = np.array(yes, dtype=float)[np.arange(contract.mechanism.bins) // newer % len(yes)]
        return weights


@dataclass(frozen=True)
class AtLeast:
    """Which share of people has had at least `b` ones so far?"""

    b: int

    @property
    def name(self) -> str:
        """As in `errors.csv`."""
        return f"atleast:{self.b}"


Query: TypeAlias = LastSymbols | AtLeast


def exactly(*symbols: str) -> LastSymbols:
    """The last symbols are these, oldest first: one bin, or several if fewer than `k` are given."""
    label = ("" if all(len(symbol) == 1 for symbol in symbols) else "|").join(symbols)
    return LastSymbols(f"last:{label}", len(symbols), lambda window: window == symbols, frozenset(symbols))


def count_of(symbols: Collection[str], *, at_least: int, of: int) -> LastSymbols:
    """At least so many of the last `of` symbols are among `symbols`."""
    wanted = frozenset(symbols)
    name = f"{_listed(wanted)} in at least {at_least} of the last {of}"
    return LastSymbols(name, of, lambda window: sum(symbol in wanted for symbol in window) >= at_least, wanted)


def in_a_row(symbols: Collection[str], *, length: int, of: int) -> LastSymbols:
    """Somewhere in the last `of` symbols there are `length` in a row among `symbols`."""
    wanted = frozenset(symbols)

    def holds(window: Window) -> bool:
        runs = (len(list(run)) for hit, run in itertools.groupby(window, wanted.__contains__) if hit)
        return max(runs, default=0) >= length

    return LastSymbols(f"{_listed(wanted)} in {length} in a row of the last {of}", of, holds, wanted)


def _listed(symbols: Collection[str]) -> str:
    if not all(isinstance(symbol, str) for symbol in symbols):
        raise UnsupportedQuery("symbols are text, as in the study's alphabet: a question named something else")
    return "/".join(sorted(symbols))
