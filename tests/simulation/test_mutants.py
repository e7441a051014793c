"""The simulation notices some of its mutants; `make mutants` tries all of them."""

from __future__ import annotations

import pytest

from tests.simulation.mutant_table import MUTANTS
from tests.simulation.mutants import search


def test_the_sound_program_is_not_reported() -> None:
    assert search(None, seeds=15).seeds is None


@pytest.mark.parametrize("name", ["home partitions are not checked", "a period is published before it is persisted"])
def test_a_mutant_is_noticed(name: str) -> None:
    (mutant,) = [each for each in MUTANTS if each.name == name]
    assert search(mutant, seeds=200).seeds is not None
