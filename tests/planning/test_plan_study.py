"""A plan's numbers, recomputed from the formulas of DESIGN section 3 by arithmetic that shares no code with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from streamproc.errors import StudyError
from streamproc.planning import CounterAlternative, MeasureAlternative, QueryPlan, ReleasePlan, StudyPlan, plan_study
from streamproc.privacy.adjacency import Adjacency
from streamproc.study import Broker, CumulativeRelease, Population, Privacy, Release, Study, WindowRelease

N = 23_374
Z = 1.959963984540054

Matrix = npt.NDArray[np.float64]


def study(
    *releases: Release,
    horizon: int = 12,
    alphabet: tuple[str, ...] = ("0", "1"),
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    rho: float = 0.005,
    roster: str | None = "people.txt",
) -> Study:
    return Study(
        name="poverty",
        alphabet=alphabet,
        horizon=horizon,
        population=Population(initial=alphabet[0], roster=roster),
        privacy=Privacy(rho=rho, adjacency=adjacency),
        releases=releases,
        broker=Broker("embedded:poverty"),
    )


def quarterly(**changes: object) -> WindowRelease:
    return replace(WindowRelease("quarterly", k=3), **changes)  # type: ignore[arg-type]


def months(**changes: object) -> CumulativeRelease:
    return replace(CumulativeRelease("months", event=("1",)), **changes)  # type: ignore[arg-type]


def only(plan: StudyPlan) -> ReleasePlan:
    (release,) = plan.releases
    return release


def named(release: ReleasePlan, name: str) -> QueryPlan:
    (query,) = [query for query in release.queries if query.name == name]
    return query


def contrast_variance(q: int, k: int, horizon: int, adjacency: Adjacency, rho: float) -> float:
    """`v`, from the closed form of DESIGN."""
    m, later = q**k, horizon - k
    if adjacency is Adjacency.ZERO_OUT:
        return float(((m - 1) / m + later * (q - 1) / q) / (2 * rho))
    same = math.ceil(later / k)
    return (1 + same + (later - same) * (q - 1) / q) / rho


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(("q", "k"), [(2, 3), (4, 2)])
def test_a_bin_has_the_error_of_the_closed_form_with_rounding_included(q: int, k: int, adjacency: Adjacency) -> None:
    alphabet = tuple("ABCD"[:q])
    release = only(plan_study(study(quarterly(k=k), alphabet=alphabet, adjacency=adjacency), N))
    variance = contrast_variance(q, k, 12, adjacency, 0.005) * (1 - q**-k)
    rounding = (1 - q**-4) / 6 * (1 - q**-k) / (1 - 1 / q)

    last = named(release, "bin").last

    assert release.noise_people == pytest.approx(math.sqrt(variance), rel=1e-12)
    assert last.stderr_people == pytest.approx(math.sqrt(variance + rounding), rel=1e-12)
    assert last.half_people == pytest.approx(Z * last.stderr_people)
    assert last.half_points == pytest.approx(100 * Z * last.stderr_people / N)
    assert last.period == 12


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
@pytest.mark.parametrize("measure", ["contrast", "histogram"])
def test_the_papers_questions_have_the_error_their_bins_give_them(
    name: str, holds: Callable[[tuple[int, ...]], bool], measure: str
) -> None:
    release = only(plan_study(study(quarterly(measure=measure)), N))
    bins = sum(1 for window in product((0, 1), repeat=3) if holds(window))
    if measure == "contrast":
        noise = contrast_variance(2, 3, 12, Adjacency.REPLACE_ONE, 0.005) * (bins - bins**2 / 8)
    else:
        noise = 10 * 2 / (2 * 0.005) * bins

    error = named(release, name).last.stderr_people

    assert noise < error**2 < noise + bins  # rounding adds less than half a person squared a bin


def test_questions_start_at_the_first_period_at_which_they_can_be_asked() -> None:
    release = only(plan_study(study(quarterly()), N))

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
    assert [query.name for query in only(plan_study(study(quarterly(k=k)), N)).queries] == names


def test_a_larger_alphabet_is_asked_about_a_bin_and_a_symbol() -> None:
    release = only(plan_study(study(quarterly(k=2), alphabet=("A", "B", "C")), N))

    assert [query.name for query in release.queries] == ["bin", "last:B"]


def square_root_counter(horizon: int) -> tuple[Matrix, Matrix]:
    """The integer matrix `C` and `A C^-1`, by inverting it."""
    column = [round(4096 * math.comb(2 * j, j) / 4**j) for j in range(horizon)]
    matrix = np.array([[column[t - i] if t >= i else 0 for i in range(horizon)] for t in range(horizon)], dtype=float)
    return matrix, np.tril(np.ones((horizon, horizon))) @ np.linalg.inv(matrix)


def test_a_cumulative_count_has_the_error_of_its_counter_at_every_period() -> None:
    release = only(plan_study(study(months()), N))
    _, answers = square_root_counter(12)
    gains = (answers**2).sum(axis=1)
    sigmas = release.contract.mechanism.sigmas  # type: ignore[union-attr]

    assert [query.name for query in release.queries] == ["atleast:1", "atleast:2", "atleast:3", "atleast:12"]
    for b in (1, 2, 3, 12):
        errors = named(release, f"atleast:{b}").errors
        assert [error.period for error in errors] == list(range(b, 13))
        expected = [sigmas[b - 1] * math.sqrt(gains[t - b]) for t in range(b, 13)]
        assert [error.stderr_people for error in errors] == pytest.approx(expected, rel=1e-9)
    only_columns = named(release, "atleast:12").half_people_columns_only
    assert only_columns is not None and only_columns > named(release, "atleast:12").last.half_people


def test_a_horizon_of_one_period_can_be_planned() -> None:
    plan = plan_study(study(quarterly(k=1, share=Fraction(1, 2)), months(share=Fraction(1, 2)), horizon=1), 100)

    assert [query.name for query in plan.releases[1].queries] == ["atleast:1"]
    assert plan.total.rho == pytest.approx(0.005)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_running_total_is_the_closed_form_and_ends_at_the_budget(adjacency: Adjacency) -> None:
    plan = plan_study(study(quarterly(measure="histogram"), adjacency=adjacency), N)

    assert [spent.rho for spent in plan.spending] == pytest.approx([max(t - 2, 0) * 0.0005 for t in range(1, 13)], rel=1e-12)
    assert plan.total.rho <= 0.005
    assert only(plan).epsilon == pytest.approx(0.4299414688)
    assert plan.total.epsilon == pytest.approx(0.4299414688)


def test_releases_share_the_budget_and_their_costs_add_up() -> None:
    plan = plan_study(study(quarterly(share=Fraction(1, 4)), months(share=Fraction(1, 2))), N)
    window, cumulative = plan.releases

    assert (window.contract.rho, cumulative.contract.rho) == (0.00125, 0.0025)
    for total, first, second in zip(plan.spending, window.spending, cumulative.spending, strict=True):
        assert total.rho == pytest.approx(first.rho + second.rho, rel=1e-15)
    assert plan.total.rho == pytest.approx(0.00375, rel=1e-12)
    assert [note.code for note in plan.notes] == ["budget_unused"]


@pytest.mark.parametrize(("q", "k", "horizon"), [(2, 3, 12), (4, 2, 12), (3, 3, 4)])
def test_a_zero_out_study_says_what_its_noise_costs_under_replace_one(q: int, k: int, horizon: int) -> None:
    alphabet = tuple("ABCD"[:q])
    release = quarterly(k=k)
    zero_out = plan_study(study(release, horizon=horizon, alphabet=alphabet, adjacency=Adjacency.ZERO_OUT), N)
    times = contrast_variance(q, k, horizon, Adjacency.REPLACE_ONE, 1) / contrast_variance(
        q, k, horizon, Adjacency.ZERO_OUT, 1
    )

    assert zero_out.other_adjacency is Adjacency.REPLACE_ONE
    assert zero_out.other.rho == pytest.approx(0.005 * times, rel=1e-12)
    replace_one = plan_study(study(release, horizon=horizon, alphabet=alphabet), N)
    assert replace_one.other.rho == pytest.approx(0.005 / times, rel=1e-12)


def test_the_other_adjacency_of_a_cumulative_release_is_the_worst_pair_of_all_histories() -> None:
    horizon = 4
    plan = plan_study(study(months(), horizon=horizon, adjacency=Adjacency.ZERO_OUT), N)
    matrix, _ = square_root_counter(horizon)
    sigmas = only(plan).contract.mechanism.sigmas  # type: ignore[union-attr]

    def streams(history: tuple[int, ...]) -> list[Matrix]:
        ones = [t for t, symbol in enumerate(history) if symbol]
        return [np.eye(horizon)[ones[b] - b] if b < len(ones) else np.zeros(horizon) for b in range(horizon)]

    def cost(one: tuple[int, ...], other: tuple[int, ...]) -> float:
        total = 0.0
        for b, (x, y) in enumerate(zip(streams(one), streams(other), strict=True)):
            moved = matrix[: horizon - b, : horizon - b] @ (x - y)[: horizon - b]
            total += float(moved @ moved) / (2 * sigmas[b] ** 2)
        return total

    histories = list(product((0, 1), repeat=horizon))
    assert plan.total.rho == pytest.approx(max(cost(one, histories[0]) for one in histories), rel=1e-9)
    assert plan.other.rho == pytest.approx(max(cost(one, two) for one, two in product(histories, repeat=2)), rel=1e-9)


@pytest.mark.parametrize(("adjacency", "ratio"), [(Adjacency.REPLACE_ONE, 0.61), (Adjacency.ZERO_OUT, 0.47)])
def test_measures_are_compared_at_the_same_budget(adjacency: Adjacency, ratio: float) -> None:
    release = only(plan_study(study(quarterly(measure="histogram"), adjacency=adjacency), N))
    contrast, histogram = release.alternatives

    assert isinstance(contrast, MeasureAlternative) and isinstance(histogram, MeasureAlternative)
    assert (contrast.measure, histogram.measure) == ("contrast", "histogram")
    assert (contrast.chosen, histogram.chosen) == (False, True)
    assert contrast.variance_ratio == pytest.approx(ratio, abs=0.005)
    assert histogram.variance_ratio == 1
    assert histogram.bin_stderr_people == pytest.approx(release.noise_people)
    assert contrast.n_pad < histogram.n_pad == release.contract.n_pad  # type: ignore[union-attr]


def test_every_counter_and_allocation_is_compared_at_the_same_budget() -> None:
    release = only(plan_study(study(months()), N))
    ways = [way for way in release.alternatives if isinstance(way, CounterAlternative)]

    assert len(ways) == 6
    (chosen,) = [way for way in ways if way.chosen]
    assert (chosen.counter, chosen.allocation, chosen.rms_ratio) == ("sqrt", "equal-max", 1)
    _, answers = square_root_counter(12)
    gains = (answers**2).sum(axis=1)
    sigmas = release.contract.mechanism.sigmas  # type: ignore[union-attr]
    variances = [sigmas[b - 1] ** 2 * gains[t - b] for b in range(1, 13) for t in range(b, 13)]
    assert chosen.rms_stderr_people == pytest.approx(math.sqrt(sum(variances) / len(variances)), rel=1e-9)
    for way in ways:
        other = only(plan_study(study(months(counter=way.counter, allocation=way.allocation)), N))
        assert way.worst_stderr_people == pytest.approx(other.noise_people)
        assert way.rms_ratio == pytest.approx(way.rms_stderr_people / chosen.rms_stderr_people)
    tree = next(way for way in ways if (way.counter, way.allocation) == ("tree", "equal-max"))
    assert tree.rms_ratio > 1.25


def test_counters_over_a_long_horizon_are_compared_only_when_asked() -> None:
    quiet = plan_study(study(months(), horizon=201), N)
    asked = plan_study(study(months(), horizon=201), N, compare_long=True)

    assert only(quiet).alternatives == ()
    assert [note.code for note in quiet.notes] == ["counters_not_compared"]
    assert len(only(asked).alternatives) == 6
    assert asked.notes == ()


@pytest.mark.parametrize(("horizon", "periods"), [(64, list(range(1, 65))), (100, [1, 25, 50, 75, 100]), (201, [201])])
def test_a_slow_odometer_is_read_less_often_over_longer_horizons(horizon: int, periods: list[int]) -> None:
    plan = plan_study(study(months(counter="tree"), horizon=horizon), N)

    assert [spent.period for spent in only(plan).spending] == periods
    assert [spent.period for spent in plan.spending] == periods
    totals = [spent.rho for spent in plan.spending]
    assert totals == sorted(totals)
    assert plan.total.rho == pytest.approx(0.005, abs=1e-12)


def test_the_study_total_is_known_where_every_release_knows_its_own() -> None:
    releases = (quarterly(share=Fraction(1, 2)), months(counter="tree", share=Fraction(1, 2)))
    plan = plan_study(study(*releases, horizon=100), N)

    assert len(plan.releases[0].spending) == 100
    assert [spent.period for spent in plan.spending] == [1, 25, 50, 75, 100]


def test_padding_that_outweighs_people_is_warned_about_with_a_k_that_helps() -> None:
    plan = plan_study(study(quarterly(k=6)), 2_000)
    (warning,) = [warning for warning in plan.warnings if warning.code == "padding_outweighs_people"]
    fits = [k for k in range(1, 6) if _padding(plan_study(study(quarterly(k=k)), 2_000)) <= 2_000]

    assert warning.release == "quarterly"
    assert _padding(plan) > 2_000
    assert f"take k = {max(fits)}, or" in warning.message


def _padding(plan: StudyPlan) -> int:
    return only(plan).memory.rows - plan.n


def test_padding_is_warned_about_as_soon_as_it_outweighs_people() -> None:
    padding = _padding(plan_study(study(quarterly()), N))  # it does not depend on the number of people

    def codes(people: int) -> list[str]:
        return [warning.code for warning in plan_study(study(quarterly()), people).warnings]

    assert "padding_outweighs_people" in codes(padding - 1)
    assert "padding_outweighs_people" not in codes(padding)


def test_the_budget_a_padding_warning_names_is_about_enough() -> None:
    plan = plan_study(study(quarterly(k=6)), 2_000)
    (warning,) = [warning for warning in plan.warnings if warning.code == "padding_outweighs_people"]
    rho = float(warning.message.partition("rho = ")[2].split()[0])

    assert _padding(plan_study(study(quarterly(k=6), rho=1.2 * rho), 2_000)) <= 2_000
    assert _padding(plan_study(study(quarterly(k=6), rho=0.8 * rho), 2_000)) > 2_000


def test_wide_intervals_are_warned_about_from_ten_points_on() -> None:
    release = only(plan_study(study(months()), 1_000))
    widest = max(query.worst.half_people for query in release.queries)
    just_enough = math.ceil(widest / 0.10)

    wide = plan_study(study(months()), just_enough - 10)
    fine = plan_study(study(months()), just_enough + 10)

    assert [(warning.code, warning.release) for warning in wide.warnings] == [("wide_interval", "months")]
    assert fine.warnings == ()


def test_a_comfortable_study_has_no_warnings() -> None:
    assert plan_study(study(quarterly(), rho=0.05), N).warnings == ()


def test_without_a_roster_the_plan_says_who_is_not_protected() -> None:
    plan = plan_study(study(quarterly(), roster=None), N)

    assert [note.code for note in plan.notes] == ["no_roster", "people_assumed"]
    assert "period 1" in plan.notes[0].message
    assert f"{N:,}" in plan.notes[1].message


def test_a_roster_of_another_size_than_expected_is_noted() -> None:
    made = study(quarterly())
    made = replace(made, population=replace(made.population, size=5))

    assert [note.code for note in plan_study(made, 7).notes] == ["roster_differs_from_size"]


@pytest.mark.parametrize(("k", "row_bytes"), [(3, 1), (8, 1), (9, 2)])
def test_memory_is_the_narrowest_code_for_every_synthetic_row(k: int, row_bytes: int) -> None:
    release = only(plan_study(study(quarterly(k=k), rho=1), N))

    assert release.memory.row_bytes == row_bytes
    assert release.memory.rows == N + 2**k * release.contract.n_pad  # type: ignore[union-attr]
    assert release.memory.kept_bytes == row_bytes * release.memory.rows
    assert release.memory.column_bytes == math.ceil(release.memory.rows / 8)


def test_a_synthetic_panel_too_large_to_number_is_refused() -> None:
    with pytest.raises(StudyError, match=r"release\.quarterly\.k"):
        plan_study(study(quarterly(k=16), rho=1e-11), N)


def test_a_share_too_small_for_64_bit_noise_is_refused_by_name() -> None:
    with pytest.raises(StudyError, match=r"release\.months\.share"):
        plan_study(study(quarterly(share=Fraction(1, 2)), months(share=Fraction(1, 10**20))), N)
