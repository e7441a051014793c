"""The study: the public contract that is fixed before period 1. Every constructor checks its values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, get_args

from streamproc.errors import StudyError
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Rho
from streamproc.privacy.zcdp import rho_of_epsilon
from streamproc.study.question_text import QuestionError, parse_question
from streamproc.study.releases import (
    MAX_HORIZON,
    MAX_PERIOD,
    MAX_TENURE,
    Release,
    check_shares,
    share_the_rest,
    study_check,
)
from streamproc.study.schedule import Schedule
from streamproc.validation import format_value, is_path


@dataclass(frozen=True)
class Study:
    """Everything public that is decided before the first report."""

    name: str
    alphabet: tuple[str, ...]
    """Symbols; their order is the order of indices, bins and labels everywhere."""
    horizon: int | None
    """Number of periods, `T`; None in an open study that ends when its steward says so."""
    population: Population
    privacy: Privacy
    releases: tuple[Release, ...]
    broker: Broker
    schedule: Schedule | None = None
    questions: tuple[Question, ...] = ()
    """The questions that the releases are tuned for."""

    def __post_init__(self) -> None:
        study_check.name("study.name", self.name)
        study_check.alphabet("study.alphabet", self.alphabet)
        if self.horizon is not None or not self.is_open:
            study_check.whole("study.horizon", self.horizon, 1, MAX_PERIOD if self.is_open else MAX_HORIZON)
        self._check_open_rules()
        study_check.in_alphabet("population.initial", self.population.initial, self.alphabet)
        if self.population.missing.fill is not None:
            study_check.in_alphabet("population.missing", self.population.missing.fill, self.alphabet)
        _check_releases(self.releases)
        tenure = self.population.tenure
        completed = [release.completed(self.alphabet, tenure) for release in self.releases]
        object.__setattr__(self, "releases", share_the_rest(completed))
        for place, release in enumerate(self.releases):
            if release.name.lower() in [other.name.lower() for other in self.releases[:place]]:
                # Some file systems do not distinguish upper case from lower case.
                allowed = "a name that no earlier release has, also in another letter case"
                raise StudyError(f"release[{place + 1}].name", format_value(release.name), allowed)
            release.check_fits(self.alphabet, self.last_period if tenure is None else tenure)
        check_shares(self.releases)
        self._check_questions()
        self._check_calendar()

    def _check_open_rules(self) -> None:
        marked = [symbol for symbol in self.alphabet if symbol.startswith(("^", "#"))]
        if self.is_open and marked:
            allowed = "symbols that begin with another character in an open study, whose labels use ^ and #"
            raise StudyError("study.alphabet", format_value(marked[0]), allowed)
        if self.is_open and self.privacy.adjacency is Adjacency.ZERO_OUT:
            allowed = '"replace-one" or "add-remove" in an open study'
            raise StudyError("privacy.adjacency", format_value(self.privacy.adjacency.value), allowed)
        if not self.is_open and self.privacy.adjacency is Adjacency.ADD_REMOVE:
            allowed = '"replace-one" or "zero-out": whether somebody takes part is protected in an open study only'
            raise StudyError("privacy.adjacency", format_value(self.privacy.adjacency.value), allowed)

    def _check_questions(self) -> None:
        _check_question_tuple(self.questions)
        names = [release.name for release in self.releases]
        for place, question in enumerate(self.questions, start=1):
            study_check.choice(f"question[{place}].release", question.release, names, joiner=", ", quote='"')

    def _check_calendar(self) -> None:
        if self.schedule is not None:
            least, ahead = self.schedule.periods_ahead, self.population.ahead
            if ahead is not None and ahead < least:
                raise StudyError(
                    "population.ahead", format_value(ahead), f"{least} or more with this grace and these periods"
                )
            try:
                self.schedule.release_of(1 if self.horizon is None else self.horizon)
            except OverflowError:
                got = f"a schedule whose period {self.horizon or 1} ends after the year 9999"
                raise StudyError("schedule.every", got, "an earlier start or shorter periods") from None

    @property
    def is_open(self) -> bool:
        """Whether people may enter in any period, and leave."""
        return self.population.open

    @property
    def last_period(self) -> int:
        """The last period that the study can have: its horizon, or a bound that no study reaches."""
        return MAX_PERIOD if self.horizon is None else self.horizon

    @property
    def q(self) -> int:
        """Number of symbols in the alphabet."""
        return len(self.alphabet)

    @property
    def symbol_index(self) -> dict[str, int]:
        """Each symbol's index in the alphabet, from 0."""
        return {symbol: index for index, symbol in enumerate(self.alphabet)}

    def release(self, name: str) -> Release:
        """The release of this name."""
        for release in self.releases:
            if release.name == name:
                return release
        raise StudyError("release", format_value(name), ", ".join(r.name for r in self.releases))


