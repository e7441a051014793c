"""The values of a plan. Errors are of debiased, unclamped answers; `people` and `points` (percent of `n`) are units.

In an open study `n` is the number of people who are present, and may be unknown: then there are no errors in points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from streamproc.panel.frames import import_extra
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Epsilon, Period, Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.releases.kind import AlternativeWay, Contract, ReleasePlanner
from streamproc.releases.query import LEVEL, quantile
from streamproc.study import Release, Study

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ExpectedError:
    """How far the answer to one question at one period may be from the truth."""

    period: Period
    stderr_people: float
    half_people: float
    """Half the width of a 95% interval."""
    n: int | None
    """The people of whom a share is asked; None if a number of people is asked for, or if `n` is unknown."""
    complement_people: float = 0.0
    """In an open study, the standard error of the number of people of whom the opposite holds.

    The error of a share `p` of `n` people is to first order `sd(x - p y) / n`, for counts `x` of `y`. It is largest where
    `p` is 0 or 1, so it is at most the larger of this one and `stderr_people`, over `n`."""

    @property
    def stderr_points(self) -> float | None:
        """The standard error of a share in percentage points of `n` people; in an open study, the largest over shares."""
        return None if self.n is None else 100 * max(self.stderr_people, self.complement_people) / self.n

    @property
    def half_points(self) -> float | None:
        """The half-width of a 95% interval in percentage points of `n` people."""
        points = self.stderr_points
        return None if points is None else points * quantile(LEVEL)


@dataclass(frozen=True)
class QueryPlan:
    """A typical question and its error at every period at which it can be asked."""

    name: str
    """Name for programs."""
    label: str
    """Name for people."""
    errors: tuple[ExpectedError, ...]
    """The errors by period, at least one. In an open study the last one stands for all later periods."""
    half_people_columns_only: float | None = None
    """Half-width at the last period for a reader who has the columns of a cumulative release but not the ledger."""

    @property
    def worst(self) -> ExpectedError:
        """The first period at which the error is largest."""
        return max(self.errors, key=lambda error: error.stderr_people)

    @property
    def last(self) -> ExpectedError:
        """The error at the end of the study; of an open study, in the long run."""
        return self.errors[-1]


@dataclass(frozen=True)
class Spent:
    """A running total of spending after `period`, under the plan's adjacency unless another is named."""

    period: Period
    rho: Rho
    delta: float

    @property
    def epsilon(self) -> Epsilon:
        """The epsilon of `rho` at the study's `delta`."""
        return epsilon_of_rho(self.rho, self.delta)


