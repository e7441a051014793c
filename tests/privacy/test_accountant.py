"""A release's spending rises to its budget and never passes it; releases together never spend more than the study."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproc.errors import BudgetExceeded, Refused
from streamproc.privacy.accountant import Mechanism, PrivacyAccountant, split_budget, total_spent
from streamproc.privacy.adjacency import CLOSED_ADJACENCIES, Adjacency
from streamproc.privacy.automaton import Automaton, event_counter, spell_counter, transitions_of
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.directed_rounding import float_up
from streamproc.privacy.flow import FlowMechanism
from streamproc.privacy.flow_design import design_matrices, rule_weights
from streamproc.privacy.types import Period, Rho
from streamproc.privacy.window import WindowPaperMechanism
from streamproc.privacy.window_flow import WindowFlowMechanism
from streamproc.study.pattern import compile_pattern

adjacencies = st.sampled_from(CLOSED_ADJACENCIES)
rhos = st.floats(-6, 1).map(lambda power: 10.0**power) | st.sampled_from([1e-6, 0.001, 0.005, 0.05, 1.0, 10.0])


def driven(mechanism: Mechanism, rho: float, horizon: int) -> list[float]:
    """What the accountant shows before period 1 and after each period."""
    accountant = PrivacyAccountant("r", Rho(rho), mechanism)
    shown: list[float] = [accountant.spent]
    for _ in range(horizon):
        accountant = accountant.next()
        shown.append(accountant.spent)
    return shown


def check_spending(mechanism: Mechanism, rho: float, horizon: int) -> None:
    shown = driven(mechanism, rho, horizon)
    assert shown[0] == 0
    assert all(before <= after for before, after in pairwise(shown))
    assert rho - 1e-12 * min(rho, 1) <= shown[-1] <= rho
    assert all(Fraction(spent) >= mechanism.cost(Period(t)) for t, spent in enumerate(shown))


WINDOWS: list[type[WindowFlowMechanism] | type[WindowPaperMechanism]] = [WindowFlowMechanism, WindowPaperMechanism]


def flow_mechanism(automaton: Automaton, horizon: int, adjacency: Adjacency, rho: float) -> FlowMechanism:
    """The mechanism of a cumulative, spell or pattern release, with the weights of the rule."""
    periods = transitions_of(automaton, horizon)
    matrices = design_matrices(periods, rule_weights(periods))
    return FlowMechanism.calibrated(automaton, horizon, matrices, adjacency, rho)


automata = (
    st.integers(1, 16).map(event_counter)
    | st.integers(1, 6).map(spell_counter)
    | st.sampled_from(["1{3}", "01", "1+0", "1.1"]).map(lambda text: Automaton.of_table(compile_pattern(text, ("0", "1"))))
)


@given(st.integers(2, 64), st.integers(1, 12), st.integers(0, 60), st.sampled_from(WINDOWS), adjacencies, rhos)
def test_a_window_release_spends_its_budget_and_no_more(
    q: int,
    k: int,
    later: int,
    measured: type[WindowFlowMechanism] | type[WindowPaperMechanism],
    adjacency: Adjacency,
    rho: float,
) -> None:
    mechanism = measured.calibrated(q=q, k=k, horizon=k + later, adjacency=adjacency, rho=rho)
    check_spending(mechanism, rho, k + later)


@given(automata, st.integers(1, 16), adjacencies, rhos)
def test_a_release_on_an_automaton_spends_its_budget_and_no_more(
    automaton: Automaton, horizon: int, adjacency: Adjacency, rho: float
) -> None:
    check_spending(flow_mechanism(automaton, horizon, adjacency, rho), rho, horizon)


@given(st.integers(1, 16), adjacencies, rhos)
def test_a_cumulative_release_of_the_paper_spends_its_budget_and_no_more(
    horizon: int, adjacency: Adjacency, rho: float
) -> None:
    check_spending(CumulativeMechanism.calibrated(horizon=horizon, adjacency=adjacency, rho=rho), rho, horizon)


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
@pytest.mark.parametrize("rho", [1e-6, 0.005, 10.0])
def test_a_long_cumulative_release_spends_its_budget_and_no_more(adjacency: Adjacency, rho: float) -> None:
    check_spending(flow_mechanism(event_counter(64), 130, adjacency, rho), rho, 130)


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_a_long_cumulative_release_of_the_paper_spends_its_budget_and_no_more(adjacency: Adjacency) -> None:
    mechanism = CumulativeMechanism.calibrated(horizon=130, adjacency=adjacency, rho=0.3)
    assert 0.3 - 1e-12 <= PrivacyAccountant("r", Rho(0.3), mechanism, Period(130)).spent <= 0.3


@pytest.mark.parametrize(
    ("horizon", "adjacency"),
    [
        (500, Adjacency.ZERO_OUT),
        (500, Adjacency.REPLACE_ONE),
        pytest.param(2000, Adjacency.ZERO_OUT, marks=pytest.mark.slow),
        pytest.param(1000, Adjacency.REPLACE_ONE, marks=pytest.mark.slow),
    ],
)
def test_rounding_over_the_longest_horizons_keeps_to_the_budget(horizon: int, adjacency: Adjacency) -> None:
    mechanism = CumulativeMechanism.calibrated(horizon=horizon, adjacency=adjacency, rho=1.0)
    assert 1 - 1e-12 <= PrivacyAccountant("r", Rho(1.0), mechanism, Period(horizon)).spent <= 1


def test_the_step_that_would_pass_the_budget_is_refused_before_it_is_taken() -> None:
    mechanism = WindowPaperMechanism.calibrated(q=2, k=3, horizon=12, adjacency=Adjacency.ZERO_OUT, rho=0.01)
    accountant = PrivacyAccountant("quarterly", Rho(0.01), replace(mechanism, adjacency=Adjacency.REPLACE_ONE))
    with pytest.raises(BudgetExceeded) as refused:
        for _ in range(12):
            accountant = accountant.next()
    assert accountant.spent <= 0.01 < refused.value.spent
    assert refused.value.period == accountant.period + 1 > 3
    assert (refused.value.release, refused.value.rho) == ("quarterly", 0.01)
    assert isinstance(refused.value, Refused)
    assert refused.value.exit_code == 3
    assert "\n" not in str(refused.value)
    assert all(part in str(refused.value) for part in ("quarterly", f"period {accountant.period + 1}", "0.01"))


@given(adjacencies, st.floats(1e-6, 10))
@settings(max_examples=20)
def test_noise_for_a_larger_budget_does_not_reach_the_horizon(adjacency: Adjacency, rho: float) -> None:
    more = rho * (1 + 1e-9)
    mechanisms: list[Mechanism] = [
        *(measured.calibrated(q=3, k=2, horizon=6, adjacency=adjacency, rho=more) for measured in WINDOWS),
        flow_mechanism(event_counter(6), 6, adjacency, more),
        CumulativeMechanism.calibrated(horizon=6, adjacency=adjacency, rho=more),
    ]
    for mechanism in mechanisms:
        with pytest.raises(BudgetExceeded):
            driven(mechanism, rho, 6)


def test_an_accepted_redraw_is_added_to_the_spending_and_does_not_stop_the_study() -> None:
    """Every step of the paper's window costs the same, so a redrawn one is added to the cost of the others."""
    mechanism = WindowPaperMechanism.calibrated(q=2, k=2, horizon=5, adjacency=Adjacency.REPLACE_ONE, rho=0.1)
    step = mechanism.cost(Period(2))
    accountant = PrivacyAccountant("r", Rho(0.1), mechanism)
    for _ in range(3):
        accountant = accountant.next()
    before, accountant = accountant.spent, replace(accountant, redrawn=(Period(3),))
    assert accountant.spent == float_up(mechanism.cost(Period(3)) + step) > before
    again = replace(accountant, redrawn=(Period(3), Period(3), Period(4))).next().next()
    assert again.spent == float_up(mechanism.cost(Period(5)) + 3 * step) > 0.1


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_a_redraw_of_any_mechanism_costs_more_from_its_period_on(adjacency: Adjacency) -> None:
    mechanisms: list[Mechanism] = [
        *(measured.calibrated(q=2, k=2, horizon=5, adjacency=adjacency, rho=0.1) for measured in WINDOWS),
        *(flow_mechanism(automaton, 5, adjacency, 0.1) for automaton in (event_counter(5), spell_counter(2))),
        CumulativeMechanism.calibrated(horizon=5, adjacency=adjacency, rho=0.1),
    ]
    for mechanism in mechanisms:
        accountant = PrivacyAccountant("r", Rho(0.1), mechanism)
        for period in range(1, 6):
            accountant = accountant.next()
            again = replace(accountant, redrawn=(Period(3),))
            assert (again.spent > accountant.spent) == (period >= 3)
            assert replace(accountant, redrawn=(Period(3), Period(3))).spent >= again.spent


