"""Recovery: compare what a study has published with the state folder, and decide how a synthesizer continues."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from streamproc.errors import LedgerConflict, StateLost, TopicLost
from streamproc.privacy.types import Period
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.protocol.topics import Topics
from streamproc.study import Study


@dataclass(frozen=True)
class LedgerSnapshot:
    """The public topics of a study at one moment."""

    ledger: VerifiedLedger | None
    """None if the topic does not exist or is empty."""
    used: tuple[str, ...]
    """The topics among tallies, rejects and columns that have ever held a record, even of an aborted transaction.

    The ledger is not among them. Without a committed record it can only have held the study record of a synthesizer that
    did not succeed in beginning the study.
    """
    empty: tuple[str, ...] = ()
    """The topics among tallies, rejects and columns that exist and have never held a record."""

    @property
    def published_state(self) -> PublishedState | None:
        """The part of the ledger that `decide` compares; None if there is no ledger."""
        if self.ledger is None:
            return None
        return PublishedState(self.ledger.period, self.ledger.head, self.ledger.intents)


def check_columns_exist(snapshot: LedgerSnapshot, study: Study) -> None:
    """Raise TopicLost if a topic is empty whose columns are in the ledger: readers of the release need all of them."""
    topics = Topics(study.name)
    for topic, name in ((topics.synthetic(release.name), release.name) for release in study.releases):
        if snapshot.ledger is not None and snapshot.ledger.column_digests(name) and topic in snapshot.empty:
            problem = "is empty, but the ledger has columns of it; it must be kept forever, and never be recreated"
            raise TopicLost(topic, problem)


@dataclass(frozen=True)
class LocalState:
    """The last period in the state folder."""

    period: Period
    """`D`: the last period drawn."""
    digest: bytes
    """Digest of that period's ledger record; of record 0 before period 1."""
    previous: bytes
    """Digest of the ledger record before it."""
    published: bool
    """Whether the state folder says that the period is published."""
    abandoned: tuple[bytes, ...] = ()
    """Draws of the next period that were announced and lost, whose cost the steward has accepted."""


@dataclass(frozen=True)
class PublishedState:
    """The end of the ledger."""

    period: Period
    """`L`: the last period with a ledger record; 0 if there is only record 0."""
    digest: bytes
    """Digest of that record."""
    intents: tuple[bytes, ...]
    """The digests announced for period `L + 1`; the first that was not abandoned binds."""


class RecoveryAction(Enum):
    """How a synthesizer continues after a start."""

    BEGIN = "begin a new study"
    GO_ON = "go on with the next period"
    MARK_PUBLISHED = "mark the last period published, then go on"
    PUBLISH = "announce and publish what is in the state folder"


HOW_TO_RESTORE = "put back the newest copy of the state folder, or rebuild it with `streamproc restore`"


def decide(local: LocalState | None, ledger: PublishedState | None, *, used: tuple[str, ...]) -> RecoveryAction:
    """How to continue from the state folder and the ledger.

    Raises LedgerConflict or StateLost in every situation in which continuing could draw a period twice or change a released
    column. `local` is None if the state folder holds no state, `ledger` if the ledger has no record. `used` names the topics
    other than reports, control and ledger that have ever held a record.
    """
    if ledger is None:
        if local is not None:
            raise LedgerConflict(
                f"the ledger is empty, but the state folder holds period {local.period}; was the topic recreated?"
            )
        if used:
            raise LedgerConflict(
                f"the ledger is empty, but {', '.join(used)} held records before: this study has run already"
            )
        return RecoveryAction.BEGIN
    if local is None:
        if ledger.period == 0 and not ledger.intents:
            return RecoveryAction.GO_ON
        released = f"the ledger ends at period {ledger.period}" + (", and the next was announced" if ledger.intents else "")
        raise StateLost(ledger.period, f"{released}, but the state folder holds nothing; {HOW_TO_RESTORE}")
    binding = next((intent for intent in ledger.intents if intent not in local.abandoned), None)
    if local.period == ledger.period and local.digest == ledger.digest and binding is None:
        return RecoveryAction.GO_ON if local.published else RecoveryAction.MARK_PUBLISHED
    is_next = local.period == ledger.period + 1 and not local.published and local.previous == ledger.digest
    # Another intent means that a restored state folder has abandoned this draw and announced its own. Publishing this draw
    # would leave the cost of the other one, which may have been seen, unaccounted for.
    if is_next and set(ledger.intents) - set(local.abandoned) <= {local.digest}:
        return RecoveryAction.PUBLISH
    message = f"{_difference(local, ledger)}; {HOW_TO_RESTORE}"
    raise StateLost(ledger.period, message) if local.period < ledger.period else LedgerConflict(message)


def _difference(local: LocalState, ledger: PublishedState) -> str:
    """What differs between the state folder and the ledger."""
    if local.period < ledger.period:
        return f"the state folder is old: it ends at period {local.period}, the ledger at {ledger.period}"
    if local.period > ledger.period + 1 or (local.period == ledger.period + 1 and local.published):
        return f"the ledger is old: it ends at period {ledger.period}, the state folder at {local.period}"
    if local.period == ledger.period and local.digest == ledger.digest:
        return f"period {ledger.period + 1} was announced, but its draw is not in the state folder"
    if local.period == ledger.period + 1 and local.previous == ledger.digest:
        return f"period {local.period} was announced with another draw than the one in the state folder, or with both"
    return f"the state folder and the ledger hold different histories up to period {min(local.period, ledger.period)}"
