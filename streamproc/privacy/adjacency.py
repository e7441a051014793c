"""The relation that says which data sets are neighbours. Every cost in this package is stated under it."""

from __future__ import annotations

from enum import Enum


class Adjacency(Enum):
    """Two panels of `n` people (`n` public) are neighbours when one person's whole history differs."""

    REPLACE_ONE = "replace-one"
    """The history is replaced by any other history."""

    ADD_REMOVE = "add-remove"
    """Open studies only: the person takes part in the study or does not. Replace-one also relates two participations."""

    ZERO_OUT = "zero-out"
    """The history is replaced by "in no bin": the person's contribution to every count becomes zero.

    A window release has no input that is such a neighbour: `n` is fixed, and every member is in exactly one bin in every
    period. For a cumulative release it is the history without an event, and no other. So wherever a cost under this relation
    is shown, the cost of the same noise under replace-one is shown beside it.
    """


CLOSED_ADJACENCIES = (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT)
"""The relations of a study whose people are fixed before period 1."""
