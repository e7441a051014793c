"""What a release's noise costs, by the formulas of the design, in exact fractions and by brute force."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.chaos.automata import matrices, table_of, transitions


def cost(contract: dict[str, Any], period: int) -> Fraction:
    """The exact cost, in zCDP under the contract's adjacency, of all noise drawn by the end of `period`."""
    if contract["kind"] != "window":
        return flow_cost(contract, period)
    return window_flow_cost(contract, period) if contract["measure"] == "flow" else window_paper_cost(contract, period)


def window_paper_cost(contract: dict[str, Any], period: int) -> Fraction:
    """A histogram in each of the periods from `k` on, of which a replaced person changes two bins."""
    steps = max(period - int(contract["k"]) + 1, 0)
    sensitivity = 1 if contract["adjacency"] == "zero-out" else 2
    return steps * sensitivity / (2 * Fraction(contract["sigma"]) ** 2)


def window_flow_sigma(contract: dict[str, Any], newest: int, span: int, size: int) -> float:
    """The noise on each entry of a set of `size` periods, from the published weights, under zero-out."""
    assert contract["adjacency"] == "zero-out"
    k, horizon, q = contract["k"], contract["horizon"], len(contract["alphabet"])
    windows = range(max(newest, k), min(newest - span + k, horizon) + 1)
    weight = sum((Fraction(contract["weights"][window - k]) for window in windows), Fraction(0))
    # (q^c / sqrt(w))^(1/2): the fourth root of a fraction.
    return _root_up(_root_up_fraction(Fraction(1 if q == 2 else q ** (2 * size)) / weight))


def window_flow_cost(contract: dict[str, Any], period: int) -> Fraction:
    """Of each set of periods that fits in a window, a person who is taken out takes all entries of one product."""
    q, total = len(contract["alphabet"]), Fraction(0)
    for newest in range(1, period + 1):
        for span in range(1, min(newest, contract["k"]) + 1):
            for size in range(1, span + 1):
                sets = int(size == 1) if span == 1 else math.comb(span - 2, size - 2) if size >= 2 else 0
                scale = 1 if q == 2 else q**size
                sigma = Fraction(window_flow_sigma(contract, newest, span, size))
                total += sets * (q - 1) ** size * scale / (2 * sigma**2)
    return total


def flow_cost(contract: dict[str, Any], period: int) -> Fraction:
    """The worst pair of histories: over pairs of states, the largest squared distance of what they add to measurements."""
    table, published = table_of(contract, contract["horizon"]), matrices(contract)
    worst: dict[tuple[int, int], int] = {(0, 0): 0}
    quiet = 0
    for t in range(1, period + 1):
        columns = transitions(table, t)
        vectors = list(zip(*published[t - 1], strict=True)) or [()] * len(columns)
        longer: dict[tuple[int, int], int] = {}
        for (one, other), so_far in worst.items():
            for e, vector in zip(columns, vectors, strict=True):
                for f, second in zip(columns, vectors, strict=True):
                    silent = contract["adjacency"] != "zero-out" or (other == quiet and f.first_class == 0)
                    if (e.source, f.source) == (one, other) and silent:
                        found = so_far + _distance(vector, second)
                        longer[e.target, f.target] = max(found, longer.get((e.target, f.target), 0))
        worst, quiet = longer, table[quiet][0]
    return Fraction(max(worst.values())) / (2 * Fraction(contract["sigma"]) ** 2)


def _distance(one: Sequence[int], other: Sequence[int]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _root_up(value: Fraction) -> float:
    """The smallest float that is at least the square root."""
    root = math.sqrt(value)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    while Fraction(math.nextafter(root, 0)) ** 2 >= value:
        root = math.nextafter(root, 0)
    return root


def _root_up_fraction(value: Fraction) -> Fraction:
    """The square root, rounded up far behind the digits of a float."""
    bits = 400
    return Fraction(math.isqrt(math.ceil(value * 4**bits)) + 1, 2**bits)
