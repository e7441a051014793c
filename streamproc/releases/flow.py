"""What the kinds on an automaton have in common: cumulative, spell and pattern releases, measured by the flow mechanism.

The counts of a period are those of the people whose state is at least `j`, for each *threshold* `j` of the kind: events so
far, length of the current spell, or the state "has matched". A synthetic person's code is their state. Released counts are
those of the panel; the estimates before clamping come from the measurements alone, and intervals are centred on them.
"""

from __future__ import annotations

import base64
import binascii
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from streamproc.errors import StudyError
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.automaton import Automaton, Transitions, transitions_of
from streamproc.privacy.flow import MAX_MATRIX_NUMBERS, FlowMechanism, matrix_numbers
from streamproc.privacy.flow_design import design_matrices, rule_weights
from streamproc.privacy.flow_tuning import MAX_TUNED_WEIGHTS, tune_weights, tuning_size
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period, Rho
from streamproc.releases.flow_steering import SNAP, project_transitions, round_transitions
from streamproc.releases.kind import NUMBER_BYTES, Arrays, BoolArray, Contract, ReleaseState, Tallier
from streamproc.releases.query import Query, declared
from streamproc.releases.row_assignment import ARRAYS_PER_MOVED_ROW, Codes, assign_symbols, max_moved_rows, narrowest_dtype
from streamproc.releases.step import (
    Column,
    ColumnCounter,
    Comparison,
    Estimator,
    Measurements,
    ReleasedPeriod,
    Step,
    StepMemory,
)
from streamproc.study import Release, Study
from streamproc.study.releases import MAX_FLOW_HORIZON, FlowSettings, Tune
from streamproc.validation import Validator

STATE_SHARE = 0.3
"""Where the questions do not determine every state, the states are questions too, with errors reduced by this factor.

Without them the states that nobody asks about would be measured so badly that the panel could not follow the estimates."""

_CHUNK = 1 << 16
"""Rows per chunk. The working arrays fit into the cache, and the peak of memory does not grow with the panel."""


class FlowTallier(Tallier):
    """Counts the real people on each transition. Stores the state of each person."""

    def __init__(self, automaton: Automaton, class_of_symbol: npt.NDArray[np.uint8]) -> None:
        self._automaton = automaton
        self._class_of_symbol = class_of_symbol

    @property
    def size(self) -> int:
        """A count for each state and class of symbols; classes that lead to the same state count in the first of them."""
        return self._automaton.states * self._automaton.classes

    def initial_state(self, people: int) -> npt.NDArray[np.uint16]:
        return np.zeros(people, dtype=np.uint16)

    def tally(
        self, period: Period, windows: Codes, symbols: npt.NDArray[np.uint8], state: npt.NDArray[Any] | None
    ) -> tuple[npt.NDArray[Any], IntArray]:
        assert state is not None
        cells = state.astype(np.int64) * self._automaton.classes + self._class_of_symbol[symbols]
        counts = np.bincount(cells, minlength=self.size)
        merged = np.bincount(self._automaton.merged_cells, counts, self.size).astype(np.int64)
        return self._automaton.next_states.ravel()[cells].astype(np.uint16), merged

    def is_possible(self, counts: IntArray, people: int, period: Period) -> bool:
        """Whether everybody makes exactly one transition that exists in this period."""
        existing = transitions_of(self._automaton, period)[-1].cells
        return int(counts.sum()) == int(counts[existing].sum()) == people and bool((counts >= 0).all())


class StateCounter(ColumnCounter):
    """Follows synthetic people from state to state."""

    def __init__(self, contract: FlowContract) -> None:
        self._contract = contract
        self._period = Period(0)
        self.codes = np.zeros(0, dtype=narrowest_dtype(contract.automaton.states))

    def add(self, column: Column) -> IntArray:
        if not self._period:
            self.codes = np.zeros(len(column), dtype=self.codes.dtype)
        self._period = Period(self._period + 1)
        self.codes = next_codes(self._contract.automaton, self.codes, column)
        return self._contract.counts_of(count_states(self._contract.automaton, self.codes), self._period)


