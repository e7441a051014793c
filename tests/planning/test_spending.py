"""What a plan says each period spends, under the declared adjacency and the other one."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from streamproc.planning import plan_study
from streamproc.privacy.adjacency import Adjacency
from tests.planning.formulas import (
    Matrix,
    N,
    WindowFlow,
    event_transition,
    months,
    only,
    poverty_study,
    quarterly,
    tree_counter,
)
from tests.studies import CLOSED_ADJACENCIES

History = tuple[int, ...]


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
@pytest.mark.parametrize("measure", ["flow", "paper"])
def test_the_running_total_is_the_formula_and_ends_at_the_budget(adjacency: Adjacency, measure: str) -> None:
    plan = plan_study(poverty_study(quarterly(measure=measure), adjacency=adjacency), N)
    if measure == "flow":
        expected = WindowFlow(2, 3, only(plan).contract.mechanism.weights, adjacency).costs(adjacency)
    else:
        expected = [max(t - 2, 0) * 0.0005 for t in range(1, 13)]

    assert [spent.rho for spent in plan.spending] == pytest.approx(expected, rel=1e-12)
    assert plan.total.rho == pytest.approx(0.005, rel=1e-12)
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
@pytest.mark.parametrize("measure", ["flow", "paper"])
def test_a_plan_says_what_its_noise_costs_under_the_other_adjacency(q: int, k: int, horizon: int, measure: str) -> None:
    for declared, other in permutations(CLOSED_ADJACENCIES):
        made = poverty_study(
            quarterly(k=k, measure=measure), horizon=horizon, alphabet=tuple("ABCD"[:q]), adjacency=declared
        )
        plan = plan_study(made, N)
        if measure == "flow":
            expected = WindowFlow(q, k, only(plan).contract.mechanism.weights, declared).costs(other)[-1]
        else:
            expected = 0.005 * (2 if other is Adjacency.REPLACE_ONE else 1 / 2)

        assert plan.other_adjacency is other
        assert plan.other.rho == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("measure", ["flow", "paper"])
def test_the_other_adjacency_of_a_cumulative_release_is_the_worst_pair_of_all_histories(measure: str) -> None:
    horizon = 4
    plan = plan_study(poverty_study(months(measure=measure), horizon=horizon, adjacency=Adjacency.ZERO_OUT), N)
    mechanism = only(plan).contract.mechanism

    def flow_cost(one: History, other: History) -> float:
        total = 0
        for t, matrix in enumerate(mechanism.matrices, start=1):
            moved = matrix[:, event_transition(one, t)] - matrix[:, event_transition(other, t)]
            total += int(moved @ moved)
        return float(total / (2 * mechanism.sigma**2))

    def paper_cost(one: History, other: History) -> float:
        tree, total = tree_counter(horizon), 0.0
        for b, (x, y) in enumerate(zip(_streams(one), _streams(other), strict=True)):
            moved = tree[: horizon - b, : horizon - b] @ (x - y)[: horizon - b]
            total += float(moved @ moved) / (2 * mechanism.sigmas[b] ** 2)
        return total

    cost = flow_cost if measure == "flow" else paper_cost
    histories = list(product((0, 1), repeat=horizon))
    assert plan.total.rho == pytest.approx(max(cost(one, histories[0]) for one in histories), rel=1e-9)
    assert plan.other.rho == pytest.approx(max(cost(one, two) for one, two in product(histories, repeat=2)), rel=1e-9)


def _streams(history: History) -> list[Matrix]:
    """For each `b`, when the `b`-th event comes, counted from the first period in which it can; zero if it never does."""
    horizon, events = len(history), [t for t, symbol in enumerate(history) if symbol]
    return [np.eye(horizon)[events[b] - b] if b < len(events) else np.zeros(horizon) for b in range(horizon)]


@pytest.mark.parametrize(("horizon", "periods"), [(64, list(range(1, 65))), (100, [1, 25, 50, 75, 100]), (201, [201])])
def test_a_slow_odometer_is_read_less_often_over_longer_horizons(horizon: int, periods: list[int]) -> None:
    plan = plan_study(poverty_study(months(measure="paper"), horizon=horizon), N)

    assert [spent.period for spent in only(plan).spending] == periods
    assert [spent.period for spent in plan.spending] == periods
    totals = [spent.rho for spent in plan.spending]
    assert totals == sorted(totals)
    assert plan.total.rho == pytest.approx(0.005, abs=1e-12)


def test_the_cost_of_a_flow_is_known_after_every_period_of_a_long_study() -> None:
    plan = plan_study(poverty_study(months(most=3), horizon=201), N)

    assert [spent.period for spent in plan.spending] == list(range(1, 202))
    totals = [spent.rho for spent in plan.spending]
    assert totals == sorted(totals)
    assert plan.total.rho == pytest.approx(0.005, abs=1e-12)


def test_the_study_total_is_known_where_every_release_knows_its_own() -> None:
    releases = (quarterly(share=Fraction(1, 2)), months(measure="paper", share=Fraction(1, 2)))
    plan = plan_study(poverty_study(*releases, horizon=100), N)

    assert len(plan.releases[0].spending) == 100
    assert [spent.period for spent in plan.spending] == [1, 25, 50, 75, 100]