def _check_releases(value: object) -> None:
    if not (isinstance(value, tuple) and value and all(isinstance(item, Release) for item in value)):
        raise StudyError("release", format_value(value), "a tuple of at least one release")


@dataclass(frozen=True)
class Question:
    """A question that a release will be asked.

    >>> sp.Question("quarterly", 'count("1")>=2 of 3').ask
    'count("1") >= 2 of 3'
    """

    release: str
    """Name of the release."""
    ask: str
    """The question as text (`study.question_text`). It is kept in canonical form, so that its spacing changes nothing."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ask", canonical_question("question", self.release, self.ask))


def canonical_question(key: str, release: object, ask: object) -> str:
    """The canonical text of a question to a release. Raises StudyError for `key.release` or `key.ask`."""
    study_check.require(f"{key}.release", release, isinstance(release, str), "the name of a release of the study")
    if not isinstance(ask, str):
        raise StudyError(f"{key}.ask", format_value(ask), """a question as text, such as 'count("1") >= 2 of 3'""")
    try:
        return str(parse_question(ask))
    except QuestionError as error:
        raise StudyError(f"{key}.ask", format_value(ask), f"a question, but {error}") from None


def _check_question_tuple(value: object) -> None:
    if not (isinstance(value, tuple) and all(isinstance(item, Question) for item in value)):
        raise StudyError("question", format_value(value), "a tuple of questions")


MAX_RHO = 1000
"""Maximum budget of a study. A larger one would protect nobody, so it is taken for a typing error."""

DELTA = 1e-6
"""The delta at which epsilon is stated, unless the study says otherwise."""

_ROUNDING = 1e-9
"""Relative difference, far above what rounding epsilon and delta down can take from a budget."""


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """The budget of the whole study. Exactly one of `rho` and `epsilon` is given.

    >>> round(sp.Privacy(epsilon=1.0, delta=1e-6).budget, 4)
    0.0244
    """

    rho: float | None = None
    """The budget in zCDP."""
    epsilon: float | None = None
    """The budget as the epsilon at `delta`."""
    delta: float = DELTA
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    """For a window release, zero-out does not relate any two inputs of the program: see `Adjacency.ZERO_OUT`."""
    limit: Rho | None = field(default=None, compare=False)
    """What the releases may spend, in zCDP, if that is less than `budget`. A study file states decimals, and the float
    nearest to a decimal may be above it. The two may differ by rounding only."""

    def __post_init__(self) -> None:
        if (self.rho is None) == (self.epsilon is None):
            got = (
                "nothing"
                if self.rho is None
                else f"{format_value(self.rho)} and privacy.epsilon {format_value(self.epsilon)}"
            )
            raise StudyError("privacy.rho", got, "exactly one of rho and epsilon")
        if self.rho is not None:
            study_check.positive("privacy.rho", self.rho, MAX_RHO)
        if self.epsilon is not None:
            study_check.positive("privacy.epsilon", self.epsilon, 1000)
        study_check.positive("privacy.delta", self.delta, 0.5, below=True)
        _check_adjacency(self.adjacency)
        if self.limit is not None and not self.budget * (1 - _ROUNDING) <= self.limit <= self.budget:
            raise StudyError(
                "privacy.limit", format_value(self.limit), f"the budget {format_value(self.budget)}, rounded down"
            )

    @property
    def spendable(self) -> Rho:
        """What all releases together may spend: never more than the steward wrote."""
        return self.budget if self.limit is None else self.limit

    @property
    def budget(self) -> Rho:
        """The stated budget of the study in zCDP: `rho`, or the largest whose epsilon at `delta` is at most `epsilon`."""
        if self.rho is not None:
            return Rho(self.rho)
        assert self.epsilon is not None
        return rho_of_epsilon(self.epsilon, self.delta)


def _check_adjacency(value: object) -> None:
    if not isinstance(value, Adjacency):
        raise StudyError("privacy.adjacency", format_value(value), ", ".join(map(str, Adjacency)))


Duplicates = Literal["first", "last"]

MAX_PEOPLE = 2**30


@dataclass(frozen=True)
class Missing:
    """How a missing report is filled: with the person's previous symbol, or with `fill`. Other people are never used."""

    fill: str | None = None
    """The fixed symbol; None repeats the person's own last symbol."""

    def __post_init__(self) -> None:
        if self.fill is not None:
            study_check.symbol("population.missing", self.fill)

    def __str__(self) -> str:
        return "carry" if self.fill is None else f"fill:{self.fill}"


