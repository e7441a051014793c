"""How long one broker is waited for: a client learns only when it stops waiting that others would have answered."""

from __future__ import annotations

LEAST = 2.0
"""Seconds for one broker to answer, at least, unless the whole call has less."""


def for_a_question(timeout: float) -> float:
    """Of a call that may take so many seconds: for what any broker answers at once."""
    return max(timeout / 8, min(timeout, LEAST))


def for_work(timeout: float) -> float:
    """The same for what may take a broker longer, such as a record that all copies must have.

    Two may be silent one after the other, and still a third is asked in time.
    """
    return max(timeout / 3, min(timeout, LEAST))


def milliseconds(seconds: float) -> int:
    """As aiokafka counts."""
    return int(1000 * seconds)
