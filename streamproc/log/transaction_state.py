"""The order in which the methods of a transactional producer may be called, for every implementation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from streamproc.errors import Fenced, OutcomeUnknown


class TransactionState(Enum):
    """State of a transactional producer."""

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
    """Raises RuntimeError for a call out of order, and refuses every call after one that failed."""

    def __init__(self) -> None:
        self.state = TransactionState.NEW
        self._failure: BaseException | None = None

    @contextmanager
    def transition(self, call: str) -> Iterator[None]:
        """Wrap the work of a call. Success changes the state; after an exception the producer cannot be used again.

        Raises Fenced or OutcomeUnknown if an earlier call failed.
        """
        if isinstance(self._failure, Fenced):
            raise Fenced(str(self._failure))
        if self._failure is not None:
            raise OutcomeUnknown("an earlier call of this transactional producer failed; use a new one")
        before, after = _TRANSITIONS[call]
        if self.state is not before:
            raise RuntimeError(f"{call}: the transactional producer is {self.state.value}, expected {before.value}")
        try:
            yield
        except BaseException as error:
            self._failure = error
            raise
        self.state = after