def test_a_redraw_does_not_excuse_a_mechanism_that_was_too_dear_from_the_start() -> None:
    mechanism = WindowPaperMechanism.calibrated(q=2, k=1, horizon=3, adjacency=Adjacency.ZERO_OUT, rho=0.2)
    accountant = PrivacyAccountant("r", Rho(0.1), mechanism, Period(1), (Period(1),))
    with pytest.raises(BudgetExceeded) as refused:
        accountant.next()
    assert refused.value.spent == float_up(mechanism.cost(Period(2)))


def test_a_horizon_is_not_passed() -> None:
    mechanism = WindowPaperMechanism(2, 1, 2, Adjacency.REPLACE_ONE, 2.0)
    accountant = PrivacyAccountant("r", Rho(100.0), mechanism, Period(2))
    with pytest.raises(ValueError, match=r"outside 0\.\.2"):
        accountant.next()


def test_an_odometer_stays_where_it_is_when_the_next_one_is_made() -> None:
    mechanism = WindowPaperMechanism(2, 1, 2, Adjacency.REPLACE_ONE, 2.0)
    accountant = PrivacyAccountant("r", Rho(100.0), mechanism)
    assert accountant.next().period == 1
    assert (accountant.period, accountant.spent) == (0, 0.0)


@given(st.floats(1e-9, 1000), st.lists(st.integers(1, 1000), min_size=1, max_size=8))
def test_the_budgets_of_releases_never_add_up_to_more_than_the_studys(rho: float, parts: list[int]) -> None:
    shares = [Fraction(part, sum(parts)) for part in parts]
    budgets = split_budget(rho, shares)
    assert sum(map(Fraction, budgets)) <= Fraction(rho)
    for budget, share in zip(budgets, shares, strict=True):
        assert budget == pytest.approx(float(rho * share), rel=1e-15)
        assert Fraction(budget) <= Fraction(rho) * share


def test_a_single_release_gets_the_whole_budget() -> None:
    assert split_budget(0.1, [Fraction(1)]) == [0.1]


@pytest.mark.parametrize(
    "shares", [[Fraction(0)], [Fraction(-1, 2), Fraction(1)], [Fraction(2, 3), Fraction(1, 3), Fraction(1, 10**9)]]
)
def test_shares_that_are_not_a_division_of_the_budget_are_refused(shares: list[Fraction]) -> None:
    with pytest.raises(ValueError, match="at most 1"):
        split_budget(0.1, shares)


@given(st.lists(st.floats(0, 1000), max_size=6))
def test_what_releases_spent_together_is_rounded_up(costs: list[float]) -> None:
    exact = sum(map(Fraction, costs), Fraction(0))
    assert total_spent(costs) == float_up(exact)
    assert Fraction(total_spent(costs)) >= exact
