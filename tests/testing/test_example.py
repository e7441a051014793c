"""The example in the documentation of `streamproc.testing` runs as it stands."""

from __future__ import annotations

import doctest

import streamproc.testing


def test_the_example_of_the_docstring_runs() -> None:
    outcome = doctest.testmod(streamproc.testing)
    assert outcome.attempted >= 5
    assert outcome.failed == 0


def test_every_exported_name_is_documented() -> None:
    for name in streamproc.testing.__all__:
        if name != "BEGINNING":
            assert getattr(streamproc.testing, name).__doc__, name
