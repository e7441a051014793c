"""The language of pattern releases, and its compilation to the smallest automaton that says whether a history has matched.

A pattern is a regular expression over the symbols of an alphabet, and is searched anywhere in a history:

* `1` is the symbol "1"; a symbol that has several characters or is one of the signs ``| ( ) [ ] { } . * + ? ^ $ \\ < >``
  stands in `<>`: `<out of work>`; white space is never skipped;
* `.` is any symbol, `[ab<out of work>]` is one of these symbols, `[^ab]` is any other symbol;
* `( )` groups, `|` separates alternatives;
* `*`, `+`, `?`, `{m}`, `{m,}` and `{m,n}` repeat the symbol, class or group before them.

There are no anchors, look-around, escapes, back-references, and lazy or possessive quantifiers. A pattern is untrusted text:
its length, nesting, positions and states are bounded, so that compilation takes at most about a second.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.validation import format_value

MAX_STATES = 512
"""Maximum number of states of the automaton before it is minimised, with the state "has matched"."""

MAX_POSITIONS = 4_096
"""Maximum number of symbols, classes and `.` in a pattern after every repetition is written out."""

MAX_LENGTH = 2_000
"""Maximum number of characters of a pattern."""

MAX_DEPTH = 100
"""Maximum number of groups inside each other."""

SIGNS = frozenset("|()[]{}.*+?^$\\<>")
"""Characters with a meaning of their own; as symbols they stand in `<>`."""

_QUANTIFIERS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_QUANTIFIER_SIGNS = (*_QUANTIFIERS, "{")
_BOUNDS = re.compile(r"\{([0-9]+)(,?)([0-9]*)\}")
_IN_BRACKETS = "a symbol that has several characters or is a sign stands in '<>', like '<out of work>' or '<*>'"
_MISPLACED = {
    "^": ("anchor '^'", f"no anchors: the pattern is searched anywhere, and {_IN_BRACKETS}"),
    "$": ("anchor '$'", f"no anchors: the pattern is searched anywhere, and {_IN_BRACKETS}"),
    "]": ("']' without '['", _IN_BRACKETS),
    "}": ("'}' without '{'", _IN_BRACKETS),
    ">": ("'>' without '<'", _IN_BRACKETS),
    "\\": ("escape '\\'", f"no escapes: {_IN_BRACKETS}"),
}

Bits: TypeAlias = npt.NDArray[np.uint8]
"""Sets of positions, eight to a byte, the lowest first."""

_Positions: TypeAlias = list[tuple[Sequence[int], int]]
"""For each position, the indices of its symbols and the set of positions that can come next."""


class PatternError(ValueError):
    """A pattern cannot be used: `problem` says why, `remedy` what to do, and `character` (from 1) where, if at one place."""

    def __init__(self, problem: str, remedy: str, character: int | None = None) -> None:
        self.problem = problem
        self.remedy = remedy
        self.character = character
        super().__init__(problem, remedy, character)

    def __str__(self) -> str:
        place = "" if self.character is None else f" at character {self.character}"
        return f"{self.problem}{place}; {self.remedy}"


def compile_pattern(pattern: str, alphabet: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """The transition table of the minimal complete automaton that searches a history for `pattern`.

    Row `s` and column `a` hold the state after the symbol `alphabet[a]` in state `s`. State 0 is the start; the last state
    means "has matched" and is never left; every other state means "has not matched yet". These are numbered in the order in
    which a breadth-first search from the start meets them, with symbols in the order of the alphabet, so that two patterns
    have equal tables if and only if they match the same histories. Raises PatternError if the pattern is not valid, too
    large, matches the empty history, or can never match.
    """
    part = _Parser(pattern, alphabet).parse()
    if part.nullable:
        raise PatternError("matches the empty history", "everybody would match before period 1: require at least one symbol")
    table = _subset_table(_position_automaton(part, len(alphabet)))
    if not (table[:-1] == len(table) - 1).any():
        raise PatternError("can never match", "a class like [^01] is empty if the alphabet is 0 and 1")
    return _minimised(table)


class _Part(ABC):
    """A part of a pattern. Its positions (occurrences of symbols or classes) are numbered from 0; sets of them are bits."""

    size: int
    """Number of positions, at least 1."""
    nullable: bool
    """Whether the part matches no symbols at all."""
    first: int
    """The positions at which a match can begin."""

    @abstractmethod
    def link(self, start: int, after: int, positions: _Positions) -> int:
        """Enter the part into `positions` from number `start` on, and return what can come next at its beginning.

        `after` is the set of positions that can come next at its end.
        """


class _OneOf(_Part):
    """One of some symbols, given by their indices in the alphabet."""

    def __init__(self, symbols: Sequence[int]) -> None:
        self.symbols = symbols
        self.size, self.nullable, self.first = 1, False, 1

    def link(self, start: int, after: int, positions: _Positions) -> int:
        positions[start] = self.symbols, after
        return 1 << start


class _InOrder(_Part):
    """Parts one after the other."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self.parts = parts
        self.size, self.nullable, self.first = 0, True, 0
        for part in parts:
            if self.nullable:
                self.first |= part.first << self.size
            self.nullable = self.nullable and part.nullable
            self.size += part.size

    def link(self, start: int, after: int, positions: _Positions) -> int:
        start += self.size
        for part in reversed(self.parts):
            start -= part.size
            after = part.link(start, after, positions)
        return after


