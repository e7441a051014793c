"""People of an open study, and what is true about them, by plain Python over their reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamproc.releases.open_presence import NO_REPORT
from streamproc.study import Population, Release, Study
from tests.studies import build_study

Reports = npt.NDArray[np.uint8]
"""A row for each person and a column for each period; `NO_REPORT` where none came."""


def open_study(
    *releases: Release,
    tenure: int = 4,
    absent_after: int | None = 2,
    rho: float = 1.0,
    size: int | None = None,
    alphabet: Sequence[str] = ("0", "1"),
    horizon: int | None = None,
) -> Study:
    """A small open study."""
    population = Population(initial=alphabet[0], open=True, tenure=tenure, absent_after=absent_after, size=size)
    return build_study(*releases, alphabet=alphabet, horizon=horizon, rho=rho, population=population)


def random_reports(people: int, periods: int, seed: int, silent: float = 0.3, q: int = 2) -> Reports:
    """Reports that begin at any time; some people never report, and some are silent for a while."""
    rng = np.random.default_rng(seed)
    reports = rng.integers(0, q, (people, periods)).astype(np.uint8)
    reports[rng.random(reports.shape) < silent] = NO_REPORT
    first = rng.integers(0, periods + 2, people)
    reports[np.arange(periods)[None, :] < first[:, None]] = NO_REPORT
    return reports


@dataclass
class Person:
    """One person: the symbols of the periods in which they are present, by the rules of docs/study.md."""

    entered: int
    symbols: list[int]
    left: int | None = None


def people_of(study: Study, reports: Reports) -> list[Person]:
    """Everybody who ever entered, followed report by report."""
    tenure, absent_after = study.population.tenure, study.population.absent_after
    fill = study.population.missing.fill
    people = []
    for row in reports.tolist():
        person, silent = None, 0
        for period, symbol in enumerate(row, start=1):
            if person is None:
                if symbol != NO_REPORT:
                    person = Person(period, [symbol])
                continue
            silent = silent + 1 if symbol == NO_REPORT else 0
            if len(person.symbols) == tenure or silent == absent_after:
                person.left = period
                break
            filled = person.symbols[-1] if fill is None else study.symbol_index[fill]
            person.symbols.append(filled if symbol == NO_REPORT else symbol)
        if person is not None:
            people.append(person)
    return people


def histories_at(people: Sequence[Person], period: int) -> list[tuple[int, ...]]:
    """The symbols since entry of everybody who is present after a period."""
    return [
        tuple(person.symbols[: period - person.entered + 1])
        for person in people
        if person.entered <= period and (person.left is None or person.left > period)
    ]


def flows_at(people: Sequence[Person], period: int) -> list[int]:
    """The numbers of people who are present after a period, who entered in it, and who left in it."""
    present = len(histories_at(people, period))
    return [present, sum(each.entered == period for each in people), sum(each.left == period for each in people)]
