"""What a starting synthesizer may do, given what is on its disk and what is in the ledger: the whole table in one place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from streamproc.errors import Refused
from streamproc.privacy.quantities import Period


@dataclass(frozen=True)
class OnDisk:
    """The state folder's last word."""

    period: Period
    """`D`: the last period drawn."""
    digest: bytes
    """Of that period's ledger record (record 0 before period 1)."""
    previous: bytes
    """Of the ledger record before it."""
    settled: bool
    """Whether it is known to be published."""
    abandoned: tuple[bytes, ...] = ()
    """Draws of the next period that were announced and lost, whose cost the steward has accepted."""


@dataclass(frozen=True)
class InLedger:
    """What everybody can see."""

    period: Period
    """`L`: the last period with a ledger record; 0 if there is only record 0."""
    digest: bytes
    """Of that record."""
    intents: tuple[bytes, ...]
    """The digests announced for period `L + 1`; the first that was not abandoned binds."""


class Move(Enum):
    """What to do next."""

    BEGIN = "begin a new study"
    GO_ON = "go on with the next period"
    SETTLE = "mark the last period published, then go on"
    PUBLISH = "announce and publish what is on disk"


HOW_TO_RESTORE = "put back the newest copy of the state folder, or rebuild it with `streamproc restore`"


def decide(disk: OnDisk | None, ledger: InLedger | None, *, used: tuple[str, ...]) -> Move:
    """The next move; refuses whatever could draw a period twice or change a released column.

    `ledger` is None if it has no record at all; `used` names the topics, other than reports and control, ever used.
    """
    if ledger is None:
        if disk is not None:
            raise Refused(f"the ledger is empty, but the state folder holds period {disk.period}; was the topic recreated?")
        if used:
            raise Refused(f"the ledger is empty, but {', '.join(used)} held records before: this study has run already")
        return Move.BEGIN
    if disk is None:
        if ledger.period == 0 and not ledger.intents:
            return Move.GO_ON
        released = f"the ledger ends at period {ledger.period}" + (", and the next was announced" if ledger.intents else "")
        raise Refused(f"{released}, but the state folder holds nothing; {HOW_TO_RESTORE}")
    binding = next((intent for intent in ledger.intents if intent not in disk.abandoned), None)
    if disk.period == ledger.period and disk.digest == ledger.digest and binding is None:
        return Move.GO_ON if disk.settled else Move.SETTLE
    next_up = disk.period == ledger.period + 1 and not disk.settled and disk.previous == ledger.digest
    # Another draw announced after ours is that of a restored folder which gave ours up: to publish ours now would leave the
    # other, which may have been seen, unpaid for.
    if next_up and set(ledger.intents) - set(disk.abandoned) <= {disk.digest}:
        return Move.PUBLISH
    raise Refused(f"{_difference(disk, ledger)}; {HOW_TO_RESTORE}")


def _difference(disk: OnDisk, ledger: InLedger) -> str:
    if disk.period < ledger.period:
        return f"the state folder is old: it ends at period {disk.period}, the ledger at {ledger.period}"
    if disk.period > ledger.period + 1 or (disk.period == ledger.period + 1 and disk.settled):
        return f"the ledger is old: it ends at period {ledger.period}, the state folder at {disk.period}"
    if disk.period == ledger.period and disk.digest == ledger.digest:
        return f"period {ledger.period + 1} was announced, but its draw is not in the state folder"
    if disk.period == ledger.period + 1 and disk.previous == ledger.digest:
        return f"period {disk.period} was announced with another draw than the one in the state folder, or with both"
    return f"the state folder and the ledger hold different histories up to period {min(disk.period, ledger.period)}"
