"""A mutation together with the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutation.syntax_patch import Mutation


@dataclass(frozen=True)
class Fault(Mutation):
    """A mutation of which at least one of certain tests must take notice."""

    tests: tuple[str, ...]
    """Files below `tests/`, or single tests in them: `privacy/test_flow.py::test_name`."""
