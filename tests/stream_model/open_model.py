"""A reference model of a gatherer of an open study, in plain Python: dictionaries, lists and one loop for each person.

Everything is a function of one partition's records and of the offsets at which its periods end.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

from streamproc.protocol.rejects import Reason
from streamproc.protocol.reports import home_partition
from streamproc.study import CumulativeRelease, Release, SpellRelease, Study, WindowRelease
from tests.stream_model.reference_model import Closed, Said, said_in

LEAVING = None
"""In place of a symbol in the period in which a person leaves."""


@dataclass
class Participation:
    """What one person does: `entered` and the symbols from then on, and the period and reason of leaving, if they left."""

    entered: int
    symbols: list[str] = field(default_factory=list)
    left: int | None = None
    why: Reason | None = None
    counted: list[Said] = field(default_factory=list)

    def at(self, period: int) -> tuple[list[str], str | None] | None:
        """The symbols before a period and the one of it, or `LEAVING`; None if the person is outside."""
        age = period - self.entered
        if age < 0 or (self.left is not None and period > self.left):
            return None
        return self.symbols[:age], LEAVING if period == self.left else self.symbols[age]


class OpenModel:
    def __init__(
        self,
        study: Study,
        partition: int,
        key: bytes,
        roster: Sequence[str] | None,
        records: Sequence[tuple[int, bytes | None]],
        ends: Sequence[int],
        *,
        ended: bool,
    ) -> None:
        """`ends[t-1]` is where period `t` ends; `ended` says that the last of these cuts is marked `last`."""
        self.study, self.partition, self.key, self.roster, self.ends = study, partition, key, roster, ends
        self.last_period = len(ends) if ended else study.last_period
        self.undecodable = [offset for offset, value in records if said_in(study, offset, value) is None]
        self.said = [said for offset, value in records for said in said_in(study, offset, value) or []]
        self.good: dict[str, dict[int, list[Said]]] = defaultdict(lambda: defaultdict(list))
        for said in self.said:
            if not self._reasons_alone(said):
                self.good[said.individual][said.period].append(said)
        self.people = {individual: found for individual in self.good if (found := self._participation(individual))}

    def _reasons_alone(self, said: Said) -> set[Reason]:
        """The reasons to reject a report that do not depend on other reports."""
        population, reasons = self.study.population, set()
        if not 1 <= said.period <= self.last_period:
            reasons.add(Reason.PERIOD_OUT_OF_RANGE)
        if home_partition(said.individual, self.study.broker.partitions) != self.partition:
            reasons.add(Reason.FOREIGN_PARTITION)
        if said.symbol is None:
            reasons.add(Reason.UNKNOWN_SYMBOL)
        if self.roster is not None and said.individual not in self.roster:
            reasons.add(Reason.UNKNOWN_PERSON)
        if population.sample is not None and self._place(said.individual) >= Fraction(population.sample):
            reasons.add(Reason.NOT_SAMPLED)
        if 1 <= said.period <= len(self.ends) and said.offset >= self.ends[said.period - 1]:
            reasons.add(Reason.LATE)
        closed = sum(end <= said.offset for end in self.ends)
        if population.ahead is not None and said.period > closed + population.ahead:
            reasons.add(Reason.TOO_EARLY)
        return reasons

    def _place(self, individual: str) -> Fraction:
        hashed = hashlib.blake2b(individual.encode(), key=self.key, digest_size=16).digest()
        return Fraction(int.from_bytes(hashed[:8]), 2**64)

    def _participation(self, individual: str) -> Participation | None:
        population = self.study.population
        found: Participation | None = None
        missing = 0
        for period in range(1, len(self.ends) + 1):
            reports = self.good[individual].get(period, [])
            report = None if not reports else reports[0] if population.duplicates == "first" else reports[-1]
            if found is None:
                if report is None:
                    continue
                found = Participation(period)
            if len(found.symbols) == population.tenure:
                found.left, found.why = period, Reason.TENURE_OVER
                return found
            missing = 0 if report else missing + 1
            if missing and missing == population.absent_after:
                found.left, found.why = period, Reason.LEFT
                return found
            if report is not None:
                assert report.symbol is not None
                found.symbols.append(report.symbol)
                found.counted.append(report)
            else:
                found.symbols.append(population.missing.fill or found.symbols[-1])
        return found

    def tallies(self) -> list[Closed]:
        """The tallies of every closed period."""
        return [self._tally(period) for period in range(1, len(self.ends) + 1)]

    def _tally(self, period: int) -> Closed:
        steps = [step for person in self.people.values() if (step := person.at(period))]
        present = sum(symbol is not LEAVING for _, symbol in steps)
        return Closed(present, {r.name: _transitions(self.study, r, steps) for r in self.study.releases})

    def rejected(self) -> Counter[int]:
        """How many reports at each offset do not count; only meaningful if the study is over."""
        every = Counter(said.offset for said in self.said) + Counter(self.undecodable)
        return every - Counter(said.offset for person in self.people.values() for said in person.counted)

    def true_reasons(self) -> dict[int, set[Reason]]:
        """All correct reasons to reject some report at each offset."""
        true = defaultdict(set, {offset: {Reason.UNDECODABLE} for offset in self.undecodable})
        times = Counter((said.individual, said.period) for said in self.said)
        for said in self.said:
            true[said.offset] |= self._reasons_alone(said)
            if times[said.individual, said.period] > 1:
                true[said.offset].add(Reason.DUPLICATE)
            person = self.people.get(said.individual)
            if person is not None and person.left is not None and person.why is not None and said.period >= person.left:
                true[said.offset].add(person.why)
        return true


def _transitions(study: Study, release: Release, steps: Sequence[tuple[list[str], str | None]]) -> list[int]:
    """For the outside and for each state, the number of people with each class of symbols, and who leave."""
    states, classes = _states(study, release), _classes(study, release)
    made: Counter[tuple[int, int]] = Counter()
    for before, symbol in steps:
        row = 0 if not before else 1 + states.index(_state(study, release, before))
        if symbol is LEAVING:
            made[row, len(classes)] += 1
        elif isinstance(release, WindowRelease):
            made[row, classes.index((symbol,))] += 1
        else:
            # Symbols that lead to the same state are counted at the first of them.
            leading = [_state(study, release, [*before, members[0]]) for members in classes]
            made[row, leading.index(_state(study, release, [*before, symbol]))] += 1
    return [made[row, place] for row in range(1 + len(states)) for place in range(len(classes) + 1)]


def _classes(study: Study, release: Release) -> list[tuple[str, ...]]:
    if isinstance(release, WindowRelease):
        return [(symbol,) for symbol in study.alphabet]
    assert isinstance(release, CumulativeRelease | SpellRelease)
    return [tuple(s for s in study.alphabet if s not in release.event), tuple(release.event)]


def _states(study: Study, release: Release) -> list[object]:
    if isinstance(release, WindowRelease):
        lengths = range(1, release.k) if release.k > 1 else [0]
        return [window for length in lengths for window in product(study.alphabet, repeat=length)]
    if isinstance(release, SpellRelease):
        return list(range(release.length + 1))
    assert isinstance(release, CumulativeRelease) and study.population.tenure is not None
    return list(range(release.counted_up_to(study.population.tenure) + 1))


def _state(study: Study, release: Release, symbols: Sequence[str]) -> object:
    if isinstance(release, WindowRelease):
        return tuple(symbols[-(release.k - 1) :]) if release.k > 1 else ()
    assert isinstance(release, CumulativeRelease | SpellRelease)
    events = [symbol in release.event for symbol in symbols]
    most = _states(study, release)[-1]
    assert isinstance(most, int)
    return min([*events[::-1], False].index(False) if isinstance(release, SpellRelease) else sum(events), most)
