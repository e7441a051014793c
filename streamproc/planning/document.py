"""A plan as plain values, for `plan --json`. Names are stable; units are in them (people, points, bytes)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from streamproc.planning.values import ExpectedError, QueryPlan, ReleasePlan, Spent, StudyPlan
from streamproc.study import WindowRelease
from streamproc.synth.contract import WindowContract


def plan_to_dict(plan: StudyPlan) -> dict[str, Any]:
    """Everything in a plan. Costs are under `adjacency`, except those in `other_adjacency` and those named `*_replace_one`.

    The latter are there only where `adjacency` is zero-out.
    """
    study = plan.study
    return {
        "study": study.name,
        "alphabet": list(study.alphabet),
        "horizon": study.horizon,
        "n": plan.n,
        "adjacency": plan.adjacency.value,
        "budget": plan.budget,
        "rho": plan.total.rho,
        "epsilon": plan.total.epsilon,
        **_replace_one(plan.replace_one),
        "delta": study.privacy.delta,
        "other_adjacency": _other(plan, plan.other),
        "periods": _periods(plan.spending, plan.replace_one),
        "releases": {release.release.name: _release(plan, release) for release in plan.releases},
        "warnings": [asdict(remark) for remark in plan.warnings],
        "notes": [asdict(remark) for remark in plan.notes],
    }


def _release(plan: StudyPlan, release: ReleasePlan) -> dict[str, Any]:
    return {
        "kind": release.contract.kind,
        **_settings(release),
        "share": float(release.share),
        "rho": release.contract.rho,
        "epsilon": release.epsilon,
        **_replace_one(release.replace_one),
        "other_adjacency": _other(plan, release.other),
        "noise_people": release.noise_people,
        "periods": _periods(release.spending, release.replace_one),
        "queries": {query.name: _query(query) for query in release.queries},
        "memory": {**asdict(release.memory), "kept_bytes": release.memory.kept_bytes},
        "alternatives": [asdict(alternative) for alternative in release.alternatives],
    }


def _settings(release: ReleasePlan) -> dict[str, Any]:
    chosen, contract = release.release, release.contract
    if isinstance(chosen, WindowRelease):
        assert isinstance(contract, WindowContract)
        return {
            "k": chosen.k,
            "measure": chosen.measure,
            "beta": chosen.beta,
            "bins": contract.mechanism.bins,
            "n_pad": contract.n_pad,
            "n_star": contract.n_star,
            "n_star_expected": contract.expected_rows,
            "variance": contract.mechanism.bin_variance,
        }
    assert not isinstance(contract, WindowContract)
    return {
        "counter": chosen.counter,
        "allocation": chosen.allocation,
        "event": list(chosen.event),
        "n_pad": 0,
        "n_star": contract.n_star,
        "n_star_expected": contract.n_star,
        "variance": list(contract.mechanism.largest_variances),
    }


def _other(plan: StudyPlan, other: Spent) -> dict[str, Any]:
    return {"adjacency": plan.other_adjacency.value, "rho": other.rho, "epsilon": other.epsilon}


def _replace_one(spending: Sequence[Spent]) -> dict[str, Any]:
    """What the noise of all periods costs under replace-one; nothing for a study that declares replace-one."""
    return {"rho_replace_one": spending[-1].rho, "epsilon_replace_one": spending[-1].epsilon} if spending else {}


def _periods(spending: Sequence[Spent], replace_one: Sequence[Spent]) -> list[dict[str, Any]]:
    periods: list[dict[str, Any]] = [
        {"period": spent.period, "rho_spent": spent.rho, "epsilon_spent": spent.epsilon} for spent in spending
    ]
    for period, other in zip(periods, replace_one, strict=False):
        period |= {"rho_spent_replace_one": other.rho, "epsilon_spent_replace_one": other.epsilon}
    return periods


def _query(query: QueryPlan) -> dict[str, Any]:
    return {
        "label": query.label,
        "worst": _error(query.worst),
        "last": _error(query.last),
        "half_people_columns_only": query.half_people_columns_only,
        "periods": [_error(error) for error in query.errors],
    }


def _error(error: ExpectedError) -> dict[str, Any]:
    return {
        "period": error.period,
        "stderr_people": error.stderr_people,
        "half_people": error.half_people,
        "stderr_points": error.stderr_points,
        "half_points": error.half_points,
    }