@dataclass(frozen=True, kw_only=True)
class Population:
    """Who takes part.

    >>> sp.Population(initial="0", size=23374).duplicates
    'first'
    """

    initial: str
    """The symbol that `carry` uses before a person's first report."""
    size: int | None = None
    """Expected number of people, for planning. Without a roster, a panel file must have as many."""
    roster: str | None = None
    """File with one id per line; None admits the people who report in period 1."""
    missing: Missing = Missing()
    duplicates: Duplicates = "first"
    """Which of a person's reports for one period counts."""
    ahead: int | None = None
    """Reports for a period more than `ahead` periods after the last closed one are rejected; None sets no limit."""
    open: bool = False
    """Whether people may enter in any period, and leave."""
    tenure: int | None = None
    """Open studies: maximum number of periods in which a person is present, from their first report on."""
    sample: float | None = None
    """Open studies: the share of all ids that may enter, by a public threshold on their keyed hash; None admits all."""
    absent_after: int | None = None
    """Open studies: the number of missing reports in a row with which a person has left; None fills them all."""

    def __post_init__(self) -> None:
        if self.size is not None:
            study_check.whole("population.size", self.size, 1, MAX_PEOPLE)
        if self.roster is not None:
            study_check.path("population.roster", self.roster)
        study_check.symbol("population.initial", self.initial)
        study_check.choice("population.duplicates", self.duplicates, get_args(Duplicates), joiner=", ", quote='"')
        if self.ahead is not None:
            study_check.whole("population.ahead", self.ahead, 1, MAX_HORIZON)
        self._check_open()

    def _check_open(self) -> None:
        study_check.flag("population.open", self.open)
        if not self.open:
            for key in ("tenure", "sample", "absent_after"):
                if (got := getattr(self, key)) is not None:
                    raise StudyError(f"population.{key}", format_value(got), "nothing without population.open = true")
            return
        study_check.whole("population.tenure", self.tenure, 1, MAX_TENURE)
        if self.sample is not None:
            study_check.positive("population.sample", self.sample, 1)
        if self.absent_after is not None:
            study_check.whole("population.absent_after", self.absent_after, 1, MAX_TENURE)


_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


@dataclass(frozen=True)
class Broker:
    """Where the topics are.

    >>> sp.Broker("kafka://kafka-1:9092,kafka-2:9092").partitions
    4
    """

    url: str
    """`embedded:FOLDER`, or `kafka://host:port,host:port`."""
    partitions: int = 4
    """Number of partitions of the reports topic, which never changes."""

    def __post_init__(self) -> None:
        if not (is_path(self.url) and (self.folder is not None or self.servers)):
            # A URL with a '@' may carry a password.
            got = "a URL with '@'" if "@" in str(self.url) else format_value(self.url)
            raise StudyError("broker.url", got, "embedded:FOLDER, or kafka://host:port[,host:port...]")
        study_check.whole("broker.partitions", self.partitions, 1, 1024)

    @property
    def folder(self) -> str | None:
        """The folder of an embedded broker, as written; None for Kafka."""
        folder = self.url.removeprefix("embedded:")
        return folder if folder != self.url and is_path(folder) else None

    @property
    def servers(self) -> tuple[str, ...]:
        """Kafka's bootstrap servers, `host:port` each; empty for an embedded broker."""
        servers = tuple(self.url.removeprefix("kafka://").split(","))
        ports = [_SERVER.fullmatch(server) for server in servers]
        valid = all(port is not None and 1 <= int(port[1]) <= 65_535 for port in ports)
        return servers if self.url.startswith("kafka://") and valid else ()


def bin_label(symbols: Sequence[str], alphabet: Sequence[str]) -> str:
    """The label of a window, oldest symbol first, joined by `|` if a symbol of the alphabet has more than one character."""
    return _joint(alphabet).join(symbols)


def bin_labels(alphabet: Sequence[str], k: int) -> list[str]:
    """The labels of all `q^k` bins, by code: the base-`q` number whose most significant digit is the oldest symbol."""
    return [_joint(alphabet).join(symbols) for symbols in product(alphabet, repeat=k)]


def _joint(alphabet: Sequence[str]) -> str:
    return "" if all(len(symbol) == 1 for symbol in alphabet) else "|"
