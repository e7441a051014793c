"""Plans of studies: what a study will cost, how accurate it will be, and which alternatives there are. No data is read."""

from streamproc.planning.plan import (
    ExpectedError,
    Memory,
    PlanMessage,
    QueryPlan,
    ReleasePlan,
    Spent,
    StudyPlan,
    plan_to_dict,
)
from streamproc.planning.planner import plan_study, quarters
from streamproc.planning.warnings import ASSUMED_PEOPLE

__all__ = [
    "ASSUMED_PEOPLE",
    "ExpectedError",
    "Memory",
    "PlanMessage",
    "QueryPlan",
    "ReleasePlan",
    "Spent",
    "StudyPlan",
    "plan_study",
    "plan_to_dict",
    "quarters",
]
