"""The table of mutants fits the code, and a few of them are hunted; `make mutants` hunts all."""

from __future__ import annotations

import pytest

from tests.simulation.mutant_table import MUTANTS, Mutant
from tests.simulation.mutants import PROJECT, hunt


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_replaces_text_that_stands_exactly_once(mutant: Mutant) -> None:
    assert (PROJECT / "streamproc" / mutant.file).read_text().count(mutant.right) == 1
    assert mutant.right != mutant.wrong


def test_no_two_mutants_are_the_same() -> None:
    assert (
        len({mutant.name for mutant in MUTANTS}) == len({(mutant.file, mutant.wrong) for mutant in MUTANTS}) == len(MUTANTS)
    )
    assert len(MUTANTS) >= 20


def test_the_sound_program_is_not_taken_for_a_mutant() -> None:
    assert hunt(None, seeds=15).seeds is None


@pytest.mark.parametrize("name", ["home partitions are not checked", "a period is published before it is persisted"])
def test_a_mutant_is_noticed(name: str) -> None:
    (mutant,) = [each for each in MUTANTS if each.name == name]
    assert hunt(mutant, seeds=200).seeds is not None
