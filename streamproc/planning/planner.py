"""Plan a study: everything that follows from its public contract and the number of people, before any data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from streamproc.panel import AtLeast, LastSymbols, count_of, exactly, in_a_row
from streamproc.panel.accuracy import quantile, ratchet_halfwidth, window_stderr
from streamproc.panel.column_packing import bits_for
from streamproc.planning.alternatives import alternatives
from streamproc.planning.plan import LEVEL, ExpectedError, Memory, QueryPlan, ReleasePlan, Spent, StudyPlan
from streamproc.planning.warnings import notes, warnings
from streamproc.privacy.accountant import PrivacyAccountant, total_spent
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.directed_rounding import float_up
from streamproc.privacy.types import FloatArray, Period, Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.releases.contract import Contract, CumulativeContract, WindowContract, stated_contracts
from streamproc.releases.replace_one import ReplaceOneCosts, every_prefix_is_quick, replace_one_costs
from streamproc.releases.row_assignment import narrowest_dtype
from streamproc.study import Release, Study, bin_label


def plan_study(study: Study, n: int, *, compare_long: bool = False) -> StudyPlan:
    """The plan of `study` over `n` people; refuses (StudyError) one whose synthetic panel would be too large.

    Counters are compared over long horizons only with `compare_long`: each takes seconds at T = 1000.
    """
    delta = study.privacy.delta
    made = stated_contracts(study, n, insecure=False)
    costs = replace_one_costs(study)
    releases = tuple(_release(release, made[release.name], delta, costs, compare_long) for release in study.releases)
    return StudyPlan(
        study=study,
        n=n,
        budget=study.privacy.budget,
        releases=releases,
        spending=total_spending([plan.spending for plan in releases], delta),
        replace_one=() if costs is None else total_spending([plan.replace_one for plan in releases], delta),
        other=total_spending([[plan.other] for plan in releases], delta)[-1],
        warnings=tuple(warnings(study, releases)),
        notes=tuple(notes(study, n, compared=all(plan.alternatives for plan in releases))),
    )


def _release(
    release: Release, contract: Contract, delta: float, costs: ReplaceOneCosts | None, compare_long: bool
) -> ReleasePlan:
    spent = spending(contract, delta)
    replace_one = () if costs is None else replace_one_spending(release.name, costs, spent)
    return ReleasePlan(
        release=release,
        contract=contract,
        epsilon=epsilon_of_rho(contract.rho, delta),
        noise_people=_noise(contract),
        queries=query_plans(contract),
        spending=spent,
        replace_one=replace_one,
        other=replace_one[-1] if replace_one else zero_out_cost(contract, delta),
        memory=_memory(contract),
        alternatives=alternatives(release, contract, long_too=compare_long),
    )


def _noise(contract: Contract) -> float:
    if isinstance(contract, WindowContract):
        return float(contract.mechanism.bin_variance**0.5)
    return float(max(contract.mechanism.largest_variances) ** 0.5)


def _memory(contract: Contract) -> Memory:
    rows = contract.expected_rows if isinstance(contract, WindowContract) else contract.n
    code = narrowest_dtype(contract.mechanism.bins) if isinstance(contract, WindowContract) else np.uint16
    bits = bits_for(len(contract.alphabet))
    return Memory(rows, np.dtype(code).itemsize, -(-rows * bits // 8))


def query_plans(contract: Contract) -> tuple[QueryPlan, ...]:
    """Typical questions to this release, with their errors by period."""
    return tuple(_window_plans(contract) if isinstance(contract, WindowContract) else _cumulative_plans(contract))


def _window_plans(contract: WindowContract) -> Iterator[QueryPlan]:
    k, horizon = contract.mechanism.k, contract.mechanism.horizon
    seen: list[bytes] = []
    for name, label, query in _window_questions(contract):
        weights = query.weights(contract, k)
        # For a small k several of the questions are one.
        if weights.tobytes() in seen:
            continue
        seen.append(weights.tobytes())
        early = [_error(contract, query.weights(contract, t), Period(t)) for t in range(query.width, k)]
        rest = [_error(contract, weights, Period(t)) for t in range(k, min(2 * k, horizon) + 1)]
        # A rounding error is summed away after k steps, so from period 2k on nothing changes.
        steady = [_at(Period(t), rest[-1].stderr_people, contract.n) for t in range(2 * k + 1, horizon + 1)]
        yield QueryPlan(name, label, (*early, *rest, *steady))


def _window_questions(contract: WindowContract) -> Iterator[tuple[str, str, LastSymbols]]:
    """Name, label and question. By symmetry every bin, and every symbol, has the error of the one asked about."""
    k, alphabet = contract.mechanism.k, contract.alphabet
    first, one = alphabet[0], alphabet[1]
    yield "bin", f"one bin, such as {bin_label([first] * k, alphabet)}", exactly(*[first] * k)
    yield f"last:{one}", f"last symbol is {one!r}" if len(alphabet) == 2 else f"last symbol, such as {one!r}", exactly(one)
    if len(alphabet) == 2 and k >= 2:
        yield from (
            (query.name, f"{one!r} {how} the last {k}", query)
            for how, query in (
                ("in all of", count_of([one], at_least=k, of=k)),
                ("at least once in", count_of([one], at_least=1, of=k)),
                ("at least twice in", count_of([one], at_least=2, of=k)),
                ("twice in a row in", in_a_row([one], length=2, of=k)),
            )
        )


def _cumulative_plans(contract: CumulativeContract) -> Iterator[QueryPlan]:
    mechanism, horizon = contract.mechanism, contract.mechanism.horizon
    event = " or ".join(map(repr, contract.event)) if len(contract.event) <= 3 else "the event"
    for b in sorted({b for b in (1, 2, 3, horizon) if b <= horizon}):
        errors = [_at(Period(t), mechanism.variance(b, Period(t)) ** 0.5, contract.n) for t in range(b, horizon + 1)]
        columns_only = ratchet_halfwidth(mechanism, b, Period(horizon), LEVEL)
        times = {1: "once", 2: "twice"}.get(b, f"{b} times")
        yield QueryPlan(AtLeast(b).name, f"{event} at least {times}", tuple(errors), columns_only)


def _error(contract: WindowContract, weights: FloatArray, period: Period) -> ExpectedError:
    return _at(period, window_stderr(contract.mechanism, weights, period), contract.n)


def _at(period: Period, stderr: float, n: int) -> ExpectedError:
    return ExpectedError(period, stderr, quantile(LEVEL) * stderr, n)


QUARTERS_UP_TO = 200
"""Horizon up to which a counter whose prefixes are not quick is asked for its cost after every quarter of the study; beyond,
only after the last period."""


def spending(contract: Contract, delta: float) -> tuple[Spent, ...]:
    """The release's running total after each period at which it is quick to compute, and after the last."""
    horizon = contract.mechanism.horizon
    return tuple(
        Spent(period, PrivacyAccountant(contract.name, contract.rho, contract.mechanism, period).spent, delta)
        for period in map(Period, _periods(contract, horizon))
    )