class _Either(_Part):
    """Any of some parts."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self.parts = parts
        self.size, self.nullable, self.first = 0, any(part.nullable for part in parts), 0
        for part in parts:
            self.first |= part.first << self.size
            self.size += part.size

    def link(self, start: int, after: int, positions: _Positions) -> int:
        entry = 0
        for part in self.parts:
            entry |= part.link(start, after, positions)
            start += part.size
        return entry


class _Repeated(_Part):
    """`low` to `high` copies of a part; without `high`, the last copy is a loop. No copies occupy the positions of one."""

    def __init__(self, part: _Part, low: int, high: int | None) -> None:
        self.part, self.low, self.loops = part, low, high is None
        self.copies = _copies(low, high)
        self.size = part.size * max(self.copies, 1)
        self.nullable = low == 0 or part.nullable
        self.first = 0
        for copy in range(self.copies if part.nullable else min(self.copies, 1)):
            self.first |= part.first << copy * part.size

    def link(self, start: int, after: int, positions: _Positions) -> int:
        entry = after
        for copy in reversed(range(self.copies)):
            begin = start + copy * self.part.size
            again = self.part.first << begin if self.loops and copy == self.copies - 1 else 0
            entry = self.part.link(begin, entry | again, positions)
            if copy >= self.low:
                entry |= after
        return entry


def _copies(low: int, high: int | None) -> int:
    """How often a part that is repeated `low` to `high` times, or without a limit, is written out."""
    return max(low, 1) if high is None else high


class _Parser:
    """Reads a pattern from left to right; `at` is the index of the next character."""

    def __init__(self, text: str, alphabet: tuple[str, ...]) -> None:
        self.text = text
        self.at = 0
        self.open_groups: list[int] = []
        self.alphabet = alphabet
        self.index = {symbol: index for index, symbol in enumerate(alphabet)}
        # A symbol may contain '>', so the longest symbol that fits is meant.
        self.bracketed = sorted((f"<{symbol}>" for symbol in alphabet), key=len, reverse=True)

    def parse(self) -> _Part:
        if not self.text:
            raise PatternError("empty pattern", "a pattern holds at least one symbol")
        if len(self.text) > MAX_LENGTH:
            raise PatternError(f"pattern of {len(self.text)} characters", f"a pattern has at most {MAX_LENGTH} characters")
        return self._alternatives()

    def _alternatives(self) -> _Part:
        parts = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            parts.append(self._sequence())
        self._check_size(sum(part.size for part in parts), self.at)
        return parts[0] if len(parts) == 1 else _Either(parts)

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._quantified(self._atom()))
        if self._peek() == ")" and not self.open_groups:
            raise self._refusal("')' without '('", "every ')' closes a group")
        if self._peek() == "" and self.open_groups:
            raise self._refusal("'(' without ')'", "every '(' needs its ')'", self.open_groups[-1])
        if not parts:
            raise self._refusal("empty group or alternative", "it needs a symbol, and '?' marks what may be absent")
        self._check_size(sum(part.size for part in parts), self.at)
        return parts[0] if len(parts) == 1 else _InOrder(parts)

    def _atom(self) -> _Part:
        sign = self._peek()
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._class()
        if sign == ".":
            self.at += 1
            return _OneOf(range(len(self.alphabet)))
        if sign in _QUANTIFIER_SIGNS:
            remedy = f"a quantifier follows a symbol, a class or a group, and {_IN_BRACKETS}"
            raise self._refusal(f"nothing to repeat before '{sign}'", remedy)
        if sign in _MISPLACED:
            raise self._refusal(*_MISPLACED[sign])
        return _OneOf([self._symbol()])

    def _group(self) -> _Part:
        if self.text.startswith("(?", self.at):
            raise self._refusal("'(?'", "groups are plain '( )': no look-around, names or flags")
        if len(self.open_groups) == MAX_DEPTH:
            raise self._refusal(f"more than {MAX_DEPTH} groups inside each other", "write the pattern with fewer groups")
        self.open_groups.append(self.at)
        self.at += 1
        part = self._alternatives()
        self.open_groups.pop()
        self.at += 1
        return part

    def _class(self) -> _Part:
        start = self.at
        self.at += 1
        negated = self._peek() == "^"
        self.at += negated
        named: set[int] = set()
        while self._peek() != "]":
            if self._peek() == "":
                raise self._refusal("'[' without ']'", "every '[' needs its ']'", start)
            if self._peek() in SIGNS - {"<"}:
                raise self._refusal(f"sign {format_value(self._peek())} in a class", _IN_BRACKETS)
            named.add(self._symbol())
        if not named:
            raise self._refusal("empty class", "a class names at least one symbol", start)
        self.at += 1
        return _OneOf([index for index in range(len(self.alphabet)) if (index in named) != negated])

    def _symbol(self) -> int:
        if self._peek() == "<":
            return self._bracketed_symbol()
        symbol = self._peek()
        if symbol not in self.index:
            raise self._unknown_symbol(symbol)
        self.at += 1
        return self.index[symbol]

    def _bracketed_symbol(self) -> int:
        for bracketed in self.bracketed:
            if self.text.startswith(bracketed, self.at):
                self.at += len(bracketed)
                return self.index[bracketed[1:-1]]
        end = self.text.find(">", self.at + 1)
        if end < 0:
            raise self._refusal("'<' without '>'", _IN_BRACKETS)
        # In `<>>`, the symbol is the first '>'.
        end += self.text.startswith("<>>", self.at)
        raise self._unknown_symbol(self.text[self.at + 1 : end])

    def _quantified(self, part: _Part) -> _Part:
        start = self.at
        if self._peek() not in _QUANTIFIER_SIGNS:
            return part
        low, high = self._bounds()
        if self._peek() in _QUANTIFIER_SIGNS:
            remedy = "this is ambiguous: no lazy or possessive quantifiers, and a repetition of a repetition needs '( )'"
            raise self._refusal(f"'{self._peek()}' after a quantifier", remedy)
        self._check_size(part.size * _copies(low, high), start)
        return _Repeated(part, low, high)

    def _bounds(self) -> tuple[int, int | None]:
        if self._peek() in _QUANTIFIERS:
            self.at += 1
            return _QUANTIFIERS[self.text[self.at - 1]]
        found = _BOUNDS.match(self.text, self.at)
        if found is not None:
            low = int(found[1])
            high = int(found[3]) if found[3] else None if found[2] else low
            if high is None or low <= high:
                self.at = found.end()
                return low, high
        shown = self.text[self.at : self.text.find("}", self.at) + 1] or self.text[self.at :]
        raise self._refusal(f"bad bounds {format_value(shown)}", "{m}, {m,} and {m,n} with m at most n")

    def _check_size(self, size: int, at: int) -> None:
        if size > MAX_POSITIONS:
            problem = f"more than {MAX_POSITIONS} symbols when repetitions are written out"
            raise self._refusal(problem, "write a shorter pattern or smaller bounds", at)

    def _peek(self) -> str:
        """The next character, or nothing at the end."""
        return self.text[self.at : self.at + 1]

    def _unknown_symbol(self, symbol: str) -> PatternError:
        remedy = f"the alphabet is {format_value(self.alphabet)}, and {_IN_BRACKETS}"
        if symbol == "-":
            remedy += "; there are no ranges"
        if symbol.isspace():
            remedy += "; white space is not skipped"
        return self._refusal(f"unknown symbol {format_value(symbol)}", remedy)

    def _refusal(self, problem: str, remedy: str, at: int | None = None) -> PatternError:
        return PatternError(problem, remedy, (self.at if at is None else at) + 1)


class _PositionAutomaton(NamedTuple):
    """Glushkov's automaton, whose states are the positions of a pattern. Every field holds sets of positions."""

    first: Bits
    """Where a match can begin."""
    last: Bits
    """Where a match can end."""
    next: Bits
    """One row for each position: what can come next."""
    having: Bits
    """One row for each symbol: which positions have it."""


