"""Every error that a user can meet, as one tree. The number is the exit code that the command line returns.

* StreamprocError (1): carries an exit code and reads as one line
  * InvalidInput (2): the command, the study or a file is wrong
    * StudyError: a key of the study file is unknown, missing or out of range
    * PanelFileError: a panel or release file does not hold what it should
    * UnsupportedQuery: a release cannot answer this question
    * UnknownRelease: a result has no release of this name (also a KeyError)
    * RosterUnavailable: the roster file does not exist here or cannot be read
    * TopicsNotSetUp: topics that a role uses do not exist yet
  * Refused (3): continuing could break the privacy promise or a released column
    * BudgetExceeded: a step would cost more than the release may spend
    * StudyChanged: the ledger belongs to a study with other values
    * StudyNotOver: the study has periods left to release
    * StudyWithoutPeople: nobody is in the study
    * TopicLost: a topic, or records of it that the study needs, are gone
    * LedgerConflict: the ledger is not valid, or contradicts the state folder or another topic
    * TallyConflict: a tally contradicts the study or another tally
    * WriterConflict: another process writes what only the synthesizer may write
    * StateLost: the state folder lacks what the ledger says was drawn
    * NothingToRestore: no released period needs a state folder
    * StateFolderUnusable: the state folder is in use, or must not be changed
    * StateFileUnusable: a state file is damaged, or belongs to another study or topic
    * PeriodsOverdue: the schedule has missed the end of one or more periods
  * VerificationFailed (4): what was released does not match the ledger
  * BrokerUnavailable (5): the broker cannot be reached or denies access
  * LogError (5): a call on the log failed
    * LogUnavailable: the broker cannot be reached now (also a BrokerUnavailable)
    * OutcomeUnknown: the call may or may not have taken effect
      * Fenced: another producer took over the transactional id, or the transaction timed out
    * NotAllowed: the broker denies the call (also a BrokerUnavailable)
      * PolicyViolated: the broker's policy for new topics rejects a topic
    * NoSuchTopic: the topic or the partition does not exist
    * OffsetLost: the log does not hold the requested offset
    * RecordTooLarge: the log does not accept a record of this size
  * NoLedger (6): the broker holds no ledger of the study
  * NotEnoughMemory (1): a draw may need more memory than is available; nothing was drawn
  * NoiseUnavailable (1): the process that draws noise cannot be started, or ended before it returned

`Malformed` is a ValueError outside of this tree: decoders of untrusted bytes raise it, and their callers turn it into one of
the errors above.

No message carries an individual's id or symbol: a line or a column number says where to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class StreamprocError(Exception):
    """Root of all errors that a user can meet. The command line prints its message and exits with `exit_code`.

    >>> try:
    ...     sp.Study.load("no-such-study.toml")
    ... except sp.StreamprocError as error:
    ...     print(error.exit_code)
    2
    """

    exit_code: ClassVar[int] = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error with its attributes, whatever arguments the constructor of a subclass takes."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


class InvalidInput(StreamprocError):
    """The command, the study or a file is wrong. The message says what was expected.

    >>> try:
    ...     sp.load("nowhere")
    ... except sp.InvalidInput as error:
    ...     print(error)
    nowhere: is not a folder
    """

    exit_code = 2


class StudyError(InvalidInput):
    """One key of a study is wrong: `key` names it, `got` is its value, `allowed` says which values are valid.

    >>> try:
    ...     sp.Window("quarterly", k=0)
    ... except sp.StudyError as error:
    ...     print(error.key, error.got)
    release.quarterly.k 0
    """

    def __init__(self, key: str, got: object, allowed: str) -> None:
        self.key = key
        self.got = got
        self.allowed = allowed
        super().__init__(f"{key}: got {got}, allowed: {allowed}")


class PanelFileError(InvalidInput):
    """A panel or release file cannot be used. The message names the file and the line or column.

    >>> try:
    ...     sp.Panel.load("people.csv")
    ... except sp.PanelFileError as error:
    ...     print(error.exit_code)
    2
    """


class UnsupportedQuery(InvalidInput):
    """A release cannot answer this question. The message says why.

    >>> try:
    ...     result["quarterly"].fraction(sp.at_least(3))
    ... except sp.UnsupportedQuery:
    ...     print("ask a cumulative release")
    ask a cumulative release
    """


class UnknownRelease(InvalidInput, KeyError):
    """A result or a study has no release of this name."""

    def __init__(self, name: str, releases: Sequence[str]) -> None:
        self.name = name
        super().__init__(f"release: got {name!r}, allowed: {', '.join(releases)}")

    __str__ = Exception.__str__


class RosterUnavailable(InvalidInput):
    """The roster file does not exist here or cannot be read. A process that only sends reports does not need it."""


class TopicsNotSetUp(InvalidInput):
    """Topics that a role uses do not exist, or the control topic holds no key."""

    def __init__(self, topics: Sequence[str], message: str) -> None:
        self.topics = topics
        super().__init__(message)


class Refused(StreamprocError):
    """The process stops because continuing could break the privacy promise or a released column.

    >>> issubclass(sp.BudgetExceeded, sp.Refused), sp.Refused.exit_code
    (True, 3)
    """

    exit_code = 3


class BudgetExceeded(Refused):
    """A step would spend more than the release's share of the budget.

    >>> str(sp.BudgetExceeded("quarterly", period=3, spent=0.006, rho=0.005))
    'release quarterly: period 3 would bring its spending to rho 0.006, above its 0.005'
    """

    def __init__(self, release: str, period: int, spent: float, rho: float) -> None:
        self.release = release
        self.period = period
        self.spent = spent
        self.rho = rho
        super().__init__(f"release {release}: period {period} would bring its spending to rho {spent}, above its {rho}")


class StudyChanged(Refused):
    """The ledger was begun by a study of the same name with other values, or on the other side of `--seed`."""

    def __init__(self, study: str, problem: str) -> None:
        self.study = study
        super().__init__(f"study {study}: {problem}")


class StudyNotOver(Refused):
    """Only a study whose last period is released can be purged. `horizon` is None if the study has none."""

    def __init__(self, study: str, released: int, horizon: int | None) -> None:
        self.study, self.released, self.horizon = study, released, horizon
        how_far = (
            f"{released} of {horizon} periods are released"
            if horizon is not None
            else f"it has no horizon, {released} periods are released and none is closed as the last (close --last)"
        )
        super().__init__(f"study {study}: {how_far}; only a study that is over can be purged")


class StudyWithoutPeople(Refused):
    """Nobody is in the study, so it would spend its budget on nobody."""


class TopicLost(Refused):
    """A topic, or records of it that the study needs, are gone: it was deleted, recreated or trimmed."""

    def __init__(self, topic: str, problem: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic}: {problem}")


class LedgerConflict(Refused):
    """The ledger is not valid, or contradicts the state folder or another topic."""


class TallyConflict(Refused):
    """A record of the tallies topic contradicts the study or another tally.

    `partition` and `period` say which tally it is; they are None where the record is not a tally.
    """

    def __init__(self, message: str, *, partition: int | None = None, period: int | None = None) -> None:
        self.partition, self.period = partition, period
        super().__init__(message)


class WriterConflict(Refused):
    """Another process writes to topics that only the study's one synthesizer may write to."""


