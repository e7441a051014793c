"""A reference model of a gatherer: what it must tally and reject, in plain Python, without arrays and without state.

Everything is a function of one partition's records and of the offsets at which its periods end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

from streamproc.errors import Malformed
from streamproc.protocol.rejects import Reason, Reject
from streamproc.protocol.reports import ReportBatch, decode_any, home_partition
from streamproc.study import CumulativeRelease, PatternRelease, Release, SpellRelease, Study, WindowRelease
from streamproc.study.releases import EventRelease

UNBOUNDED = 10_000_000
"""People a partition admits if the study does not say how many it expects."""


@dataclass(frozen=True)
class Said:
    """One report as it lies in the log; `symbol` is None if it is outside the alphabet."""

    offset: int
    individual: str
    period: int
    symbol: str | None


@dataclass(frozen=True)
class Closed:
    """One period of one partition."""

    people: int
    counts: Mapping[str, list[int]]


class Model:
    def __init__(
        self,
        study: Study,
        partition: int,
        roster: Sequence[str] | None,
        records: Sequence[tuple[int, bytes | None]],
        ends: Sequence[int],
    ) -> None:
        """`ends[t-1]` is where period `t` ends; periods beyond them are open."""
        self.study = study
        self.ends = ends
        self.undecodable = [offset for offset, value in records if said_in(study, offset, value) is None]
        self.said = [said for offset, value in records for said in said_in(study, offset, value) or []]
        self.home = [said for said in self.said if home_partition(said.individual, study.broker.partitions) == partition]
        self.admitted = self._admitted()
        """Without a roster: the first ids that claim period 1 before it ends."""
        self.members = (
            list(self.admitted)
            if roster is None
            else [each for each in roster if home_partition(each, study.broker.partitions) == partition]
        )
        self.good: dict[tuple[str, int], list[Said]] = defaultdict(list)
        self.too_soon: set[Said] = set()
        """Without a roster: reports for a later period that precede the report which admits their id."""
        self.too_early = {said for said in self.home if self._is_too_early(said)}
        known = set() if roster is None else set(roster)
        for said in self.home:
            known |= {said.individual} if said.period == 1 else set()
            self.too_soon |= {said} if said.individual not in known else set()
            good = said.symbol is not None and self._in_time(said) and said not in self.too_early
            if good and said.individual in known:
                self.good[said.individual, said.period].append(said)

    def tallies(self) -> list[Closed]:
        """The tallies of every closed period."""
        histories = [self._history(individual) for individual in self.members]
        return [
            Closed(
                len(histories),
                {release.name: tally_of(self.study, release, histories, t) for release in self.study.releases},
            )
            for t in range(1, len(self.ends) + 1)
        ]

    def counted(self, individual: str, period: int) -> Said | None:
        """The one report of a member that counts for a closed period."""
        good = self.good.get((individual, period))
        return (good[0] if self.study.population.duplicates == "first" else good[-1]) if good else None

    def rejected(self) -> Counter[int]:
        """How many reports at each offset do not count; only meaningful if every period is closed."""
        counted = [self.counted(each, t + 1) for each in self.members for t in range(len(self.ends))]
        every = Counter(said.offset for said in self.said) + Counter(self.undecodable)
        return every - Counter(said.offset for said in counted if said is not None)

    def true_reasons(self) -> dict[int, set[Reason]]:
        """All correct reasons to reject some report at each offset."""
        true = defaultdict(set, {offset: {Reason.UNDECODABLE} for offset in self.undecodable})
        times = Counter((said.individual, said.period) for said in self.home)
        at_home, members, admitted = set(self.home), set(self.members), set(self.admitted)
        for said in self.said:
            reasons = true[said.offset]
            if not 1 <= said.period <= self.study.last_period:
                reasons |= {Reason.PERIOD_OUT_OF_RANGE}
                continue
            if said not in at_home:
                reasons |= {Reason.FOREIGN_PARTITION}
                continue
            reasons |= {Reason.UNKNOWN_PERSON} if said.individual not in members or said in self.too_soon else set()
            reasons |= {Reason.NOT_ADMITTED} if said.individual not in admitted else set()
            reasons |= {Reason.UNKNOWN_SYMBOL} if said.symbol is None else set()
            reasons |= {Reason.TOO_EARLY} if said in self.too_early else set()
            reasons |= {Reason.LATE} if not self._in_time(said) else set()
            reasons |= {Reason.DUPLICATE} if times[said.individual, said.period] > 1 else set()
        return true

    def _in_time(self, said: Said) -> bool:
        return 1 <= said.period <= len(self.ends) and said.offset < self.ends[said.period - 1]

    def _is_too_early(self, said: Said) -> bool:
        closed = sum(end <= said.offset for end in self.ends)
        ahead = self.study.population.ahead
        return ahead is not None and said.period > closed + ahead

    def _admitted(self) -> list[str]:
        size = self.study.population.size
        claim = [said.individual for said in self.home if said.period == 1 and self._in_time(said)]
        return list(dict.fromkeys(claim))[: UNBOUNDED if size is None else 2 * size]

    def _history(self, individual: str) -> list[str]:
        population = self.study.population
        history: list[str] = []
        for t in range(1, len(self.ends) + 1):
            said = self.counted(individual, t)
            before = history[-1] if history else population.initial
            instead = before if population.missing.fill is None else population.missing.fill
            history.append(instead if said is None or said.symbol is None else said.symbol)
        return history


def tally_of(study: Study, release: Release, histories: Sequence[Sequence[str]], t: int) -> list[int]:
    """The exact tally of period `t` over complete histories; symbols after `t` do not matter."""
    if isinstance(release, WindowRelease):
        return _windows(study, release, histories, t)
    if isinstance(release, CumulativeRelease) and release.measure == "paper":
        ones = [sum(symbol in release.event for symbol in history[:t]) for history in histories]
        now = [history[t - 1] in release.event for history in histories]
        reached = Counter(number for number, is_one in zip(ones, now, strict=True) if is_one)
        return [reached[b] for b in range(1, study.last_period + 1)]
    classes = _classes(study, release)
    made: Counter[tuple[int, int]] = Counter()
    for history in histories:
        # Symbols that lead to the same state are counted at the first of them.
        before = history[: t - 1]
        leading = [_state(study, release, [*before, symbol]) for symbol in classes]
        made[_state(study, release, before), leading.index(_state(study, release, history[:t]))] += 1
    number = _number_of_states(study, release)
    return [made[state, place] for state in range(number) for place in range(len(classes))]


def histories_in(study: Study, release: Release, rows: Iterable[Sequence[int]]) -> list[list[str]]:
    """The histories that synthetic rows stand for. A column of events says only which symbols are events."""
    symbols = study.alphabet if isinstance(release, WindowRelease) else _classes(study, release)
    return [[symbols[place] for place in row] for row in rows]


def _windows(study: Study, release: WindowRelease, histories: Sequence[Sequence[str]], t: int) -> list[int]:
    if release.measure == "paper" and t < release.k:
        return [0] * study.q**release.k
    length = min(t, release.k)
    windows = Counter(tuple(history[t - length : t]) for history in histories)
    counts = [windows[window] for window in product(study.alphabet, repeat=length)]
    return counts + [0] * (study.q**release.k - len(counts))


def _classes(study: Study, release: Release) -> list[str]:
    """A symbol of each class, in the order of the classes."""
    if isinstance(release, PatternRelease):
        return list(study.alphabet)
    assert isinstance(release, EventRelease)
    return [next(symbol for symbol in study.alphabet if symbol not in release.event), release.event[0]]


def _number_of_states(study: Study, release: Release) -> int:
    if isinstance(release, PatternRelease):
        return release.automaton(study.alphabet).states
    if isinstance(release, SpellRelease):
        return release.length + 1
    assert isinstance(release, CumulativeRelease)
    return release.counted_up_to(study.last_period) + 1


def _state(study: Study, release: Release, history: Sequence[str]) -> int:
    """The state that a history leads to."""
    if isinstance(release, PatternRelease):
        table, place = release.automaton(study.alphabet).table, study.alphabet.index
        return reduce(lambda state, symbol: table[state][place(symbol)], history, 0)
    last = _number_of_states(study, release) - 1
    assert isinstance(release, EventRelease)
    events = [symbol in release.event for symbol in history]
    return min([*events[::-1], False].index(False) if isinstance(release, SpellRelease) else sum(events), last)


def rejected_reports(rejects: Iterable[Reject]) -> Counter[int]:
    """How many reports at each offset were rejected, of a partition whose rejects these are."""
    return sum((Counter({reject.offset: reject.count}) for reject in rejects), Counter())


def said_in(study: Study, offset: int, value: bytes | None) -> list[Said] | None:
    try:
        report = decode_any(value)
    except Malformed:
        return None
    if isinstance(report, ReportBatch):
        symbols = dict(enumerate(study.alphabet))
        packed = zip(report.ids, report.periods.tolist(), report.symbols.tolist(), strict=True)
        return [Said(offset, individual, period, symbols.get(symbol)) for individual, period, symbol in packed]
    individual, period, symbol = report
    return [Said(offset, individual, period, symbol if symbol in study.alphabet else None)]
