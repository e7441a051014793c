"""Plan a study: everything that follows from its public contract and the number of people, before any data."""

from __future__ import annotations

import numpy as np

from streamproc.panel.packing import bits_for
from streamproc.planning.alternatives import alternatives
from streamproc.planning.queries import query_plans
from streamproc.planning.remarks import notes, warnings
from streamproc.planning.spending import replace_one_spending, spending, total_spending, zero_out_cost
from streamproc.planning.values import Memory, ReleasePlan, StudyPlan
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.study import Release, Study
from streamproc.synth.contract import Contract, WindowContract, stated_contracts
from streamproc.synth.replace_one import ReplaceOneCosts, replace_one_costs
from streamproc.synth.rows import narrowest


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
    code = narrowest(contract.mechanism.bins) if isinstance(contract, WindowContract) else np.uint16
    bits = bits_for(len(contract.alphabet))
    return Memory(rows, np.dtype(code).itemsize, -(-rows * bits // 8))