class StateLost(Refused):
    """The state folder lacks a draw that was announced or released up to period `released` or the one after it."""

    def __init__(self, released: int, message: str) -> None:
        self.released = released
        super().__init__(message)


class NothingToRestore(Refused):
    """The study has released and announced nothing, so no state can have been lost."""

    def __init__(self, study: str, problem: str) -> None:
        self.study = study
        super().__init__(f"study {study}: {problem}")


class StateFolderUnusable(Refused):
    """Another process uses the state folder, or it holds something that must not be overwritten."""

    def __init__(self, folder: object, problem: str) -> None:
        self.folder = str(folder)
        super().__init__(f"state folder {folder}: {problem}")


class StateFileUnusable(Refused):
    """A state file is damaged, or belongs to another study or to an earlier incarnation of a topic."""

    def __init__(self, file: str, problem: str) -> None:
        self.file = file
        super().__init__(f"state file {file}: {problem}")


class PeriodsOverdue(Refused):
    """Periods `first..last` ended by the schedule before anything could close them, so their reports are mixed."""

    def __init__(self, first: int, last: int, message: str) -> None:
        self.first, self.last = first, last
        super().__init__(message)


class VerificationFailed(StreamprocError):
    """What was released does not match what the ledger says.

    >>> sp.VerificationFailed.exit_code
    4
    """

    exit_code = 4


class BrokerUnavailable(StreamprocError):
    """The broker cannot be reached in time, or denies what the process needs.

    >>> async def reachable():
    ...     try:
    ...         async with sp.connect(study, broker="kafka://127.0.0.1:1", timeout=1) as stream:
    ...             await stream.close_period(1)
    ...     except sp.BrokerUnavailable:
    ...         return False
    >>> asyncio.run(reachable())
    False
    """

    exit_code = 5


class NoiseUnavailable(StreamprocError):
    """The process that draws noise cannot be started, or ended before it returned. Nothing of its draw was kept."""


class NotEnoughMemory(StreamprocError):
    """A draw may need `size` bytes of memory, which are not available. Nothing was drawn."""

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
    """A call on the log failed."""

    exit_code = 5


class LogUnavailable(LogError, BrokerUnavailable):
    """The broker cannot be reached now. The call had no effect."""


class OutcomeUnknown(LogError):
    """The call may or may not have taken effect."""


class Fenced(OutcomeUnknown):
    """A newer producer has the same transactional id, or the transaction timed out."""


class NotAllowed(LogError, BrokerUnavailable):
    """The broker denies this call to this user. A retry does not help."""


class PolicyViolated(NotAllowed):
    """The broker's policy for new topics rejects a topic. The message holds the broker's own reason."""

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
    """The log does not hold the requested offset.

    The message contains no offsets, because the number of records in a topic may be secret.
    """

    def __init__(self, topic: str, partition: int, offset: int, start: int, end: int) -> None:
        self.topic, self.partition, self.offset, self.start, self.end = topic, partition, offset, start, end
        why = "the topic was deleted and recreated" if start <= offset <= end else "the log begins later or ends earlier"
        super().__init__(f"{topic}/{partition}: cannot continue to read from the previous position: {why}")


class RecordTooLarge(LogError):
    """The log does not accept a record of this size."""

    def __init__(self, topic: str, size: int, limit: int) -> None:
        self.topic, self.size, self.limit = topic, size, limit
        super().__init__(f"{topic}: a record of {size} bytes, expected at most {limit}")


class Malformed(ValueError):
    """Bytes or values are not a valid message. `reason` names fields and limits, never content.

    Raise it outside of any `except` block: a chained error of the UTF-8 or MessagePack decoder would carry the bytes.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
