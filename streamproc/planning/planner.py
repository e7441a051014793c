"""Plans a study: everything that follows from its public contract and the number of people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from streamproc.panel.column_packing import bits_for
from streamproc.planning.plan import ExpectedError, Memory, QueryPlan, ReleasePlan, Spent, StudyPlan, other_adjacency
from streamproc.planning.warnings import notes, warnings
from streamproc.privacy.accountant import PrivacyAccountant, total_spent
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.directed_rounding import float_up
from streamproc.privacy.types import Period, Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.releases.contracts import make_planner, stated_contracts
from streamproc.releases.kind import Contract
from streamproc.releases.query import LEVEL, Query, ask, quantile
from streamproc.releases.replace_one import ReplaceOneCosts, replace_one_costs, under
from streamproc.releases.step import NamedQuery
from streamproc.study import Release, Study


def plan_study(study: Study, n: int | None, *, compare_long: bool = False, compare_tuned: bool = False) -> StudyPlan:
    """The plan of `study` over `n` people. Raises StudyError if its synthetic panel would be too large.

    Only an open study needs no `n`, which is the number of people present then.

    The paper's mechanism is compared over long horizons only with `compare_long`, because its cost takes seconds at
    T = 1000; weights that the study does not use are tuned for comparison only with `compare_tuned`.
    """
    delta = study.privacy.delta
    assert n is not None or study.is_open
    made = stated_contracts(study, n or 0, insecure=False)
    costs = replace_one_costs(study)
    ways = {"long_too": compare_long, "tuned": compare_tuned}
    releases = tuple(_release(study, n, release, made[release.name], costs, ways) for release in study.releases)
    return StudyPlan(
        study=study,
        n=n,
        budget=study.privacy.budget,
        releases=releases,
        spending=total_spending([plan.spending for plan in releases], delta),
        replace_one=() if costs is None else total_spending([plan.replace_one for plan in releases], delta),
        other=total_spending([[plan.other] for plan in releases], delta)[-1],
        warnings=tuple(warnings(study, releases)),
        notes=tuple(notes(study, n, compared=study.is_open or all(map(_is_compared, releases)))),
    )


def _is_compared(plan: ReleasePlan) -> bool:
    """Whether the paper's mechanism is used or among the compared ways, if it can measure the release at all."""
    measures = {plan.contract.measure, *(way.measure for way in plan.alternatives)}
    return plan.release.kind != "cumulative" or "paper" in measures


def _release(
    study: Study,
    n: int | None,
    release: Release,
    contract: Contract,
    costs: ReplaceOneCosts | None,
    ways: Mapping[str, bool],
) -> ReleasePlan:
    delta = study.privacy.delta
    planner, spent = make_planner(contract, release), spending(contract, delta)
    replace_one = () if costs is None else replace_one_spending(release.name, costs, spent)
    return ReleasePlan(
        release=release,
        contract=contract,
        planner=planner,
        epsilon=epsilon_of_rho(contract.rho, delta),
        noise_people=contract.noise_people,
        queries=tuple(_query_plans(contract, [*declared_queries(study, release), *planner.typical_queries()], n)),
        spending=spent,
        replace_one=replace_one,
        other=replace_one[-1] if replace_one else other_cost(contract, other_adjacency(study), delta),
        memory=_memory(contract, n),
        alternatives=tuple(planner.alternatives(**ways)),
    )


def _memory(contract: Contract, n: int | None) -> Memory:
    rows = n if contract.is_open else contract.expected_rows
    return Memory(rows, contract.row_bytes, bits_for(contract.column_codes))


def declared_queries(study: Study, release: Release) -> list[NamedQuery]:
    """The questions that the study declares for a release."""
    asked = [question.ask for question in study.questions if question.release == release.name]
    return [NamedQuery(text, text, ask(text)) for text in asked]


def _query_plans(contract: Contract, asked: Sequence[NamedQuery], n: int | None) -> Iterator[QueryPlan]:
    """Queries to this release, with their errors by period."""
    last = Period(contract.horizon)
    seen: list[bytes] = []
    for name, label, query in asked:
        weights = contract.query_weights(query, last)
        # Some of the queries may be equivalent, in a small release or if one of them is declared.
        if weights.tobytes() in seen:
            continue
        seen.append(weights.tobytes())
        # The errors of an open study are the same in every later period.
        until = contract.steady_period(last) if contract.is_open else last
        errors = [_error(contract, query, Period(t), n) for t in range(contract.first_period(query), until + 1)]
        yield QueryPlan(name, label, tuple(errors), contract.columns_only_halfwidth(weights, last, LEVEL))


def _error(contract: Contract, query: Query, period: Period, n: int | None) -> ExpectedError:
    stderr, complement = _stderrs(contract, query, contract.steady_period(period))
    return ExpectedError(period, stderr, quantile(LEVEL) * stderr, None if query.asks_number else n, complement)


@lru_cache(maxsize=4096)
def _stderrs(contract: Contract, query: Query, period: Period) -> tuple[float, float]:
    """The standard errors of the people of whom it is true, and in an open study of those of whom it is not."""
    weights = contract.query_weights(query, period)
    among = None if query.asks_number else contract.denominator_weights(query, period)
    complement = 0.0 if among is None else contract.stderr(among - weights, period)
    return contract.stderr(weights, period), complement


QUARTERS_UP_TO = 200
"""Horizon up to which a plan states the cost after every quarter of the study for a counter whose prefix costs are slow to
compute. Beyond it, the plan states only the cost after the last period."""


def spending(contract: Contract, delta: float) -> tuple[Spent, ...]:
    """The release's running total after each period at which it is quick to compute, and after the last.

    The last period of an open study is that after which one person's participation cannot cost more.
    """
    horizon = min(contract.mechanism.horizon, contract.horizon)
    return tuple(
        Spent(period, PrivacyAccountant(contract.name, contract.rho, contract.mechanism, period).spent, delta)
        for period in map(Period, _periods(contract, horizon))
    )


def _periods(contract: Contract, horizon: int) -> Sequence[int]:
    if contract.mechanism.prefix_costs_are_quick:
        return range(1, horizon + 1)
    if horizon <= QUARTERS_UP_TO:
        return quarters(horizon)
    return [horizon]


def quarters(horizon: int) -> list[int]:
    """The first period and the last of each quarter of the study."""
    return sorted({1, *(-(-horizon * quarter // 4) for quarter in (1, 2, 3, 4))})


def total_spending(releases: Sequence[Sequence[Spent]], delta: float) -> tuple[Spent, ...]:
    """By composition, the sum over releases, at the periods that all of them have."""
    by_period = [{spent.period: spent.rho for spent in release} for release in releases]
    known = sorted(set.intersection(*(set(release) for release in by_period)))
    return tuple(Spent(period, total_spent([release[period] for release in by_period]), delta) for period in known)


def replace_one_spending(name: str, costs: ReplaceOneCosts, spent: Sequence[Spent]) -> tuple[Spent, ...]:
    """What the same noise has cost under replace-one at the same periods, for a release of a zero-out study."""
    return tuple(replace(each, rho=costs.of_release(name, each.period)) for each in spent)


def other_cost(contract: Contract, adjacency: Adjacency, delta: float) -> Spent:
    """What the noise of a release costs, after the last period, under another adjacency than the study's own."""
    last = Period(min(contract.mechanism.horizon, contract.horizon))
    other = under(contract.mechanism, adjacency)
    return Spent(last, Rho(float_up(other.cost(last))), delta)
