"""A study to plan, and the formulas of docs/privacy.md by arithmetic that shares no code with the plan's."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from streamproc.planning import QueryPlan, ReleasePlan, StudyPlan
from streamproc.privacy.adjacency import Adjacency
from streamproc.study import CumulativeRelease, WindowRelease
from tests.studies import build_study

N = 23_374
"""People."""

Matrix = npt.NDArray[np.float64]


poverty_study = partial(build_study, name="poverty", horizon=12, rho=0.005, roster="people.txt")


def quarterly(**changes: object) -> WindowRelease:
    return replace(WindowRelease("quarterly", k=3), **changes)  # type: ignore[arg-type]


def months(**changes: object) -> CumulativeRelease:
    return replace(CumulativeRelease("months", event=("1",), weights="rule"), **changes)  # type: ignore[arg-type]


def only(plan: StudyPlan) -> ReleasePlan:
    (release,) = plan.releases
    return release


def named(release: ReleasePlan, name: str) -> QueryPlan:
    (query,) = [query for query in release.queries if query.name == name]
    return query


def contrast_variance(q: int, k: int, horizon: int, adjacency: Adjacency, rho: float) -> float:
    """`v`, from the closed form in docs/privacy.md."""
    m, later = q**k, horizon - k
    if adjacency is Adjacency.ZERO_OUT:
        return float(((m - 1) / m + later * (q - 1) / q) / (2 * rho))
    same = math.ceil(later / k)
    return (1 + same + (later - same) * (q - 1) / q) / rho


def square_root_counter(horizon: int) -> tuple[Matrix, Matrix]:
    """The integer matrix `C` and `A C^-1`, by inverting it."""
    column = [round(4096 * math.comb(2 * j, j) / 4**j) for j in range(horizon)]
    matrix = np.array([[column[t - i] if t >= i else 0 for i in range(horizon)] for t in range(horizon)], dtype=float)
    return matrix, np.tril(np.ones((horizon, horizon))) @ np.linalg.inv(matrix)
