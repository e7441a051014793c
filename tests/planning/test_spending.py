"""What a plan says each period spends, under the declared adjacency and the other one."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from streamproc.planning import plan_study
from streamproc.privacy.adjacency import Adjacency
from tests.planning.formulas import Matrix, N, contrast_variance, months, only, poverty_study, quarterly, square_root_counter


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_running_total_is_the_closed_form_and_ends_at_the_budget(adjacency: Adjacency) -> None:
    plan = plan_study(poverty_study(quarterly(measure="histogram"), adjacency=adjacency), N)

    assert [spent.rho for spent in plan.spending] == pytest.approx([max(t - 2, 0) * 0.0005 for t in range(1, 13)], rel=1e-12)
    assert plan.total.rho <= 0.005
    assert only(plan).epsilon == pytest.approx(0.4299414688)
    assert plan.total.epsilon == pytest.approx(0.4299414688)


def test_releases_share_the_budget_and_their_costs_add_up() -> None:
    plan = plan_study(poverty_study(quarterly(share=Fraction(1, 4)), months(share=Fraction(1, 2))), N)
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
    zero_out = plan_study(poverty_study(release, horizon=horizon, alphabet=alphabet, adjacency=Adjacency.ZERO_OUT), N)
    times = contrast_variance(q, k, horizon, Adjacency.REPLACE_ONE, 1) / contrast_variance(
        q, k, horizon, Adjacency.ZERO_OUT, 1
    )

    assert zero_out.other_adjacency is Adjacency.REPLACE_ONE
    assert zero_out.other.rho == pytest.approx(0.005 * times, rel=1e-12)
    replace_one = plan_study(poverty_study(release, horizon=horizon, alphabet=alphabet), N)
    assert replace_one.other.rho == pytest.approx(0.005 / times, rel=1e-12)


def test_the_other_adjacency_of_a_cumulative_release_is_the_worst_pair_of_all_histories() -> None:
    horizon = 4
    plan = plan_study(poverty_study(months(), horizon=horizon, adjacency=Adjacency.ZERO_OUT), N)
    matrix, _ = square_root_counter(horizon)
    sigmas = only(plan).contract.mechanism.sigmas

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


@pytest.mark.parametrize(("horizon", "periods"), [(64, list(range(1, 65))), (100, [1, 25, 50, 75, 100]), (201, [201])])
def test_a_slow_odometer_is_read_less_often_over_longer_horizons(horizon: int, periods: list[int]) -> None:
    plan = plan_study(poverty_study(months(counter="tree"), horizon=horizon), N)

    assert [spent.period for spent in only(plan).spending] == periods
    assert [spent.period for spent in plan.spending] == periods
    totals = [spent.rho for spent in plan.spending]
    assert totals == sorted(totals)
    assert plan.total.rho == pytest.approx(0.005, abs=1e-12)


def test_the_study_total_is_known_where_every_release_knows_its_own() -> None:
    releases = (quarterly(share=Fraction(1, 2)), months(counter="tree", share=Fraction(1, 2)))
    plan = plan_study(poverty_study(*releases, horizon=100), N)

    assert len(plan.releases[0].spending) == 100
    assert [spent.period for spent in plan.spending] == [1, 25, 50, 75, 100]