class FlowEstimator(Estimator):
    """Estimates the counts of transitions and states from the measurements of all periods so far."""

    def __init__(self, contract: FlowContract, period: Period = Period(0), states: FloatArray | None = None) -> None:
        self._contract = contract
        self._period = period
        self.states = states
        """Estimated people in each state of the automaton."""
        if states is None:
            self.states = np.zeros(contract.automaton.states)
            self.states[0] = contract.n
        self.transitions: FloatArray = np.zeros(0)
        """Estimated people on each transition of the last period."""

    def add(self, measured: Measurements) -> None:
        assert self.states is not None
        self._period = Period(self._period + 1)
        period, estimator = self._contract.transitions(self._period), self._contract.mechanism.estimator(self._period)
        self.transitions = estimator.carried @ self.states[period.before] + estimator.measured @ measured[0]
        self.states = np.zeros_like(self.states)
        self.states[period.after] = period.entering(self.transitions)

    def estimates(self) -> FloatArray:
        assert self.states is not None
        after = self._contract.transitions(self._period).after
        estimates: FloatArray = self._contract.questions(self._period) @ self.states[after]
        return estimates


@dataclass(frozen=True, eq=False)
class FlowState:
    """The state between periods. It is immutable, and holds nothing but public values."""

    period: Period
    states: Codes
    """The state of each synthetic row."""
    counts: IntArray
    """Number of rows in each state of the automaton."""
    estimates: FloatArray
    """Estimated real people in each state of the automaton."""


