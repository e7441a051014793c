"""What a plan says. Errors are of debiased, unclamped answers; `people` and `points` (percent of `n`) name the unit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.counters import CounterName
from streamproc.privacy.cumulative import Allocation
from streamproc.privacy.quantities import Epsilon, Period, Rho
from streamproc.privacy.window import Measure
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.study import Release, Study
from streamproc.synth.contract import Contract

LEVEL = 0.95
"""Of every interval in a plan."""


@dataclass(frozen=True)
class ExpectedError:
    """How far the answer to one question at one period may be from the truth."""

    period: Period
    stderr_people: float
    half_people: float
    """Half the width of a 95% interval."""
    n: int

    @property
    def stderr_points(self) -> float:
        """In percentage points of the `n` real people."""
        return 100 * self.stderr_people / self.n

    @property
    def half_points(self) -> float:
        """In percentage points of the `n` real people."""
        return 100 * self.half_people / self.n


@dataclass(frozen=True)
class QueryPlan:
    """A typical question and its error at every period at which it can be asked."""

    name: str
    """For programs."""
    label: str
    """For people."""
    errors: tuple[ExpectedError, ...]
    """At least one, by period."""
    half_people_columns_only: float | None = None
    """At the last period, for who has the columns of a cumulative release and not the ledger."""

    @property
    def worst(self) -> ExpectedError:
        """The first period at which the error is largest."""
        return max(self.errors, key=lambda error: error.stderr_people)

    @property
    def last(self) -> ExpectedError:
        """The error at the end of the study."""
        return self.errors[-1]


@dataclass(frozen=True)
class Spent:
    """A running total of spending after `period`, under the plan's adjacency unless another is named."""

    period: Period
    rho: Rho
    delta: float

    @property
    def epsilon(self) -> Epsilon:
        """At `delta`, the study's."""
        return epsilon_of_rho(self.rho, self.delta)


@dataclass(frozen=True)
class Memory:
    """What one release keeps, in bytes."""

    rows: int
    """Synthetic people; under `histogram`, as many as expected."""
    row_bytes: int
    """Kept by the synthesizer for each synthetic person."""
    column_bytes: int
    """Published each period: one symbol a row, packed."""

    @property
    def kept_bytes(self) -> int:
        """Kept by the synthesizer for all of them."""
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class MeasureAlternative:
    """A window release measured in one way, at the same budget."""

    measure: Measure
    chosen: bool
    bin_stderr_people: float
    """From noise alone, the same at every period."""
    n_pad: int
    rows: int
    variance_ratio: float
    """Of a bin, to that of the chosen way."""


@dataclass(frozen=True)
class CounterAlternative:
    """A cumulative release with one counter and allocation, at the same budget."""

    counter: CounterName
    allocation: Allocation
    chosen: bool
    worst_stderr_people: float
    """The largest over all weights and periods, before clamping."""
    rms_stderr_people: float
    """Root of the mean variance over all weights and periods, before clamping."""
    rms_ratio: float
    """Of the latter, to that of the chosen way."""


Alternative: TypeAlias = MeasureAlternative | CounterAlternative


@dataclass(frozen=True)
class Remark:
    """Something the steward should know before starting."""

    code: str
    """For programs."""
    release: str | None
    """None: it concerns the whole study."""
    message: str


@dataclass(frozen=True)
class ReleasePlan:
    """One release of a study."""

    release: Release
    contract: Contract
    epsilon: Epsilon
    """Of this release's share of the budget alone, at the study's delta."""
    noise_people: float
    """Standard deviation of the noise in a bin's count, or the largest in an unclamped estimate of a cumulative count."""
    queries: tuple[QueryPlan, ...]
    spending: tuple[Spent, ...]
    """By period; every period where that is quick to compute, and always the last."""
    replace_one: tuple[Spent, ...]
    """What the same noise has cost under replace-one, at the periods of `spending`; empty unless the study is zero-out."""
    other: Spent
    """What the same noise costs under the other adjacency."""
    memory: Memory
    alternatives: tuple[Alternative, ...]
    """Each measure, or each counter and allocation; empty if they were not compared."""

    @property
    def share(self) -> Fraction:
        """Of the study's budget."""
        return self.release.share


@dataclass(frozen=True)
class StudyPlan:
    """A whole study."""

    study: Study
    n: int
    budget: Rho
    """What the study may spend."""
    releases: tuple[ReleasePlan, ...]
    spending: tuple[Spent, ...]
    """All releases together, at the periods at which each one's spending is known; always the last."""
    replace_one: tuple[Spent, ...]
    """What the same noise has cost under replace-one, at the periods of `spending`; empty unless the study is zero-out."""
    other: Spent
    """What the same noise costs under the other adjacency, all releases together."""
    warnings: tuple[Remark, ...]
    notes: tuple[Remark, ...]

    @property
    def adjacency(self) -> Adjacency:
        """The relation under which every cost but `other` is stated."""
        return self.study.privacy.adjacency

    @property
    def other_adjacency(self) -> Adjacency:
        """The relation of `other`."""
        return Adjacency.ZERO_OUT if self.adjacency is Adjacency.REPLACE_ONE else Adjacency.REPLACE_ONE

    @property
    def total(self) -> Spent:
        """What the study will have spent after its last period."""
        return self.spending[-1]
