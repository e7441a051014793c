"""Before any data: what a study will cost, how accurate it will be, and what else it could have been. Pure."""

from streamproc.planning.document import plan_to_dict
from streamproc.planning.remarks import ASSUMED_PEOPLE
from streamproc.planning.spending import quarters
from streamproc.planning.study import plan_study
from streamproc.planning.values import (
    Alternative,
    CounterAlternative,
    ExpectedError,
    MeasureAlternative,
    Memory,
    QueryPlan,
    ReleasePlan,
    Remark,
    Spent,
    StudyPlan,
)

__all__ = [
    "ASSUMED_PEOPLE",
    "Alternative",
    "CounterAlternative",
    "ExpectedError",
    "MeasureAlternative",
    "Memory",
    "QueryPlan",
    "ReleasePlan",
    "Remark",
    "Spent",
    "StudyPlan",
    "plan_study",
    "plan_to_dict",
    "quarters",
]
