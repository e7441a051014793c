"""Every error a user can meet, as one tree.

* StreamprocError: carries the exit code of CONTRACT ("What scripts may rely on") and reads as one line
  * InvalidInput (2): the command, the study or a file is wrong
    * StudyError: a key of the study file is unknown, missing or out of range
    * PanelFileError: a panel or release file does not hold what it should
    * NoRoster (`ports.roster`): the roster is not here, or not ours to read
    * NotSetUp (`ports.topic_setup`): topics that a role uses do not exist yet
    * UnsupportedQuery: a release cannot answer this question
  * Refused (3): going on could break the privacy promise or a released column
    * BudgetExceeded: a step would cost more than the release may spend
  * VerificationFailed (4): what was released does not match its digest
  * BrokerUnavailable (5): the broker cannot be reached or does not allow it
  * NoLedger (6): there is no ledger of the study here
  * NotEnoughMemory (1): a draw may need more memory than there is; nothing was drawn
  * NoiseUnavailable (1): the process that draws noise cannot be started, or ended before it answered

No message carries an individual's id or symbol: a line or a column number says where to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class StreamprocError(Exception):
    """The root: whatever reaches the command line as this ends in one line and `exit_code`."""

    exit_code: ClassVar[int] = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes whole, whatever the arguments of a subclass are."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


class InvalidInput(StreamprocError):
    """Something the user wrote is wrong, and the message says what was expected."""

    exit_code = 2


class StudyError(InvalidInput):
    """One key of a study is wrong: which, what came, what is allowed."""

    def __init__(self, key: str, got: object, allowed: str) -> None:
        self.key = key
        self.got = got
        self.allowed = allowed
        super().__init__(f"{key}: got {got}, allowed: {allowed}")


class PanelFileError(InvalidInput):
    """A panel or release file cannot be used; the message names the file and the line or column."""


class UnsupportedQuery(InvalidInput):
    """A question this release cannot answer, with the reason."""


class RosterUnavailable(InvalidInput):
    """The file is not here, or not for us to read: who only reports need not have it."""


class TopicsNotSetUp(InvalidInput):
    """Topics that a role uses do not exist, or the control topic holds no key."""

    def __init__(self, topics: Sequence[str], message: str) -> None:
        self.topics = topics
        super().__init__(message)


class Refused(StreamprocError):
    """Stopped because going on could break the privacy promise or a released column."""

    exit_code = 3


class BudgetExceeded(Refused):
    """A step would spend more than the release's share of the budget."""

    def __init__(self, release: str, period: int, spent: float, rho: float) -> None:
        self.release = release
        self.period = period
        self.spent = spent
        self.rho = rho
        super().__init__(f"release {release}: period {period} would bring its spending to rho {spent}, above its {rho}")


class VerificationFailed(StreamprocError):
    """What was released does not match what was announced."""

    exit_code = 4


class BrokerUnavailable(StreamprocError):
    """The broker cannot be reached in time, or denies what we need."""

    exit_code = 5


class NoiseUnavailable(StreamprocError):
    """The process that draws noise cannot be started or did not answer; nothing of its draw was kept."""


class NotEnoughMemory(StreamprocError):
    """A draw and what follows from it may need more memory than can be had; so nothing was drawn."""

    def __init__(self, size: int) -> None:
        self.size = size
        needed = f"{-(-size // 2**20):,} MiB of memory that its draw may need"
        super().__init__(f"the next period is not drawn: {needed} cannot be had; allow the process more, and start it again")


class NoLedger(StreamprocError):
    """The broker holds no ledger of the study, so there is nothing to verify."""

    exit_code = 6

    def __init__(self, study: str, broker: str) -> None:
        self.study = study
        self.broker = broker
        super().__init__(
            f"study {study}: there is no ledger of this study here, at {broker}; check the broker's address and the study's "
            "name, or wait until the study has started"
        )


class LogError(StreamprocError):
    """A call on the log did not do what it should."""

    exit_code = 5


class LogUnavailable(LogError, BrokerUnavailable):
    """The broker cannot be reached now; nothing was done."""


class OutcomeUnknown(LogError):
    """The call may or may not have taken effect."""


class Fenced(OutcomeUnknown):
    """A newer transactor has the same id, or the transaction timed out."""


class NotAllowed(LogError, BrokerUnavailable):
    """The broker denies this to us; waiting will not help."""


class PolicyViolated(NotAllowed):
    """The broker's policy for new topics refuses one; the message holds the broker's own reason."""

    def __init__(self, topic: str, reason: str | None) -> None:
        self.topic, self.reason = topic, reason
        why = " ".join((reason or "").split()).rstrip(".") or "it gives no reason"
        super().__init__(
            f"topic {topic}: the broker's policy for new topics refuses it: {why}; ask the administrator of the broker to "
            "allow this topic"
        )


class NoSuchTopic(LogError):
    """The topic does not exist, or does not have the partition."""

    def __init__(self, topic: str, partition: int | None = None) -> None:
        self.topic, self.partition = topic, partition
        super().__init__(
            f"topic {topic} does not exist" if partition is None else f"topic {topic} has no partition {partition}"
        )


class OffsetLost(LogError):
    """The log does not hold the offset asked for. The message has no numbers: how many records there are may be secret."""

    def __init__(self, topic: str, partition: int, offset: int, start: int, end: int) -> None:
        self.topic, self.partition, self.offset, self.start, self.end = topic, partition, offset, start, end
        why = "the topic was deleted and created anew" if start <= offset <= end else "the log begins later or ends earlier"
        super().__init__(f"{topic}/{partition}: cannot be read on from where it was: {why}")


class RecordTooLarge(LogError):
    """The log does not take a record of this size."""

    def __init__(self, topic: str, size: int, limit: int) -> None:
        self.topic, self.size, self.limit = topic, size, limit
        super().__init__(f"{topic}: a record of {size} bytes, expected at most {limit}")


class Malformed(ValueError):
    """These bytes, or these values, are no message. `reason` names fields and limits, never content.

    Raised outside of any `except` block: a chained error (of UTF-8, of MessagePack) would carry the bytes along.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