@dataclass(frozen=True)
class Memory:
    """The memory and the columns of one release, in bytes."""

    rows: int | None
    """Number of synthetic people; of windows under `paper`, its expectation; in an open study, of those who are present, or
    None if it is unknown."""
    row_bytes: int
    """Bytes that the synthesizer keeps for each synthetic person."""
    bits: int
    """Bits of each entry of a published column."""

    @property
    def column_bytes(self) -> int | None:
        """Bytes of a published column: one entry per row, packed."""
        return None if self.rows is None else -(-self.rows * self.bits // 8)

    @property
    def kept_bytes(self) -> int | None:
        """Bytes that the synthesizer keeps for all synthetic people."""
        return None if self.rows is None else self.rows * self.row_bytes


@dataclass(frozen=True)
class PlanMessage:
    """Something the steward should know before starting."""

    code: str
    """Identifies the message, for programs."""
    release: str | None
    """The release that the message is about; None if it is about the whole study."""
    message: str


@dataclass(frozen=True)
class ReleasePlan:
    """One release of a study."""

    release: Release
    contract: Contract
    planner: ReleasePlanner
    epsilon: Epsilon
    """Epsilon of this release's share of the budget alone, at the study's delta."""
    noise_people: float
    """Standard deviation of the noise in a bin's count, or the largest in an unclamped estimate of a cumulative count."""
    queries: tuple[QueryPlan, ...]
    spending: tuple[Spent, ...]
    """Spending by period: after every period if that is quick to compute, and always after the last. In an open study, what
    one person's participation can cost: after the last of these periods it grows no more."""
    replace_one: tuple[Spent, ...]
    """What the same noise has cost under replace-one, at the periods of `spending`; empty unless the study is zero-out."""
    other: Spent
    """What the same noise costs under the other adjacency."""
    memory: Memory
    alternatives: tuple[AlternativeWay, ...]
    """The ways to measure the release at the same budget that were compared."""

    @property
    def share(self) -> Fraction:
        """Share of the study's budget."""
        return self.release.share


@dataclass(frozen=True)
class StudyPlan:
    """What a whole study will cost, and how accurate it will be.

    >>> sp.plan(study, n=1000).total.rho <= study.privacy.budget
    True
    """

    study: Study
    n: int | None
    """Number of people; in an open study of those who are present, or None if it is unknown."""
    budget: Rho
    """What the study may spend."""
    releases: tuple[ReleasePlan, ...]
    spending: tuple[Spent, ...]
    """Spending of all releases together, after the periods for which that of each release is known; always the last."""
    replace_one: tuple[Spent, ...]
    """What the same noise has cost under replace-one, at the periods of `spending`; empty unless the study is zero-out."""
    other: Spent
    """What the same noise costs under the other adjacency, all releases together."""
    warnings: tuple[PlanMessage, ...]
    notes: tuple[PlanMessage, ...]

    def __repr__(self) -> str:
        cost = f"rho {self.total.rho:.6g}, epsilon {self.total.epsilon:.4g} at delta {self.study.privacy.delta:g}"
        return f"StudyPlan(study={self.study.name!r}, n={self.n}, horizon={self.study.horizon}, cost={cost!r})"

    def to_dict(self) -> dict[str, Any]:
        """The values that `plan --json` prints."""
        return plan_to_dict(self)

    def to_frame(self) -> pd.DataFrame:
        """The expected error of each typical query in each period, as a pandas frame: a row for each release, query, period.

        Raises InvalidInput without the extra `frames`.
        """
        rows = [
            {"release": release.release.name, "query": query.name, "label": query.label} | _error(error)
            for release in self.releases
            for query in release.queries
            for error in query.errors
        ]
        frame: pd.DataFrame = import_extra("pandas").DataFrame(rows)
        return frame

    @property
    def adjacency(self) -> Adjacency:
        """The relation under which every cost except `other` and `replace_one` is stated."""
        return self.study.privacy.adjacency

    @property
    def other_adjacency(self) -> Adjacency:
        """The relation of `other`."""
        return other_adjacency(self.study)

    @property
    def total(self) -> Spent:
        """What the study will have spent after its last period; of an open study, after any number of periods."""
        return self.spending[-1]


def other_adjacency(study: Study) -> Adjacency:
    """The relation, beside the study's own, under which a plan states what the same noise costs."""
    other = Adjacency.ADD_REMOVE if study.is_open else Adjacency.ZERO_OUT
    return other if study.privacy.adjacency is Adjacency.REPLACE_ONE else Adjacency.REPLACE_ONE


def plan_to_dict(plan: StudyPlan) -> dict[str, Any]:
    """Everything in a plan. Costs are under `adjacency`, except those in `other_adjacency` and those named `*_replace_one`.

    The latter exist only if `adjacency` is zero-out.
    """
    study = plan.study
    return {
        "study": study.name,
        "alphabet": list(study.alphabet),
        "horizon": study.horizon,
        **({"tenure": study.population.tenure} if study.is_open else {}),
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
        **release.planner.settings(),
        "share": float(release.share),
        "rho": release.contract.rho,
        "epsilon": release.epsilon,
        **_replace_one(release.replace_one),
        "other_adjacency": _other(plan, release.other),
        "noise_people": release.noise_people,
        "periods": _periods(release.spending, release.replace_one),
        "queries": {query.name: _query(query) for query in release.queries},
        "memory": _memory(release.memory),
        "alternatives": [asdict(cast(Any, alternative)) for alternative in release.alternatives],
    }


def _memory(memory: Memory) -> dict[str, Any]:
    sizes = {"rows": memory.rows, "row_bytes": memory.row_bytes}
    return sizes | {"column_bytes": memory.column_bytes, "kept_bytes": memory.kept_bytes}


def _other(plan: StudyPlan, other: Spent) -> dict[str, Any]:
    return {"adjacency": plan.other_adjacency.value, "rho": other.rho, "epsilon": other.epsilon}


def _replace_one(spending: Sequence[Spent]) -> dict[str, Any]:
    """What the noise of all periods costs under replace-one; empty for a study that declares replace-one."""
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
