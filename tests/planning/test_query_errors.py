"""The error a plan expects of each question, recomputed from the formulas of docs/privacy.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import pytest

from streamproc.planning import plan_study
from streamproc.privacy.adjacency import Adjacency
from tests.planning.formulas import (
    N,
    WindowFlow,
    at_least_variances,
    months,
    named,
    only,
    paper_window_variance,
    poverty_study,
    quarterly,
    tree_gains,
)
from tests.studies import CLOSED_ADJACENCIES

Z = 1.959963984540054


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
@pytest.mark.parametrize(("q", "k"), [(2, 3), (4, 2)])
@pytest.mark.parametrize("measure", ["flow", "paper"])
def test_a_bin_has_the_error_of_the_formula_with_rounding_included(
    q: int, k: int, adjacency: Adjacency, measure: str
) -> None:
    alphabet = tuple("ABCD"[:q])
    made = poverty_study(quarterly(k=k, measure=measure), alphabet=alphabet, adjacency=adjacency)
    release = only(plan_study(made, N))
    if measure == "flow":
        flow = WindowFlow(q, k, release.contract.mechanism.weights, adjacency)
        variances = [flow.variance(t, lambda window: not any(window)) for t in range(k, 13)]
        denominator = q**k if q == 2 else q ** (2 * k)
    else:
        variances = [paper_window_variance(k, 12, adjacency, 0.005)]
        denominator = q
    rounding = (1 - denominator**-2) / 6 * (1 - q**-k) / (1 - 1 / q)

    last = named(release, "bin").last

    assert release.noise_people == pytest.approx(math.sqrt(max(variances)), rel=1e-12)
    assert last.stderr_people == pytest.approx(math.sqrt(variances[-1] + rounding), rel=1e-12)
    assert last.half_people == pytest.approx(Z * last.stderr_people)
    assert last.half_points == pytest.approx(100 * Z * last.stderr_people / N)
    assert last.period == 12


@pytest.mark.parametrize(("q", "k"), [(2, 2), (2, 3), (4, 2)])
def test_the_weights_of_windows_make_every_bin_as_exact_as_the_closed_form(q: int, k: int) -> None:
    """The weights are iterated, so the form is reached to seven digits."""
    release = only(plan_study(poverty_study(quarterly(k=k), alphabet=tuple("ABCD"[:q])), N))

    variance = ((1 - q**-k) + (12 - k) * (1 - 1 / q)) / 0.005

    assert release.noise_people**2 == pytest.approx(variance, rel=1e-7)


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("last:1", lambda w: w[-1] == 1),
        ("1 in at least 1 of the last 3", lambda w: sum(w) >= 1),
        ("1 in at least 2 of the last 3", lambda w: sum(w) >= 2),
        ("1 in 2 in a row of the last 3", lambda w: w[1] and (w[0] or w[2])),
        ("1 in at least 3 of the last 3", lambda w: sum(w) == 3),
    ],
)
@pytest.mark.parametrize("measure", ["flow", "paper"])
def test_the_papers_questions_have_the_error_their_bins_give_them(
    name: str, holds: Callable[[tuple[int, ...]], bool], measure: str
) -> None:
    release = only(plan_study(poverty_study(quarterly(measure=measure)), N))
    bins = sum(1 for window in product((0, 1), repeat=3) if holds(window))
    if measure == "flow":
        noise = WindowFlow(2, 3, release.contract.mechanism.weights, Adjacency.REPLACE_ONE).variance(12, holds)
    else:
        noise = paper_window_variance(3, 12, Adjacency.REPLACE_ONE, 0.005) * bins

    error = named(release, name).last.stderr_people

    assert noise < error**2 < noise + bins  # rounding adds less than half a person squared a bin


@pytest.mark.parametrize("measure", ["flow", "paper"])
def test_questions_start_at_the_first_period_at_which_they_can_be_asked(measure: str) -> None:
    release = only(plan_study(poverty_study(quarterly(measure=measure)), N))

    assert [error.period for error in named(release, "last:1").errors] == list(range(1, 13))
    assert [error.period for error in named(release, "bin").errors] == list(range(3, 13))


@pytest.mark.parametrize(
    ("k", "names"),
    [
        (1, ["bin", "last:1"]),
        (2, ["bin", "last:1", "1 in at least 2 of the last 2", "1 in at least 1 of the last 2"]),
    ],
)
def test_a_small_k_asks_no_question_twice(k: int, names: list[str]) -> None:
    assert [query.name for query in only(plan_study(poverty_study(quarterly(k=k)), N)).queries] == names


def test_a_larger_alphabet_is_asked_about_a_bin_and_a_symbol() -> None:
    release = only(plan_study(poverty_study(quarterly(k=2), alphabet=("A", "B", "C")), N))

    assert [query.name for query in release.queries] == ["bin", "last:B"]


@pytest.mark.parametrize("measure", ["flow", "paper"])
def test_a_cumulative_count_has_the_error_of_its_measurements_at_every_period(measure: str) -> None:
    release = only(plan_study(poverty_study(months(measure=measure)), N))
    mechanism = release.contract.mechanism
    if measure == "flow":
        variances = at_least_variances(mechanism.matrices, mechanism.sigma)
    else:
        gains = tree_gains(12)
        variances = {(b, t): mechanism.sigmas[b - 1] ** 2 * gains[t - b] for b in range(1, 13) for t in range(b, 13)}

    assert [query.name for query in release.queries] == ["atleast:1", "atleast:2", "atleast:3", "atleast:12"]
    for b in (1, 2, 3, 12):
        errors = named(release, f"atleast:{b}").errors
        assert [error.period for error in errors] == list(range(b, 13))
        expected = [math.sqrt(variances[b, t]) for t in range(b, 13)]
        assert [error.stderr_people for error in errors] == pytest.approx(expected, rel=1e-9)
    only_columns = named(release, "atleast:12").half_people_columns_only
    assert only_columns is not None and only_columns > named(release, "atleast:12").last.half_people


@pytest.mark.parametrize("measure", ["flow", "paper"])
def test_a_horizon_of_one_period_can_be_planned(measure: str) -> None:
    releases = (quarterly(k=1, measure=measure, share=Fraction(1, 2)), months(measure=measure, share=Fraction(1, 2)))
    plan = plan_study(poverty_study(*releases, horizon=1), 100)

    assert [query.name for query in plan.releases[1].queries] == ["atleast:1"]
    assert plan.total.rho == pytest.approx(0.005)
