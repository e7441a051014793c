"""What the releases of an open study have in common: people enter and leave, and so do synthetic people.

A column of period `t` has an entry for each synthetic person who was present after the period before, in the order of their
row numbers, then one for each who enters. An entry is a symbol, or `len(alphabet)` for a person who has left. Rows are
numbered on, and a number is never used again. So a reader needs every column, or a snapshot, to know which rows are present.

The counts of a period are those of the kind (windows, lengths of spells, numbers of events), then three more: the people who
are present after the period, those who entered in it, and those who left in it. There is no padding. The panel is steered to
the estimates; released counts are those of the panel, and intervals are centred on the estimates.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from streamproc.errors import UnsupportedQuery
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.flow import MAX_MATRIX_NUMBERS
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.open_automaton import OpenAutomaton, OpenTransitions
from streamproc.privacy.open_flow import OpenFlowMechanism
from streamproc.privacy.types import FloatArray, IntArray, Period, Rho
from streamproc.releases.flow import decode_integers, encode_integers
from streamproc.releases.flow_steering import SNAP
from streamproc.releases.kind import MAX_ROWS, NUMBER_BYTES, Arrays, BoolArray, Contract, ReleaseState
from streamproc.releases.open_state import OpenCounter, OpenEstimator, OpenState
from streamproc.releases.open_steering import project_open, round_open
from streamproc.releases.query import Entered, Left, Present, Query
from streamproc.releases.row_assignment import ARRAYS_PER_MOVED_ROW, Codes, assign_symbols, max_moved_rows, shuffled_rows
from streamproc.releases.step import (
    Column,
    ColumnCounter,
    Comparison,
    Estimator,
    Measurements,
    NamedQuery,
    PanelState,
    PresentPeople,
    ReleasedPeriod,
    Step,
    StepMemory,
)
from streamproc.study import Release, Study
from streamproc.study.releases import (
    MAX_OPEN_TRANSITIONS,
    MAX_PAIR_STEPS,
    MAX_PERIOD,
    MAX_TENURE,
    open_pair_steps,
    open_transitions,
)
from streamproc.validation import Validator

MAX_ENTRANTS = 1_000_000
"""Maximum number of synthetic people who enter in one period, if the study does not state its size."""

FLOWS = ("#present", "#entered", "#left")
"""Labels of the last three counts of every release."""

FLOW_QUERIES = (
    NamedQuery("present", "people present", Present()),
    NamedQuery("entered", "people who entered", Entered()),
    NamedQuery("left", "people who left", Left()),
)


@dataclass(frozen=True, kw_only=True)
class OpenContract(Contract):
    """The public parameters of a release of an open study. Their `n` is 0: how many people take part is protected."""

    n: int = 0
    mechanism: OpenFlowMechanism
    last_period: int = MAX_PERIOD
    """The horizon of the study, or `MAX_PERIOD` if it has none."""
    max_entrants: int
    """Maximum number of synthetic people who enter in one period. Those who are left over enter in later periods."""

    measure: ClassVar[str] = "flow"
    is_open: ClassVar[bool] = True
    max_horizon: ClassVar[int] = MAX_PERIOD
    zero_out_has_neighbours: ClassVar[bool] = True
    zero_out_meaning: ClassVar[str] = "an open study has no such relation"

    # What a kind adds

    @classmethod
    @abstractmethod
    def automaton_of(cls, study: Study, release: Release) -> OpenAutomaton:
        """The automaton of a release of this kind."""

    @classmethod
    @abstractmethod
    def settings_of(cls, release: Release) -> dict[str, Any]:
        """The fields of the contract that only this kind has."""

    @classmethod
    @abstractmethod
    def automaton_from(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> OpenAutomaton:
        """The automaton of a contract whose values are read. Checks the values of `settings_of`."""

    @classmethod
    @abstractmethod
    def settings_from(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of `settings_of`, from values that `automaton_from` has checked."""

    @abstractmethod
    def own_settings(self) -> dict[str, Any]:
        """The fields of the contract that only this kind has, by their names in the written contract."""

    @property
    @abstractmethod
    def kind_labels(self) -> list[str]:
        """The label of each count that only this kind has."""

    @property
    @abstractmethod
    def kind_questions(self) -> FloatArray:
        """For each count that only this kind has, the transitions that it counts."""

    @abstractmethod
    def kind_weights(self, query: Query) -> tuple[FloatArray, FloatArray]:
        """A query as weights on the counts of this kind, and the people among whom it asks, as weights on all counts.

        Raises UnsupportedQuery if the release cannot answer it.
        """

    # Made from a study

    @classmethod
    def make_mechanism(cls, study: Study, release: Release, rho: Rho) -> OpenFlowMechanism:
        assert study.population.tenure is not None
        automaton = cls.automaton_of(study, release)
        return OpenFlowMechanism.calibrated(automaton, study.population.tenure, study.privacy.adjacency, rho)

    @classmethod
    def make(cls, study: Study, release: Release, n: int, rho: Rho, *, insecure: bool) -> Self:
        return cls(
            name=release.name,
            alphabet=release.column_alphabet(study.alphabet),
            rho=rho,
            mechanism=cls.make_mechanism(study, release, rho),
            insecure=insecure,
            last_period=study.last_period,
            max_entrants=max_entrants_of(study),
            **cls.settings_of(release),
        )

    def is_implied_by(self, study: Study, release: Release) -> bool:
        """Whether the contract has the automaton of the release, and its matrix costs at most the budget."""
        expected = {
            "name": release.name,
            "alphabet": release.column_alphabet(study.alphabet),
            "last_period": study.last_period,
            "max_entrants": max_entrants_of(study),
            **self.settings_of(release),
        }
        mechanism = self.mechanism
        return (
            all(getattr(self, field) == value for field, value in expected.items())
            and mechanism.automaton == self.automaton_of(study, release)
            and (mechanism.tenure, mechanism.adjacency) == (study.population.tenure, study.privacy.adjacency)
            and mechanism.cost(Period(MAX_PERIOD)) <= self.rho
        )

    # Written and read

    def to_dict(self) -> dict[str, Any]:
        values = super().to_dict()
        del values["n"]
        return values | {"horizon": None if self.last_period == MAX_PERIOD else self.last_period}

    def own_values(self) -> dict[str, Any]:
        settings = {key: list(value) if isinstance(value, tuple) else value for key, value in self.own_settings().items()}
        return settings | {
            "tenure": self.mechanism.tenure,
            "max_entrants": self.max_entrants,
            "sigma": self.mechanism.sigma,
            "matrices": encode_integers([self.mechanism.matrix]),
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> Self:
        check.whole("tenure", values["tenure"], 1, MAX_TENURE)
        check.whole("max_entrants", values["max_entrants"], 1, MAX_ROWS)
        check.positive_float("sigma", values["sigma"])
        automaton = cls.automaton_from(values, alphabet, check)
        transitions = automaton.transitions
        numbers = transitions.free * len(transitions)
        check.require("matrices", "an automaton", numbers <= MAX_MATRIX_NUMBERS, f"at most {MAX_MATRIX_NUMBERS} integers")
        matrices = decode_integers(values["matrices"], [(transitions.free, len(transitions))])
        check.require("matrices", "other text", matrices is not None, f"{numbers} integers of 16 bits in Base64")
        assert matrices is not None
        adjacency = Adjacency(values["adjacency"])
        mechanism = OpenFlowMechanism(automaton, values["tenure"], adjacency, matrices[0], values["sigma"])
        mechanism.check_invertible()
        mechanism.check_errors_fade()
        return cls(
            name=values["release"],
            alphabet=alphabet,
            rho=Rho(values["rho"]),
            mechanism=mechanism,
            insecure=values["insecure"],
            last_period=MAX_PERIOD if values["horizon"] is None else values["horizon"],
            max_entrants=values["max_entrants"],
            **cls.settings_from(values),
        )

    # Rows and columns

    @property
    def automaton(self) -> OpenAutomaton:
        """The automaton that the release follows."""
        return self.mechanism.automaton

    @property
    def transitions(self) -> OpenTransitions:
        """The transitions of a period."""
        return self.automaton.transitions

    @property
    def tenure(self) -> int:
        """Maximum number of periods in which a person is present."""
        return self.mechanism.tenure

    @property
    def horizon(self) -> int:
        return self.last_period

    @property
    def column_codes(self) -> int:
        return len(self.alphabet) + 1

    @property
    def expected_rows(self) -> int:
        return 0

    @property
    def n_star(self) -> int | None:
        return None

    @property
    def questions(self) -> FloatArray:
        """For each count, the transitions that it counts."""
        transitions = self.transitions
        flows = np.array([transitions.target >= 0, transitions.source < 0, transitions.target < 0], dtype=float)
        questions: FloatArray = np.vstack((self.kind_questions, flows))
        return questions

    def counts_of(self, moved: IntArray) -> IntArray:
        """The counts of a period from the number of people on each transition."""
        return np.rint(self.questions @ moved).astype(np.int64)

    def cells_of(self, places: IntArray, column: Column) -> IntArray:
        """The cell of each entry of a column. A place is 1 + the state, or 0 for a person who enters."""
        cells: IntArray = self.automaton.merged_cells[places * (1 + self.automaton.classes) + column]
        return cells

    def moved_by(self, codes: Codes, column: Column) -> IntArray:
        """The number of synthetic people on each transition, if a column comes after these codes."""
        cells = np.bincount(self.cells_of(self._places(codes, len(column)), column), minlength=self.automaton.cells)
        moved: IntArray = cells[self.transitions.cells]
        return moved

    def follow(self, codes: Codes, column: Column) -> tuple[IntArray, IntArray, BoolArray]:
        """States and ages of the people who are present after a column, and which of those before have stayed."""
        places = self._places(codes, len(column))
        after = self.automaton.next_states[places * (1 + self.automaton.classes) + column]
        ages = np.zeros(len(column), dtype=np.int64)
        ages[: len(codes)] = codes // self.automaton.states
        here = after >= 0
        return after[here], ages[here] + 1, here[: len(codes)]

    def _places(self, codes: Codes, entries: int) -> IntArray:
        places = np.zeros(entries, dtype=np.int64)
        places[: len(codes)] = 1 + codes.astype(np.int64) % self.automaton.states
        return places

    # Synthesis

    def initial_state(self) -> OpenState:
        nobody = np.zeros(0, dtype=np.uint16)
        counts = np.zeros(len(self.questions), dtype=np.int64)
        estimates = np.zeros(self.automaton.states)
        return OpenState(Period(0), 0, np.zeros(0, dtype=np.uint32), nobody, nobody, counts, estimates)

    def step(self, state: ReleaseState, tally: IntArray, noise: NoiseSource) -> tuple[OpenState, Step]:
        before = cast(OpenState, state)
        period = Period(before.period + 1)
        exact = self._transition_counts(tally)
        noisy = noise.gaussian(self.mechanism.matrix @ exact, self.mechanism.sigma)
        estimator = OpenEstimator(self, before.estimates)
        estimator.add([noisy])
        people, forced = self._people_and_forced(before.states, before.ages)
        room = min(self.max_entrants, MAX_ROWS - before.rows)
        wanted = self._project(people, forced, estimator.transitions, room)
        rng = noise.rng()
        moved = round_open(self.transitions, people, forced, wanted, rng)
        column = self._assign(before, moved, rng)
        codes = (before.ages.astype(np.uint32) * self.automaton.states + before.states).astype(np.uint32)
        states, ages, stay = self.follow(codes, column)
        entrants = len(column) - len(before.states)
        numbers = np.concatenate((before.numbers[stay], np.arange(before.rows, before.rows + entrants, dtype=np.uint32)))
        counts = self.counts_of(moved)
        after = OpenState(
            period,
            before.rows + entrants,
            numbers,
            states.astype(np.uint16),
            ages.astype(np.uint16),
            counts,
            estimator.states,
        )
        unclamped = estimator.estimates()
        clamped = self._count_clamped(wanted, unclamped)
        return after, Step(period, (column,), (noisy,), counts, clamped, unclamped)

    def _transition_counts(self, tally: IntArray) -> IntArray:
        cells = self.transitions.cells
        if tally.shape != (self.automaton.cells,) or (tally < 0).any() or int(tally.sum()) != int(tally[cells].sum()):
            raise ValueError(f"a tally of release {self.name} needs {self.automaton.cells} counts of transitions")
        exact: IntArray = tally[cells]
        return exact

    def _people_and_forced(self, states: Codes | IntArray, ages: Codes | IntArray) -> tuple[IntArray, IntArray]:
        """The synthetic people in each state, and those of them whose tenure is over."""
        people = np.bincount(states, minlength=self.automaton.states).astype(np.int64)
        forced = np.bincount(states[ages >= self.tenure], minlength=self.automaton.states).astype(np.int64)
        return people, forced

    def _project(self, people: IntArray, forced: IntArray, estimate: FloatArray, room: int) -> FloatArray:
        return project_open(self.transitions, people, forced, estimate, self.questions, room)

    def _assign(self, before: OpenState, moved: IntArray, rng: np.random.Generator) -> Column:
        """The column: `moved` people make each transition, chosen at random, those whose tenure is over leave."""
        automaton, transitions = self.automaton, self.transitions
        columns = 1 + automaton.classes
        cells = np.zeros(automaton.cells, dtype=np.int64)
        cells[transitions.cells] = moved
        by_place = _split_merged(automaton, cells, rng).reshape(-1, columns)
        over = before.ages >= self.tenure
        by_place[1:, -1] -= np.bincount(before.states[over], minlength=automaton.states)
        column = np.full(len(before.states), automaton.classes, dtype=np.uint8)
        column[~over] = assign_symbols(before.states[~over], by_place[1:], rng)
        entrants = shuffled_rows(by_place[0, :-1], rng).astype(np.uint8, copy=False)
        return np.concatenate((column, entrants))

    def _count_clamped(self, wanted: FloatArray, unclamped: FloatArray) -> int:
        """Number of counts that the projection moved away from their estimates by more than earlier rounding can."""
        return int(np.count_nonzero(np.abs(self.questions @ wanted - unclamped) > self._reach + self._slack(unclamped)))

    @property
    def _reach(self) -> IntArray:
        """By how much rounding can move each count: by one on each transition that it counts."""
        reach: IntArray = np.count_nonzero(self.questions, axis=1)
        return reach

    def _slack(self, estimates: FloatArray) -> float:
        """Tolerance, in people: projections are computed in floating point, and differ a little between machines."""
        return SNAP * (1 + float(np.abs(estimates).sum())) + 1e-6

    def rows(self, state: ReleaseState) -> int | None:
        return cast(OpenState, state).rows if state.period else None

    def max_column_rows(self, state: ReleaseState) -> int:
        return len(cast(OpenState, state).states) + self.max_entrants

    def released_counts(self, state: ReleaseState) -> IntArray | None:
        return cast(OpenState, state).counts if state.period else None

    def measurement_sizes(self, period: Period) -> list[int]:
        return [self.transitions.free]

    # Summaries

    def panel_state(self, state: ReleaseState) -> PanelState:
        own = cast(OpenState, state)
        return PanelState(own.period, own.rows, PresentPeople(own.numbers, own.states, own.ages), own.estimates)

    def panel_state_of(self, period: Period, counter: ColumnCounter, estimator: Estimator) -> PanelState:
        counted, states = cast(OpenCounter, counter), self.automaton.states
        ages = (counted.codes // states).astype(np.uint16)
        present = PresentPeople(counted.numbers, (counted.codes % states).astype(np.uint16), ages)
        return PanelState(period, counted.rows, present, cast(OpenEstimator, estimator).states)

    def continue_from(self, panel: PanelState) -> tuple[OpenCounter, OpenEstimator]:
        present, states = panel.present, self.automaton.states
        known = present.states.size == 0 or int(present.states.max()) < states
        aged = present.ages.size == 0 or 1 <= int(present.ages.min()) <= int(present.ages.max()) <= self.tenure
        numbered = present.numbers.size == 0 or int(present.numbers[-1]) < panel.rows
        if not (known and aged and numbered and panel.estimates.shape == (states,)):
            raise ValueError(f"a summary of release {self.name} holds a state, an age or a row number that cannot be")
        codes = present.ages.astype(np.uint32) * states + present.states
        return OpenCounter(self, codes, present.numbers, panel.rows), OpenEstimator(self, panel.estimates)

    # State files

    def state_arrays(self, state: ReleaseState) -> Arrays:
        own = cast(OpenState, state)
        return {
            "rows": np.array([own.rows]),
            "numbers": own.numbers,
            "states": own.states,
            "ages": own.ages,
            "counts": own.counts,
            "estimates": own.estimates,
        }

    def state_from_arrays(self, period: Period, arrays: Mapping[str, npt.NDArray[Any]]) -> OpenState:
        rows = int(arrays["rows"][0])
        parts = (arrays[name] for name in ("numbers", "states", "ages", "counts", "estimates"))
        return OpenState(period, rows, *parts)

    def rebuild_state(
        self, columns: Sequence[Column], tallies: Sequence[IntArray], measurements: Sequence[Measurements]
    ) -> OpenState:
        counter, estimator, state = self.new_counter(), self.new_estimator(), self.initial_state()
        counts = state.counts
        for column, measured in zip(columns, measurements, strict=True):
            counts = counter.add(column)
            estimator.add(measured)
        states, ages = counter.codes % self.automaton.states, counter.codes // self.automaton.states
        return OpenState(
            Period(len(columns)),
            counter.rows,
            counter.numbers,
            states.astype(np.uint16),
            ages.astype(np.uint16),
            counts,
            estimator.states,
        )

    @property
    def row_bytes(self) -> int:
        return 8

    def state_numbers(self, period: Period) -> int:
        return self.automaton.states + len(self.questions) + self.transitions.free + 1

    def step_memory(self, period: Period, rows: int) -> StepMemory:
        size = len(self.transitions) + self.automaton.states
        moved = max_moved_rows(rows, self.automaton.cells, self.automaton.states)
        working = NUMBER_BYTES * (8 * size * size + 8 * self.automaton.cells) + rows * 8 * NUMBER_BYTES
        return StepMemory(rows * (self.row_bytes + 1), working + NUMBER_BYTES * ARRAYS_PER_MOVED_ROW * moved)

    # Counts and estimates

    def new_counter(self) -> OpenCounter:
        return OpenCounter(self)

    def codes_before(self, rows: int) -> Codes:
        return np.zeros(0, dtype=np.uint32)

    def true_counts(self, tallies: Sequence[IntArray]) -> Sequence[IntArray]:
        return [self.counts_of(tally[self.transitions.cells]) for tally in tallies]

    def labels(self, period: Period) -> list[str]:
        return [*self.kind_labels, *FLOWS]

    def new_estimator(self) -> OpenEstimator:
        return OpenEstimator(self)

    def compare(self, released: ReleasedPeriod) -> Comparison:
        """Repeat the projection from the panel before and the estimates, and compare each transition with it.

        Also everybody whose tenure is over must leave.
        """
        estimator = cast(OpenEstimator, released.estimator)
        codes = released.codes_before.astype(np.int64)
        people, forced = self._people_and_forced(codes % self.automaton.states, codes // self.automaton.states)
        wanted = self._project(people, forced, estimator.transitions, self.max_entrants)
        moved = self.moved_by(released.codes_before, released.column)
        unclamped = estimator.estimates()
        impossible = int(np.count_nonzero(np.abs(moved - wanted) >= 1 + self._slack(unclamped)))
        over = codes // self.automaton.states >= self.tenure
        impossible += int(np.count_nonzero(over & (released.column[: len(codes)] != self.automaton.classes)))
        return Comparison(self._count_clamped(wanted, unclamped), impossible, len(moved))

    def clamped_counts(
        self,
        counts_at: Callable[[Period], IntArray],
        measurements: Sequence[Measurements],
        estimates: FloatArray | None,
        period: Period,
    ) -> BoolArray:
        """Counts that differ from their estimates by more than rounding can do: once for each transition."""
        assert estimates is not None
        moved: BoolArray = np.abs(counts_at(period) - estimates) > self._reach + self._slack(estimates)
        return moved

    # Queries

    def query_weights(self, query: Query, period: Period) -> FloatArray:
        flows = {Present: 0, Entered: 1, Left: 2}
        weights = np.zeros(len(self.kind_labels) + len(FLOWS))
        if type(query) in flows:
            weights[len(self.kind_labels) + flows[type(query)]] = 1.0
        else:
            weights[: len(self.kind_labels)] = self.kind_weights(query)[0]
        return weights

    def denominator_weights(self, query: Query, period: Period) -> FloatArray | None:
        if isinstance(query, Present | Entered | Left):
            raise UnsupportedQuery(f"{query.name}: this is a number of people, not a share; ask Panel.people")
        return self.kind_weights(query)[1]

    @property
    def _present(self) -> FloatArray:
        """The weights of "everybody who is present"."""
        return np.append(np.zeros(len(self.kind_labels)), [1.0, 0.0, 0.0])

    def first_period(self, query: Query) -> Period:
        return Period(1)

    def parse_query(self, name: str) -> NamedQuery:
        """Accepts `present`, `entered`, `left`, and what the kind accepts."""
        for known in FLOW_QUERIES:
            if name == known.name:
                return known
        return self.parse_kind_query(name)

    @abstractmethod
    def parse_kind_query(self, name: str) -> NamedQuery:
        """The query of this name that only this kind answers; raises UnsupportedQuery."""

    def query_of(self, label: str) -> str:
        return label.removeprefix("#") if label in FLOWS else self.kind_query_of(label)

    @abstractmethod
    def kind_query_of(self, label: str) -> str:
        """The name of the query for one count of this kind, by its label."""

    def suggested_queries(self) -> Iterator[str]:
        yield from self.suggested_kind_queries()
        yield from (known.name for known in FLOW_QUERIES)

    @abstractmethod
    def suggested_kind_queries(self) -> Iterator[str]:
        """Names of queries that only this kind answers, the most informative first."""

    # Noise

    def stderr(self, weights: FloatArray, period: Period) -> float:
        return float(max(self.covariance(weights, period, weights, period), 0.0) ** 0.5)

    def covariance(self, weights: FloatArray, period: Period, other: FloatArray, earlier: Period) -> float:
        covariance = self.mechanism.transition_covariance(period, earlier)
        return float(weights @ self.questions @ covariance @ self.questions.T @ other)

    def count_stderrs(self, period: Period) -> FloatArray:
        covariance = self.mechanism.transition_covariance(period)
        stderrs: FloatArray = np.sqrt(np.einsum("qe,ef,qf->q", self.questions, covariance, self.questions).clip(0.0))
        return stderrs

    def steady_period(self, period: Period) -> Period:
        return Period(self.mechanism.steady_period(period))

    @property
    def variances(self) -> list[float]:
        return [float(stderr**2) for stderr in self.count_stderrs(Period(self.last_period))]


def max_entrants_of(study: Study) -> int:
    """The public maximum of synthetic people who enter in one period: twice the study's size, or `MAX_ENTRANTS`."""
    size = study.population.size
    return MAX_ENTRANTS if size is None else 2 * size


def _split_merged(automaton: OpenAutomaton, cells: IntArray, rng: np.random.Generator) -> IntArray:
    """The counts of cells, where those of merged transitions are divided among their classes of symbols at random."""
    split = cells.copy()
    for first, members in _merged(automaton):
        split[members] = rng.multinomial(cells[first], np.full(len(members), 1 / len(members)))
    return split


def _merged(automaton: OpenAutomaton) -> Iterator[tuple[int, IntArray]]:
    firsts, sizes = np.unique(automaton.merged_cells, return_counts=True)
    for first in firsts[sizes > 1].tolist():
        yield first, np.flatnonzero(automaton.merged_cells == first)


def check_open_size(values: Mapping[str, Any], key: str, classes: int, states: int, check: Validator) -> None:
    """Check that the automaton of a contract that is read is not too large for its tenure."""
    fits = open_transitions(classes, states) <= MAX_OPEN_TRANSITIONS
    fits = fits and open_pair_steps(classes, states, values["tenure"]) <= MAX_PAIR_STEPS
    check.require(key, values[key], fits, "a smaller automaton, or a shorter tenure")