@dataclass(frozen=True, kw_only=True)
class FlowContract(Contract):
    """The public parameters of a release on an automaton."""

    mechanism: FlowMechanism

    measure: ClassVar[str] = "flow"
    max_horizon: ClassVar[int] = MAX_FLOW_HORIZON
    zero_out_has_neighbours: ClassVar[bool] = True

    # What a kind adds

    @property
    @abstractmethod
    def thresholds(self) -> tuple[int, ...]:
        """The states `j` for which "at least `j`" is counted, ascending."""

    @classmethod
    @abstractmethod
    def automaton_of(cls, study: Study, release: Release) -> Automaton:
        """The automaton of a release of this kind."""

    @classmethod
    @abstractmethod
    def thresholds_of(cls, automaton: Automaton) -> tuple[int, ...]:
        """The thresholds of a release with this automaton."""

    @classmethod
    @abstractmethod
    def settings_of(cls, release: Release) -> dict[str, Any]:
        """The fields of the contract that only this kind has."""

    @classmethod
    @abstractmethod
    def automaton_from(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> Automaton:
        """The automaton of a contract whose values are read. Checks the values of `settings_of`."""

    @classmethod
    @abstractmethod
    def settings_from(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of `settings_of`, from values that `automaton_from` has checked."""

    @classmethod
    @abstractmethod
    def thresholds_in(cls, query: Query, name: str, most: int, horizon: int) -> tuple[int, ...]:
        """The thresholds, up to `most`, that a query depends on; raises UnsupportedQuery if release `name` has no answer."""

    @classmethod
    def asked_thresholds(cls, study: Study, release: Release, automaton: Automaton) -> tuple[int, ...]:
        """The thresholds for which weights are tuned: those of the declared questions, or all if none is declared."""
        known, most = cls.thresholds_of(automaton), automaton.states - 1
        found = declared(study, release, lambda query: cls.thresholds_in(query, release.name, most, study.last_period))
        asked = {threshold for thresholds in found for threshold in thresholds}
        return tuple(j for j in known if j in asked) or known

    def project(self, transitions: Transitions, people: IntArray, estimate: FloatArray, period: Period) -> FloatArray:
        """The numbers of synthetic people on each transition, before rounding, that follow the estimates best."""
        return project_transitions(transitions, people, estimate, self.questions(period))

    # Made from a study

    @classmethod
    def make_mechanism(cls, study: Study, release: Release, rho: Rho) -> FlowMechanism:
        assert isinstance(release, FlowSettings)
        automaton = cls.automaton_of(study, release)
        numbers = matrix_numbers(automaton, study.last_period)
        if numbers > MAX_MATRIX_NUMBERS:
            got = (
                f"an automaton of {automaton.states} states over {study.last_period} periods: {numbers:,} published integers"
            )
            allowed = f"at most {MAX_MATRIX_NUMBERS:,}: a smaller {cls.size_setting}, or fewer periods"
            raise StudyError(f"release.{release.name}.{cls.size_setting}", got, allowed)
        is_tuned = release.weights == "tuned" or (
            release.weights is None and tuning_size(transitions_of(automaton, study.last_period)) <= MAX_TUNED_WEIGHTS
        )
        asked = cls.asked_thresholds(study, release, automaton)  # also refuses what the release cannot answer
        objective = release.tune if is_tuned else None
        matrices = designed_matrices(automaton, study.last_period, asked if is_tuned else (), objective)
        return FlowMechanism.calibrated(automaton, study.last_period, matrices, study.privacy.adjacency, rho)

    size_setting: ClassVar[str]
    """The key of the study file that determines the number of states."""

    @classmethod
    def make(cls, study: Study, release: Release, n: int, rho: Rho, *, insecure: bool) -> Self:
        return cls(
            name=release.name,
            alphabet=release.column_alphabet(study.alphabet),
            n=n,
            rho=rho,
            mechanism=cls.make_mechanism(study, release, rho),
            insecure=insecure,
            **cls.settings_of(release),
        )

    def is_implied_by(self, study: Study, release: Release) -> bool:
        """Whether the contract has the automaton of the release, and its matrices cost at most the budget."""
        expected = {
            "name": release.name,
            "alphabet": release.column_alphabet(study.alphabet),
            **self.settings_of(release),
        }
        mechanism = self.mechanism
        return (
            all(getattr(self, field) == value for field, value in expected.items())
            and mechanism.automaton == self.automaton_of(study, release)
            and (mechanism.horizon, mechanism.adjacency) == (study.last_period, study.privacy.adjacency)
            and mechanism.cost(Period(mechanism.horizon)) <= self.rho
        )

    # Written and read

    def own_values(self) -> dict[str, Any]:
        settings = {key: list(value) if isinstance(value, tuple) else value for key, value in self.own_settings().items()}
        return settings | {"sigma": self.mechanism.sigma, "matrices": encode_integers(self.mechanism.matrices)}

    @abstractmethod
    def own_settings(self) -> dict[str, Any]:
        """The fields of the contract that only this kind has, by their names in the written contract."""

    @classmethod
    def from_values(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> Self:
        automaton, horizon = cls.automaton_from(values, alphabet, check), values["horizon"]
        check.positive_float("sigma", values["sigma"])
        numbers = matrix_numbers(automaton, horizon)
        check.require("matrices", "an automaton", numbers <= MAX_MATRIX_NUMBERS, f"at most {MAX_MATRIX_NUMBERS} integers")
        shapes = [(period.free, len(period)) for period in transitions_of(automaton, horizon)]
        matrices = decode_integers(values["matrices"], shapes)
        check.require("matrices", "other text", matrices is not None, f"{numbers} integers of 16 bits in Base64")
        assert matrices is not None
        mechanism = FlowMechanism(automaton, horizon, Adjacency(values["adjacency"]), matrices, values["sigma"])
        mechanism.check_invertible()
        return cls(
            name=values["release"],
            alphabet=alphabet,
            n=values["n"],
            rho=Rho(values["rho"]),
            mechanism=mechanism,
            insecure=values["insecure"],
            **cls.settings_from(values),
        )

    # Rows and columns

    @property
    def automaton(self) -> Automaton:
        """The automaton that the release follows."""
        return self.mechanism.automaton

    @property
    def expected_rows(self) -> int:
        """As many synthetic people as real ones."""
        return self.n

    def transitions(self, period: Period) -> Transitions:
        """The transitions of a period."""
        return self.mechanism.periods[period - 1]

    def questions(self, period: Period) -> FloatArray:
        """For each threshold that can be reached by `period`, which of the states after it are at least that."""
        after = self.transitions(period).after
        return _questions(after, self.thresholds)

    def counts_of(self, states: IntArray, period: Period) -> IntArray:
        """The counts of a period from the number of people in each state of the automaton."""
        return (self.questions(period) @ states[self.transitions(period).after]).astype(np.int64)

    # Synthesis

    def initial_state(self) -> FlowState:
        states = np.zeros(self.n, dtype=narrowest_dtype(self.automaton.states))
        counts = np.zeros(self.automaton.states, dtype=np.int64)
        counts[0] = self.n
        return FlowState(Period(0), states, counts, counts.astype(np.float64))

    def step(self, state: ReleaseState, tally: IntArray, noise: NoiseSource) -> tuple[FlowState, Step]:
        before = cast(FlowState, state)
        period = Period(before.period + 1)
        transitions = self.transitions(period)
        exact = self._transition_counts(tally, period)
        noisy = noise.gaussian(self.mechanism.matrices[period - 1] @ exact, self.mechanism.sigma)
        estimator = FlowEstimator(self, before.period, before.estimates)
        estimator.add([noisy])
        people = before.counts[transitions.before]
        wanted = self.project(transitions, people, estimator.transitions, period)
        rng = noise.rng()
        moved = round_transitions(transitions.source, people, wanted, rng)
        symbols = self._assign(before.states, transitions, moved, rng)
        assert estimator.states is not None
        states = np.zeros(self.automaton.states, dtype=np.int64)
        np.add.at(states, transitions.after[transitions.target], moved)
        after = FlowState(period, next_codes(self.automaton, before.states, symbols), states, estimator.states)
        counts = self.counts_of(states, period)
        unclamped = estimator.estimates()
        clamped = self._count_clamped(transitions.entering(wanted), unclamped, period)
        return after, Step(period, (symbols,), (noisy,), counts, clamped, unclamped)

    def _transition_counts(self, tally: IntArray, period: Period) -> IntArray:
        cells = self.transitions(period).cells
        size = self.automaton.states * self.automaton.classes
        if tally.shape != (size,) or (tally < 0).any() or not int(tally.sum()) == int(tally[cells].sum()) == self.n:
            raise ValueError(f"a tally of release {self.name} needs {size} counts of transitions that add up to n")
        exact: IntArray = tally[cells]
        return exact

    def _assign(self, states: Codes, transitions: Transitions, moved: IntArray, rng: np.random.Generator) -> Column:
        """A symbol for each row: `moved` rows make each transition, and symbols of one transition are drawn at random."""
        before = transitions.before
        counts = split_by_symbol(self.automaton, transitions, moved, rng)
        if before[-1] == len(before) - 1:  # then the place of a state is the state itself
            return assign_symbols(states, counts, rng).astype(np.uint8, copy=False)
        places = np.zeros(self.automaton.states, dtype=states.dtype)
        places[before] = np.arange(len(before))
        return assign_symbols(places[states], counts, rng).astype(np.uint8, copy=False)

    def _count_clamped(self, states: FloatArray, unclamped: FloatArray, period: Period) -> int:
        """Number of counts that the projection moved away from their estimates."""
        return int(np.count_nonzero(np.abs(self.questions(period) @ states - unclamped) > self._slack))

    @property
    def _slack(self) -> float:
        """Tolerance, in people: projections are computed in floating point, and differ a little between machines."""
        return SNAP * (1 + self.n) + 1e-6

    def rows(self, state: ReleaseState) -> int | None:
        return self.n if state.period else None

    def released_counts(self, state: ReleaseState) -> IntArray | None:
        if not state.period:
            return None
        return self.counts_of(cast(FlowState, state).counts, state.period)

    def measurement_sizes(self, period: Period) -> list[int]:
        return [self.transitions(period).free]

    # State files

    def state_arrays(self, state: ReleaseState) -> Arrays:
        flow = cast(FlowState, state)
        return {"states": flow.states, "estimates": flow.estimates}

    def state_from_arrays(self, period: Period, arrays: Mapping[str, npt.NDArray[Any]]) -> FlowState:
        states = arrays["states"]
        return FlowState(period, states, count_states(self.automaton, states), arrays["estimates"])

    def rebuild_state(
        self, columns: Sequence[Column], tallies: Sequence[IntArray], measurements: Sequence[Measurements]
    ) -> FlowState:
        counter, estimator = self.new_counter(), self.new_estimator()
        for column, measured in zip(columns, measurements, strict=True):
            counter.add(column)
            estimator.add(measured)
        if not columns:
            return self.initial_state()
        assert estimator.states is not None
        counts = count_states(self.automaton, counter.codes)
        return FlowState(Period(len(tallies)), counter.codes, counts, estimator.states)

    @property
    def row_bytes(self) -> int:
        return np.dtype(narrowest_dtype(self.automaton.states)).itemsize

    def state_numbers(self, period: Period) -> int:
        return self.automaton.states + self.transitions(period).free

    def step_memory(self, period: Period, rows: int) -> StepMemory:
        transitions = self.transitions(period)
        size = len(transitions) + len(transitions.before)
        moved = max_moved_rows(rows, len(transitions.before) * self.automaton.classes, len(transitions.before))
        kept = rows * (self.row_bytes + 1) + NUMBER_BYTES * 4 * self.automaton.states * self.automaton.classes
        # The projection solves a dense system; rows are assigned by the places of their states.
        working = NUMBER_BYTES * 8 * size * size + rows * 2 * self.row_bytes
        return StepMemory(kept, working + NUMBER_BYTES * ARRAYS_PER_MOVED_ROW * moved)

    # Counts and estimates

    def new_counter(self) -> StateCounter:
        return StateCounter(self)

    def true_counts(self, tallies: Sequence[IntArray]) -> Sequence[IntArray]:
        counts = []
        for t, tally in enumerate(tallies, start=1):
            transitions = self.transitions(Period(t))
            entering = transitions.entering(tally[transitions.cells].astype(float))
            counts.append((self.questions(Period(t)) @ entering).astype(np.int64))
        return counts

    def new_estimator(self) -> FlowEstimator:
        return FlowEstimator(self)

    def compare(self, released: ReleasedPeriod) -> Comparison:
        """Repeat the projection from the panel before and the estimates, and compare each transition with it."""
        estimator = cast(FlowEstimator, released.estimator)
        transitions = self.transitions(released.period)
        people = count_states(self.automaton, released.codes_before)[transitions.before]
        wanted = self.project(transitions, people, estimator.transitions, released.period)
        cells = released.codes_before.astype(np.int64) * self.automaton.classes + released.column
        moved = np.bincount(self.automaton.merged_cells[cells], minlength=len(self.automaton.merged_cells))
        impossible = np.abs(moved[transitions.cells] - wanted) >= 1 + self._slack
        different = self._count_clamped(transitions.entering(wanted), estimator.estimates(), released.period)
        return Comparison(different, int(np.count_nonzero(impossible)), impossible.size)

    def clamped_counts(
        self,
        counts_at: Callable[[Period], IntArray],
        measurements: Sequence[Measurements],
        estimates: FloatArray | None,
        period: Period,
    ) -> BoolArray:
        """Counts that differ from their estimates by more than rounding can do: once for each state that it can split."""
        assert estimates is not None
        transitions = self.transitions(period)
        sides = self.questions(period)[:, transitions.target]
        first = np.searchsorted(transitions.source, np.arange(len(transitions.before)))
        split = np.add.reduceat(sides, first, axis=1)
        reach = ((split > 0) & (split < transitions.degrees)).sum(axis=1)
        moved: BoolArray = np.abs(counts_at(period) - estimates) > reach + self._slack
        return moved

    # Noise

    def stderr(self, weights: FloatArray, period: Period) -> float:
        return float(max(self.covariance(weights, period, weights, period), 0.0) ** 0.5)

    def covariance(self, weights: FloatArray, period: Period, other: FloatArray, earlier: Period) -> float:
        covariance = self.mechanism.state_covariance(period, earlier)
        return float(weights @ self.questions(period) @ covariance @ self.questions(earlier).T @ other)

    def count_stderrs(self, period: Period) -> FloatArray:
        questions = self.questions(period)
        variances = np.einsum("qs,st,qt->q", questions, self.mechanism.state_covariance(period), questions)
        stderrs: FloatArray = np.sqrt(np.maximum(variances, 0.0))
        return stderrs

    @property
    def variances(self) -> float | list[float]:
        largest = np.zeros(len(self.thresholds))
        for t in range(1, self.horizon + 1):
            stderrs = self.count_stderrs(Period(t))
            largest[: len(stderrs)] = np.maximum(largest[: len(stderrs)], stderrs**2)
        return [float(variance) for variance in largest]


def next_codes(automaton: Automaton, states: Codes, symbols: Column) -> Codes:
    """The state of each row after one more symbol. Raises IndexError if there is no such symbol."""
    if symbols.max(initial=0) >= automaton.classes:
        raise IndexError(f"a column has a symbol beyond {automaton.classes - 1}")
    table = automaton.next_states.astype(states.dtype).ravel()
    following = np.empty_like(states)
    for start in range(0, len(states), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        cells = states[chunk].astype(np.intp)
        cells *= automaton.classes
        cells += symbols[chunk]
        table.take(cells, mode="clip", out=following[chunk])  # "clip" never applies, and is twice as fast
    return following


def count_states(automaton: Automaton, states: Codes) -> IntArray:
    """Number of rows in each state."""
    counts = np.zeros(automaton.states, dtype=np.int64)
    for start in range(0, len(states), _CHUNK):
        counts += np.bincount(states[start : start + _CHUNK], minlength=automaton.states)
    return counts


def split_by_symbol(automaton: Automaton, transitions: Transitions, moved: IntArray, rng: np.random.Generator) -> IntArray:
    """Numbers of rows by state before and class of symbols, if `moved` rows make each transition.

    The classes that make one transition are as likely for each row, independently: the numbers are multinomial.
    """
    classes, states = automaton.classes, np.arange(len(transitions.before))
    firsts = automaton.merged_cells.reshape(-1, classes)[transitions.before] % classes
    left = np.zeros((len(states), classes), dtype=np.int64)
    left[transitions.source, transitions.cells % classes] = moved
    open_classes = np.zeros((len(states), classes), dtype=np.int64)
    np.add.at(open_classes, (states[:, None], firsts), 1)
    counts = np.empty_like(left)
    for symbol in range(classes):
        first = states, firsts[:, symbol]
        counts[:, symbol] = rng.binomial(left[first], 1 / open_classes[first])
        left[first] -= counts[:, symbol]
        open_classes[first] -= 1
    return counts


def _questions(after: IntArray, thresholds: Sequence[int]) -> FloatArray:
    """Rows "at least `j`" over the states `after`, for the thresholds that some of them reach."""
    reached = np.array([j for j in thresholds if j <= after[-1]], dtype=np.int64)
    rows: FloatArray = (after[None, :] >= reached[:, None]).astype(float)
    return rows


@lru_cache(maxsize=32)
def designed_matrices(automaton: Automaton, horizon: int, asked: tuple[int, ...], tune: Tune | None) -> tuple[IntArray, ...]:
    """The matrices for these questions: tuned, or by the rule if `tune` is None. They do not depend on the budget."""
    periods = transitions_of(automaton, horizon)
    if tune is None:
        return design_matrices(periods, rule_weights(periods))
    questions = [_questions(period.after, asked) for period in periods]
    if len(asked) < automaton.states - 1:
        states = [STATE_SHARE * np.eye(len(period.after)) for period in periods]
        questions = [np.vstack(pair) for pair in zip(questions, states, strict=True)]
    return design_matrices(periods, tune_weights(periods, questions, tune))


def encode_integers(matrices: Sequence[IntArray]) -> str:
    """All entries, row by row and matrix by matrix, as big-endian 16-bit integers in Base64."""
    flat = np.concatenate([matrix.ravel() for matrix in matrices])
    return base64.b64encode(flat.astype(">i2").tobytes()).decode("ascii")


def decode_integers(text: object, shapes: Sequence[tuple[int, int]]) -> tuple[IntArray, ...] | None:
    """The matrices whose `encode_integers` is `text`; None if it is not the text of matrices of these shapes."""
    sizes = [rows * columns for rows, columns in shapes]
    if not isinstance(text, str) or len(text) != 4 * -(-2 * sum(sizes) // 3):
        return None
    try:
        flat = np.frombuffer(base64.b64decode(text, validate=True), dtype=">i2").astype(np.int64)
    except (binascii.Error, ValueError):
        return None
    if len(flat) != sum(sizes):
        return None
    parts = np.split(flat, np.cumsum(sizes)[:-1])
    return tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