def _position_automaton(part: _Part, symbols: int) -> _PositionAutomaton:
    positions: _Positions = [((), 0)] * part.size
    end = 1 << part.size
    first = part.link(0, end, positions)
    last = sum(1 << position for position, (_, following) in enumerate(positions) if following & end)
    width = part.size // 8 + 1
    rows = b"".join(bits.to_bytes(width, "little") for bits in (first, last, *(following for _, following in positions)))
    packed = np.frombuffer(rows, dtype=np.uint8).reshape(-1, width)
    having = np.zeros((symbols, part.size + 1), dtype=np.bool_)
    for position, (indices, _) in enumerate(positions):
        having[list(indices), position] = True
    return _PositionAutomaton(packed[0], packed[1], packed[2:], np.packbits(having, axis=1, bitorder="little"))


def _subset_table(automaton: _PositionAutomaton) -> npt.NDArray[np.int64]:
    """The table of the deterministic automaton whose states are sets of positions, in breadth-first order.

    A match may begin at every symbol, so the first positions are always among the next ones. All sets that contain a last
    position are one state, the last: what follows a match does not matter.
    """
    matched = -1
    start: Bits = np.zeros_like(automaton.first)
    subsets, numbers = [start], {start.tobytes(): 0}
    rows: list[list[int]] = []
    while len(rows) < len(subsets):
        positions = np.flatnonzero(np.unpackbits(subsets[len(rows)], bitorder="little"))
        following = np.bitwise_or.reduce(automaton.next[positions], axis=0) | automaton.first
        reached = automaton.having & following
        row = np.where((reached & automaton.last).any(axis=1), matched, 0).tolist()
        for symbol in range(len(row)):
            if row[symbol] != matched:
                row[symbol] = numbers.setdefault(reached[symbol].tobytes(), len(subsets))
                if row[symbol] == len(subsets):
                    subsets.append(reached[symbol])
        rows.append(row)
        if len(subsets) + 1 > MAX_STATES:
            raise PatternError(f"more than {MAX_STATES} states while it is compiled", "write a shorter pattern")
    table = np.array([*rows, [matched] * len(automaton.having)], dtype=np.int64)
    table[table == matched] = len(rows)
    return table


def _minimised(table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The table with equivalent states merged (Moore's algorithm); its last state alone has matched, before and after.

    Classes are numbered by their first states. The states are in breadth-first order, which is the order of their shortest,
    then alphabetically first histories, so the classes are in breadth-first order too.
    """
    classes = np.zeros(len(table), dtype=np.int64)
    classes[-1] = 1
    count = 2
    while True:
        signatures = [row.tobytes() for row in np.column_stack((classes, classes[table]))]
        numbers = {signature: number for number, signature in enumerate(dict.fromkeys(signatures))}
        classes = np.array([numbers[signature] for signature in signatures], dtype=np.int64)
        if len(numbers) == count:
            _, first_states = np.unique(classes, return_index=True)
            return classes[table[first_states]]
        count = len(numbers)
