"""Studies and histories to test with: built by hand, or random ones from Hypothesis; and what is true about them.

What is true is found by plain Python over the histories, with none of the code under test.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from streamproc.offline.people import People
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.kind import Contract
from streamproc.releases.window import WindowContract
from streamproc.study import (
    CumulativeRelease,
    Missing,
    PatternRelease,
    Population,
    Release,
    SpellRelease,
    Study,
    WindowRelease,
)
from streamproc.study.releases import Measure
from tests.studies import CLOSED_ADJACENCIES, build_study

Filled = npt.NDArray[np.uint8]

MEASURES: list[Measure] = ["flow", "paper"]


KINDS = ["window-flow", "window-paper", "cumulative-flow", "cumulative-paper", "spell", "pattern"]
"""Every kind and measure, as `release_of` names them."""


def release_of(kind: str, name: str = "r", event: str = "1") -> Release:
    """A small release of one of `KINDS`, for studies of at least 3 periods whose alphabet has the symbol `event`."""
    made: dict[str, Release] = {
        "window-flow": WindowRelease(name, 3),
        "window-paper": WindowRelease(name, 3, measure="paper"),
        "cumulative-flow": CumulativeRelease(name, (event,), weights="rule"),
        "cumulative-paper": CumulativeRelease(name, (event,), measure="paper"),
        "spell": SpellRelease(name, (event,), length=3, weights="rule"),
        "pattern": PatternRelease(name, pattern=f"<{event}>{{2}}", weights="rule"),
    }
    return made[kind]


def window_contract(study: Study, n: int) -> WindowContract:
    """The contract of the only release of a study."""
    [contract] = stated_contracts(study, n, insecure=True).values()
    assert isinstance(contract, WindowContract)
    return contract


@st.composite
def studies(draw: st.DrawFn) -> Study:
    """Any small study: 2 to 6 symbols, up to 8 periods, one to three releases of any kind, hardly any noise to a lot."""
    alphabet = "abcdef"[: draw(st.integers(2, 6))]
    horizon = draw(st.integers(1, 8))
    events = st.sets(st.sampled_from(alphabet), min_size=1, max_size=len(alphabet) - 1)
    releases: list[Release] = []
    for place in range(draw(st.integers(1, 3))):
        name, event = f"r{place}", tuple(draw(events))
        match draw(st.sampled_from(["window", "cumulative", "paper", "spell", "pattern"])):
            case "window":
                k = draw(st.integers(1, min(4, horizon)))
                releases.append(WindowRelease(name, k, measure=draw(st.sampled_from(MEASURES))))
            case "cumulative":
                most = draw(st.none() | st.integers(1, horizon))
                releases.append(CumulativeRelease(name, event, most=most, weights="rule"))
            case "paper":
                releases.append(CumulativeRelease(name, event, measure="paper"))
            case "spell":
                length = draw(st.integers(1, horizon))
                releases.append(SpellRelease(name, event, length=length, weights="rule"))
            case _:
                shortest = {"a": 1, "a{2}": 2, "ab": 2, "b+a": 2, "a.b": 3, "a[ab]{2}": 3, "b(a|b)a": 3}
                pattern = draw(st.sampled_from([pattern for pattern, length in shortest.items() if length <= horizon]))
                releases.append(PatternRelease(name, pattern=pattern, weights="rule"))
    return build_study(
        *releases,
        alphabet=alphabet,
        horizon=horizon,
        rho=10 ** draw(st.floats(-4, 3)),
        adjacency=draw(st.sampled_from(CLOSED_ADJACENCIES)),
        population=Population(initial=alphabet[0], missing=Missing(draw(st.none() | st.sampled_from(alphabet)))),
    )


@st.composite
def histories_of(draw: st.DrawFn, study: Study) -> Filled:
    """Up to 12 people, some reports missing and filled in."""
    row = st.lists(st.integers(-1, study.q - 1), min_size=study.last_period, max_size=study.last_period)
    rows = draw(st.lists(row, min_size=1, max_size=12))
    return People(None, np.array(rows, dtype=np.int8)).filled(study)


@st.composite
def contracts_of(draw: st.DrawFn, study: Study, n: int) -> Mapping[str, Contract]:
    """What the study promises; or with so little padding that counts are clamped, and always if it would be slow to test."""
    promised = stated_contracts(study, n, insecure=True)
    for name, contract in promised.items():
        if isinstance(contract, WindowContract) and (contract.expected_rows > 3000 or draw(st.booleans())):
            promised[name] = replace(contract, n_pad=draw(st.integers(0, 2)))
    return promised


def true_bins(filled: Filled, q: int, k: int, period: int) -> list[int]:
    """People with each window of the last `k` symbols, oldest symbol first in the order of windows."""
    seen = Counter(tuple(row[period - k : period]) for row in filled.tolist())
    return [seen[window] for window in product(range(q), repeat=k)]


def true_at_least(study: Study, release: CumulativeRelease, filled: Filled, period: int) -> list[int]:
    """People with at least 1, 2, ... events so far, up to `most` of them."""
    events = [sum(study.alphabet[symbol] in release.event for symbol in row[:period]) for row in filled.tolist()]
    most = period if release.measure == "paper" else min(period, release.counted_up_to(study.last_period))
    return [sum(count >= b for count in events) for b in range(1, most + 1)]


def true_spells(study: Study, release: SpellRelease, filled: Filled, period: int) -> list[int]:
    """People in a spell of at least 1, 2, ... periods now, up to `length` of them."""
    lengths = []
    for row in filled.tolist():
        newest_first = [study.alphabet[symbol] in release.event for symbol in row[:period][::-1]]
        lengths.append(newest_first.index(False) if False in newest_first else period)
    return [sum(length >= j for length in lengths) for j in range(1, min(period, release.length) + 1)]


def true_matches(study: Study, release: PatternRelease, filled: Filled, period: int) -> list[int]:
    """People whose history so far has matched. Symbols are single characters, so that Python's own matcher can be used."""
    pattern = re.sub("<(.)>", r"\1", release.pattern)
    histories = ["".join(study.alphabet[symbol] for symbol in row[:period]) for row in filled.tolist()]
    return [sum(re.search(pattern, history) is not None for history in histories)]


def true_counts(study: Study, release: Release, filled: Filled, period: int) -> list[int]:
    """The counts of a period that the release is about, without padding. A paper's window has none before period `k`."""
    match release:
        case WindowRelease():
            return true_bins(filled, study.q, min(release.k, period), period)
        case CumulativeRelease():
            return true_at_least(study, release, filled, period)
        case SpellRelease():
            return true_spells(study, release, filled, period)
        case PatternRelease():
            return true_matches(study, release, filled, period)
    raise AssertionError(release.kind)


def true_share(study: Study, filled: Filled, period: int, width: int, predicate: Callable[[tuple[str, ...]], bool]) -> float:
    """The share of people whose last `width` symbols satisfy the predicate."""
    windows = [tuple(study.alphabet[symbol] for symbol in row[period - width : period]) for row in filled.tolist()]
    return sum(map(predicate, windows)) / len(windows)


def sticky_panel(n: int, horizon: int, seed: int) -> Filled:
    """People of whom one in seven is a 1 at first, and who change rarely: like months in poverty."""
    rng = np.random.default_rng(seed)
    filled = np.empty((n, horizon), dtype=np.uint8)
    filled[:, 0] = rng.random(n) < 1 / 7
    for period in range(1, horizon):
        to_one = np.where(filled[:, period - 1] == 1, 0.88, 0.02)
        filled[:, period] = rng.random(n) < to_one
    return filled
