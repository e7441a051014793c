"""Every deliberate fault applies to the code as it is, and the engine that applies them is exact."""

from __future__ import annotations

import ast

import pytest

from tests.mutation.fault import Fault
from tests.mutation.faults import FAULTS
from tests.mutation.run import main
from tests.mutation.syntax_patch import PROJECT, Mutation, MutationDoesNotApply, mutate, source_file
from tests.simulation.mutant_table import MUTANTS

EVERY_MUTATION: tuple[Mutation, ...] = (*FAULTS, *MUTANTS)

SOURCE = """
class Counter:
    def add(self, n):
        # A comment.
        self.total = (self.total +
                      n)
        self.log(n)
        return self.total

def add(n):
    return n + n
"""


@pytest.mark.parametrize("mutation", EVERY_MUTATION, ids=lambda mutation: mutation.name)
def test_each_mutation_applies_once_and_changes_the_module(mutation: Mutation) -> None:
    source = source_file(mutation).read_text()
    assert ast.dump(ast.parse(mutate(source, mutation))) != ast.dump(ast.parse(source))


def test_no_two_mutations_are_the_same() -> None:
    for table in (FAULTS, MUTANTS):
        assert len({mutation.name for mutation in table}) == len(table) >= 20
        broken = {mutate(source_file(mutation).read_text(), mutation) for mutation in table}
        assert len(broken) == len(table)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_tests_of_each_fault_exist(fault: Fault) -> None:
    for test in fault.tests:
        file, _, name = test.partition("::")
        assert (PROJECT / "tests" / file).is_file()
        assert not name or f"\ndef {name}(" in (PROJECT / "tests" / file).read_text()


def test_a_fault_makes_its_tests_fail() -> None:
    assert main(["costs are rounded down"]) == 0


@pytest.mark.parametrize(
    ("find", "replace", "expected"),
    [
        ("self.total + n", "self.total - n", "self.total = self.total - n"),
        ("self.log( (n) )", "", "self.total = self.total + n\n        return self.total"),
        ("self.log(n)\nreturn self.total", "return self.total\nself.log(n)", "return self.total\n        self.log(n)"),
    ],
    ids=["an expression is replaced", "a statement is deleted", "a run of statements is replaced"],
)
def test_fragments_are_found_whatever_their_format(find: str, replace: str, expected: str) -> None:
    assert expected in mutate(SOURCE, Mutation("x", "m", "Counter.add", find, replace))


@pytest.mark.parametrize(
    ("function", "find", "replace", "reason"),
    [
        ("Counter.add", "self.total - n", "0", "occurs 0 times in m:Counter.add"),
        ("add", "n", "0", "occurs 2 times"),
        ("", "self.total", "0", "occurs 2 times in m, not"),
        ("Counter.remove", "n", "0", "has no Counter.remove"),
        ("add", "n +", "0", "is not Python"),
        ("add", "n + n", "(n) + n", "by the same fragment"),
    ],
)
def test_a_mutation_that_does_not_fit_is_an_error(function: str, find: str, replace: str, reason: str) -> None:
    with pytest.raises(MutationDoesNotApply, match=reason):
        mutate(SOURCE, Mutation("x", "m", function, find, replace))


def test_deleting_the_only_statement_of_a_block_leaves_pass() -> None:
    assert "pass" in mutate("def f():\n    g()\n", Mutation("x", "m", "f", "g()", ""))
