"""The fault plan of a run: kinds, targets, times and order of the faults, drawn from a seed. Real time decides the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

GATHERERS = ("gatherer-1", "gatherer-2", "gatherer-3")
REPORTERS = ("program", "command")
SYNTHESIZER, BROKER = "synthesizer", "broker"
ROLES = (
    dict.fromkeys(GATHERERS, "gatherer") | dict.fromkeys(REPORTERS, "reporter") | {SYNTHESIZER: SYNTHESIZER, BROKER: BROKER}
)
"""The role of each track."""


class Kind(StrEnum):
    """The kind of a fault."""

    KILL = "kill -9"
    STOP = "SIGSTOP past the time-outs, then SIGCONT"
    TAKEOVER = "second synthesizer on a copied folder while the first is stopped"
    BROKER_RESTART = "broker restart"
    BROKER_KILL = "broker kill -9"


class Aim(StrEnum):
    """The point in time that a fault aims at."""

    AFTER_START = "some time after the process started"
    AFTER_CUT = "just after the cut"
    AT_INTENT = "once an intent is seen, before its release"
    AT_COLUMN = "once a column is seen, before its release"


@dataclass(frozen=True)
class Fault:
    """One fault. Those of a track are injected in order, and not before their period is being reported."""

    period: int
    kind: Kind
    aim: Aim
    delay: float
    """Seconds after the point in time aimed at."""


@dataclass(frozen=True)
class Amount:
    """The number of faults of each kind in a run."""

    kills: int
    """Kills of each role."""
    stops: int
    """Stops of all roles together."""
    broker_faults: int
    takeovers: int


@dataclass(frozen=True)
class FaultPlan:
    """The faults of each track: each gatherer, each reporter, the synthesizer, the broker."""

    tracks: dict[str, list[Fault]]

    def count(self, kind: Kind) -> int:
        """How many faults of a kind."""
        return Counter(fault.kind for faults in self.tracks.values() for fault in faults)[kind]

    def lets_close(self, period: int) -> bool:
        """Whether nothing is left that must come before the cut of this period.

        These are the faults of earlier periods of those that live on from period to period. To the synthesizer all must have
        happened that comes before a fault that aims at this period's release: that could be over else.
        """
        lasting = (SYNTHESIZER, BROKER, *GATHERERS)
        if any(fault.period < period for track in lasting for fault in self.tracks[track]):
            return False
        aims = {fault.aim for fault in self.tracks[SYNTHESIZER] if fault.period == period}
        return Aim.AFTER_START not in aims or aims == {Aim.AFTER_START}

    def shortages(self, injected_count: Mapping[tuple[str, str], int]) -> list[str]:
        """Describe the kinds of which fewer faults were injected than planned; `injected_count` is by kind and role."""
        planned = Counter((fault.kind, ROLES[track]) for track, faults in self.tracks.items() for fault in faults)
        return [
            f"{kind} ({role}): {injected_count.get((kind, role), 0)} of {count} struck"
            for (kind, role), count in planned.items()
            if injected_count.get((kind, role), 0) < count
        ]


def draw_fault_plan(seed: int, horizon: int, amount: Amount) -> FaultPlan:
    """Draw the plan of a seed. It has no fault in the last period, so that the study runs at every fault."""
    rng = Random(f"plan {seed}")
    last = horizon - 1
    stops: Counter[str] = Counter(dict.fromkeys((SYNTHESIZER, *GATHERERS, *REPORTERS), 0))
    # Most stops hit processes that hold a session or a transaction.
    order = [SYNTHESIZER, GATHERERS[0], SYNTHESIZER, GATHERERS[1], REPORTERS[0], SYNTHESIZER, GATHERERS[2], REPORTERS[1]]
    for number in range(amount.stops):
        stops[order[number % len(order)]] += 1
    tracks = {SYNTHESIZER: _synthesizer(rng, last, amount, stops[SYNTHESIZER])}
    for track_group in (GATHERERS, REPORTERS):
        for number, track in enumerate(track_group):
            kills = len(range(number, amount.kills, len(track_group)))
            kinds = [Kind.KILL] * kills + [Kind.STOP] * stops[track]
            longest = 5.0 if track_group is GATHERERS else 2.0
            tracks[track] = _spread(rng, last, kinds, [Aim.AFTER_START], longest)
    brokers = [(Kind.BROKER_KILL, Kind.BROKER_RESTART)[number % 2] for number in range(amount.broker_faults)]
    tracks[BROKER] = _spread(rng, last, brokers, [Aim.AFTER_START, Aim.AFTER_CUT], 6.0)
    return FaultPlan(tracks)


def _synthesizer(rng: Random, last: int, amount: Amount, stops: int) -> list[Fault]:
    """Takeovers first in their periods: only the next cut shows which of two may go on."""
    # Not in period 1, in which there may be no folder yet to be copied.
    takeovers = _periods(rng, 2, last, amount.takeovers)
    faults = [Fault(period, Kind.TAKEOVER, Aim.AFTER_START, 0.0) for period in takeovers]
    kinds = [Kind.KILL] * amount.kills + [Kind.STOP] * stops
    for kind, period in zip(rng.sample(kinds, len(kinds)), _periods(rng, 1, last, len(kinds)), strict=True):
        aim = _rarest_aim(faults, period)
        faults.append(Fault(period, kind, aim, _delay(rng, aim, 4.0)))
    order = list(Aim)
    return sorted(faults, key=lambda fault: (fault.period, fault.kind is not Kind.TAKEOVER, order.index(fault.aim)))


def _rarest_aim(faults: Sequence[Fault], period: int) -> Aim:
    """Of those that another fault of the synthesizer in this period can still find, the one that fewest have."""
    here = [fault for fault in faults if fault.period == period]
    if any(fault.kind is Kind.TAKEOVER for fault in here):
        # It ends only when the period is released.
        return Aim.AFTER_START
    # An intent that is committed does not come again in its period; columns come again after every kill.
    announced = any(fault.aim is Aim.AT_INTENT for fault in here)
    aims = [aim for aim in Aim if not (announced and aim is Aim.AT_INTENT)]
    return min(aims, key=Counter(fault.aim for fault in faults).__getitem__)


def _delay(rng: Random, aim: Aim, longest: float) -> float:
    """Undisturbed, a release takes 0.3 s from the cut on, and some tens of milliseconds from its intent on."""
    most = {Aim.AFTER_START: longest, Aim.AFTER_CUT: 0.2, Aim.AT_INTENT: 0.01, Aim.AT_COLUMN: 0.003}
    return rng.uniform(0.0, most[aim])


def _spread(rng: Random, last: int, kinds: Sequence[Kind], aims: Sequence[Aim], longest: float) -> list[Fault]:
    """Faults of these kinds in random order, evenly over the periods; aims come by turns."""
    shuffled = rng.sample(kinds, len(kinds))
    periods = _periods(rng, 1, last, len(kinds))
    faults = []
    for number, (kind, period) in enumerate(zip(shuffled, periods, strict=True)):
        aim = aims[number % len(aims)]
        faults.append(Fault(period, kind, aim, _delay(rng, aim, longest)))
    return faults


def _periods(rng: Random, first: int, last: int, count: int) -> list[int]:
    """Every period as often as any other, or one more; ascending."""
    all_of_them = range(first, last + 1)
    whole, rest = divmod(count, len(all_of_them))
    return sorted([*all_of_them] * whole + rng.sample(all_of_them, rest))
