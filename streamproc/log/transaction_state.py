"""The legal order of a transactor's calls, in one place for every log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from streamproc.errors import Fenced, OutcomeUnknown


class TransactionState(Enum):
    """Where a transactor stands."""

    NEW = "new"
    READY = "fenced"
    OPEN = "in a transaction"


_TRANSITIONS = {
    "fence": (TransactionState.NEW, TransactionState.READY),
    "begin": (TransactionState.READY, TransactionState.OPEN),
    "send": (TransactionState.OPEN, TransactionState.OPEN),
    "commit": (TransactionState.OPEN, TransactionState.READY),
}


class TransactionStateMachine:
    """A call out of order is a mistake of ours (RuntimeError); after one that failed, every other is refused."""

    def __init__(self) -> None:
        self.state = TransactionState.NEW
        self._failure: BaseException | None = None

    @contextmanager
    def transition(self, call: str) -> Iterator[None]:
        """Around the call's work: on success the transactor moves on, on any exception it is spent."""
        if isinstance(self._failure, Fenced):
            raise Fenced(str(self._failure))
        if self._failure is not None:
            raise OutcomeUnknown("an earlier call of this transactor failed; begin again with a new one")
        before, after = _TRANSITIONS[call]
        if self.state is not before:
            raise RuntimeError(f"{call} of a transactor that is {self.state.value}, expected one that is {before.value}")
        try:
            yield
        except BaseException as error:
            self._failure = error
            raise
        self.state = after
