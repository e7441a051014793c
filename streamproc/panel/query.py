"""Questions an analyst may ask, as values: a predicate on the last symbols, or "at least `b` ones so far"."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

import numpy as np

from streamproc.errors import UnsupportedQuery
from streamproc.panel.argument_checks import (
    check_function,
    check_is,
    check_line,
    describe_value,
    integer,
    text_symbols,
    whole,
)
from streamproc.privacy.types import FloatArray
from streamproc.releases.contract import WindowContract
from streamproc.study.releases import MAX_HORIZON

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

    def __post_init__(self) -> None:
        check_line("LastSymbols: name", self.name)
        object.__setattr__(self, "width", whole("LastSymbols: width", self.width, 1, MAX_HORIZON))
        check_function("LastSymbols: predicate", self.predicate)
        object.__setattr__(self, "symbols", text_symbols("LastSymbols: symbols", self.symbols))

    def weights(self, contract: WindowContract, period: int) -> FloatArray:
        """A 1 for each bin of the release that answers yes at `period`; refused if no bin can tell."""
        check_is(f"{self.name}: contract", contract, WindowContract, "that of a window release")
        period = integer(f"{self.name}: period", period)
        k = contract.mechanism.k
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
            raise UnsupportedQuery(
                f"{self.name}: needs {self.width} periods, but period {describe_value(period)} comes before that"
            )
        yes = [self._holds(window) for window in itertools.product(contract.alphabet, repeat=self.width)]
        newer = contract.mechanism.q ** max(k - period, 0)  # symbols of the first k periods come all at once, at period k
        weights: FloatArray = np.array(yes, dtype=float)[np.arange(contract.mechanism.bins) // newer % len(yes)]
        return weights

    def _holds(self, window: Window) -> bool:
        try:
            holds: object = self.predicate(window)
        except Exception as error:
            raise UnsupportedQuery(f"{self.name}: its predicate failed with {type(error).__name__} on {window}") from error
        if not (isinstance(holds, Real | np.bool_) and holds in (0, 1)):
            raise UnsupportedQuery(f"{self.name}: its predicate says True or False of a window, got {describe_value(holds)}")
        return bool(holds)


@dataclass(frozen=True)
class AtLeast:
    """Which share of people has had at least `b` ones so far?"""

    b: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", whole("AtLeast: b", self.b, 1, MAX_HORIZON))

    @property
    def name(self) -> str:
        """As in `errors.csv`."""
        return f"atleast:{self.b}"


Query: TypeAlias = LastSymbols | AtLeast


def exactly(*symbols: str) -> LastSymbols:
    """The last symbols are these, oldest first: one bin, or several if fewer than `k` are given."""
    wanted = _wanted("exactly", symbols)
    label = ("" if all(len(symbol) == 1 for symbol in symbols) else "|").join(symbols)
    return LastSymbols(f"last:{label}", len(symbols), lambda window: window == symbols, wanted)


def count_of(symbols: Collection[str], *, at_least: int, of: int) -> LastSymbols:
    """At least so many of the last `of` symbols are among `symbols`: from 0, which everybody has, to all of them."""
    wanted = _wanted("count_of", symbols)
    of = whole("count_of: of", of, 1, MAX_HORIZON)
    at_least = whole("count_of: at_least", at_least, 0, of)
    name = f"{_listed(wanted)} in at least {at_least} of the last {of}"
    return LastSymbols(name, of, lambda window: sum(symbol in wanted for symbol in window) >= at_least, wanted)


def in_a_row(symbols: Collection[str], *, length: int, of: int) -> LastSymbols:
    """Somewhere in the last `of` symbols there are `length` in a row among `symbols`: from 1 to all of them."""
    wanted = _wanted("in_a_row", symbols)
    of = whole("in_a_row: of", of, 1, MAX_HORIZON)
    length = whole("in_a_row: length", length, 1, of)

    def holds(window: Window) -> bool:
        runs = (len(list(run)) for hit, run in itertools.groupby(window, wanted.__contains__) if hit)
        return max(runs, default=0) >= length

    return LastSymbols(f"{_listed(wanted)} in {length} in a row of the last {of}", of, holds, wanted)


def _wanted(asked: str, symbols: Collection[str]) -> frozenset[str]:
    wanted = text_symbols(asked, symbols)
    if not wanted:
        raise UnsupportedQuery(f"{asked}: expected at least one symbol, got none")
    return wanted


def _listed(symbols: frozenset[str]) -> str:
    return "/".join(sorted(symbols))