def _periods(contract: Contract, horizon: int) -> Sequence[int]:
    if every_prefix_is_quick(contract.mechanism):
        return range(1, horizon + 1)
    if horizon <= QUARTERS_UP_TO:
        return quarters(horizon)
    return [horizon]


def quarters(horizon: int) -> list[int]:
    """The first period and the last of each quarter of the study."""
    return sorted({1, *(-(-horizon * quarter // 4) for quarter in (1, 2, 3, 4))})


def total_spending(releases: Sequence[Sequence[Spent]], delta: float) -> tuple[Spent, ...]:
    """By composition: the sum over releases, at the periods all of them know."""
    by_period = [{spent.period: spent.rho for spent in release} for release in releases]
    known = sorted(set.intersection(*(set(release) for release in by_period)))
    return tuple(Spent(period, total_spent([release[period] for release in by_period]), delta) for period in known)


def replace_one_spending(name: str, costs: ReplaceOneCosts, spent: Sequence[Spent]) -> tuple[Spent, ...]:
    """What the same noise has cost under replace-one at the same periods, for a release of a zero-out study."""
    return tuple(replace(each, rho=costs.of_release(name, each.period)) for each in spent)


def zero_out_cost(contract: Contract, delta: float) -> Spent:
    """What the noise of a release of a replace-one study costs, after the last period, under zero-out."""
    last = Period(contract.mechanism.horizon)
    other = replace(contract.mechanism, adjacency=Adjacency.ZERO_OUT)
    return Spent(last, Rho(float_up(other.cost(last))), delta)
