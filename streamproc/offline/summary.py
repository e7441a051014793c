"""The content of `summary.json`: what a study released and what it cost. Everything in it is public."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from streamproc.offline.replay import ReplayResult
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.releases.kind import Contract
from streamproc.releases.replace_one import ReplaceOneCosts, replace_one_costs
from streamproc.releases.step import Step
from streamproc.study import Study


class PeriodSummary(TypedDict):
    """One period at which a release released something."""

    period: int
    rho_spent: float
    """Running total of the release."""
    rho_spent_replace_one: NotRequired[float]
    """The cost of the same noise under replace-one. This key and those below exist only if `adjacency` is zero-out."""
    clamped: int
    """Number of counts of this period that were changed to a possible value."""
    bins: dict[str, int]
    """Released counts, padding included: by window, or by the minimum number of events. Those of an open study end with the
    people who are present (`#present`), who entered (`#entered`) and who left (`#left`)."""


class ReleaseSummary(TypedDict):
    """One release."""

    kind: str
    rho: float
    rho_replace_one: NotRequired[float]
    rho_spent: float
    rho_spent_replace_one: NotRequired[float]
    n_star: int
    """Number of synthetic people; in an open study of all who ever entered."""
    n_pad: int
    """Synthetic people added to each bin as padding."""
    variance: float | list[float]
    """Noise variance of a bin's count, in people squared, without rounding; or the largest of each weight."""
    clamped: int
    """Number of clamped counts over all periods."""
    periods: list[PeriodSummary]


class Summary(TypedDict):
    """A finished study."""

    study: str
    n: int | None
    """Number of real people; null for an open study, in which it is not public."""
    rho: float
    """The study's budget, in zCDP under `adjacency`."""
    rho_replace_one: NotRequired[float]
    """What the noise of all periods costs under replace-one."""
    rho_spent: float
    rho_spent_replace_one: NotRequired[float]
    adjacency: str
    epsilon: float
    """The epsilon of `rho` at `delta`, under the same adjacency."""
    epsilon_replace_one: NotRequired[float]
    delta: float
    insecure: bool
    """True if the noise came from a seed: such a release protects nobody."""
    releases: dict[str, ReleaseSummary]


def summary_of(replayed: ReplayResult) -> Summary:
    """What `replay` says about a finished study. Numbers are as computed, not rounded."""
    privacy = replayed.study.privacy
    contracts = replayed.synthesis.contracts
    any_contract = next(iter(contracts.values()))
    summary: Summary = {
        "study": replayed.study.name,
        "n": None if any_contract.is_open else any_contract.n,
        "rho": privacy.budget,
        "rho_spent": replayed.synthesis.spent,
        "adjacency": privacy.adjacency.value,
        "epsilon": epsilon_of_rho(privacy.budget, privacy.delta),
        "delta": privacy.delta,
        "insecure": any_contract.insecure,
        "releases": {name: _release(contract, replayed) for name, contract in contracts.items()},
    }
    costs = replace_one_costs(replayed.study)
    if costs is not None:
        _add_replace_one(summary, costs, replayed.study)
    return summary


def _add_replace_one(summary: Summary, costs: ReplaceOneCosts, study: Study) -> None:
    rho = costs.of_study(study.last_period)
    summary["rho_replace_one"] = summary["rho_spent_replace_one"] = rho
    summary["epsilon_replace_one"] = epsilon_of_rho(rho, study.privacy.delta)
    for name, release in summary["releases"].items():
        release["rho_replace_one"] = release["rho_spent_replace_one"] = costs.of_release(name, study.last_period)
        for period in release["periods"]:
            if period["period"] == study.last_period or costs.every_period_is_quick:
                period["rho_spent_replace_one"] = costs.of_release(name, period["period"])


def _release(contract: Contract, replayed: ReplayResult) -> ReleaseSummary:
    steps = [period[contract.name] for period in replayed.steps]
    spent = replayed.spent[contract.name]
    released = [(step, rho_spent) for step, rho_spent in zip(steps, spent, strict=True) if step.columns]
    return {
        "kind": contract.kind,
        "rho": contract.rho,
        "rho_spent": spent[-1],
        "n_star": replayed.panels[contract.name].rows,
        "n_pad": contract.n_pad,
        "variance": contract.variances,
        "clamped": sum(step.clamped for step in steps),
        "periods": [_period(contract, step, rho_spent) for step, rho_spent in released],
    }


def _period(contract: Contract, step: Step, rho_spent: float) -> PeriodSummary:
    bins = dict(zip(contract.labels(step.period), step.counts.tolist(), strict=True))
    return {"period": step.period, "rho_spent": rho_spent, "clamped": step.clamped, "bins": bins}
