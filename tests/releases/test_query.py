"""Questions: which bins answer yes, and which questions a release cannot answer."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import UnsupportedQuery
from streamproc.panel import AtLeast, LastSymbols, count_of, exactly, in_a_row
from streamproc.privacy.types import Period
from streamproc.study import WindowRelease
from tests.releases.random_studies import window_contract
from tests.studies import build_study

ALPHABET = ("a", "b", "c")
CONTRACT = window_contract(build_study(WindowRelease("w", 3), alphabet=ALPHABET, horizon=6), 10)


@given(st.integers(1, 6), st.data())
def test_a_bin_answers_yes_if_its_symbols_up_to_the_period_do(period: int, data: st.DataObject) -> None:
    """Of a window that came out at `max(period, k)`, the symbols up to `period`, and of these the last `width`."""
    width = data.draw(st.integers(1, min(3, period)))
    yes = data.draw(st.sets(st.sampled_from(list(product(ALPHABET, repeat=width)))))
    query = LastSymbols("any", width, lambda window: window in yes)
    weights = CONTRACT.query_weights(query, Period(period))
    seen = min(period, 3)
    expected = [window[seen - width : seen] in yes for window in product(ALPHABET, repeat=3)]
    assert weights.tolist() == expected


@pytest.mark.parametrize(
    ("query", "yes"),
    [
        (count_of("1", at_least=1, of=3), {"001", "010", "011", "100", "101", "110", "111"}),
        (count_of("1", at_least=2, of=3), {"011", "101", "110", "111"}),
        (in_a_row("1", length=2, of=3), {"011", "110", "111"}),
        (count_of("1", at_least=3, of=3), {"111"}),
        (exactly("1", "0"), {"010", "110"}),
        (exactly("1"), {"001", "011", "101", "111"}),
        (exactly("0", "1", "0"), {"010"}),
        (in_a_row("0", length=3, of=3), {"000"}),
    ],
)
def test_the_questions_of_a_quarter(query: LastSymbols, yes: set[str]) -> None:
    """Among them the paper's four: poor in at least one month, in at least two, in two in a row, in all three."""
    contract = window_contract(build_study(WindowRelease("w", 3), horizon=6), 10)
    windows = ["".join(window) for window in product("01", repeat=3)]
    weights = contract.query_weights(query, Period(5))
    assert {window for window, weight in zip(windows, weights, strict=True) if weight} == yes


def test_names_say_what_is_asked() -> None:
    assert exactly("1", "0").name == "last:10"
    assert exactly("in", "out").name == "last:in|out"
    assert count_of({"c", "b"}, at_least=2, of=3).name == "b/c in at least 2 of the last 3"
    assert in_a_row(["b"], length=2, of=3).name == "b in 2 in a row of the last 3"
    assert AtLeast(4).name == "atleast:4"


@pytest.mark.parametrize(
    ("query", "period", "reason"),
    [
        (
            count_of("b", at_least=1, of=4),
            6,
            r"looks back over 4 periods, .* release w .* k = 3; .* mean nothing",
        ),
        (exactly("a", "a"), 1, "needs 2 periods, but period 1 comes before that"),
        (exactly("a", "d"), 3, "last:ad: 'd' is not a symbol of release w, whose symbols are a, b, c"),
        (count_of(["poor"], at_least=1, of=2), 3, "'poor' is not a symbol"),
        (in_a_row(["a", "x"], length=1, of=2), 3, "'x' is not a symbol"),
    ],
)
def test_what_no_bin_can_tell_is_refused_with_the_reason(query: LastSymbols, period: int, reason: str) -> None:
    with pytest.raises(UnsupportedQuery, match=reason) as caught:
        CONTRACT.query_weights(query, Period(period))
    assert "\n" not in str(caught.value)
