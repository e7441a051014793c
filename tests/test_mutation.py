"""The table of deliberate faults fits the code, so that `make mutation` can break it; one of them is tried here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.faults import FAULTS, Fault
from tests.mutation.run import PROJECT, main


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_replaces_text_that_stands_exactly_once(fault: Fault) -> None:
    assert (PROJECT / "streamproc" / fault.file).read_text().count(fault.right) == 1
    assert fault.right != fault.wrong
    assert all((PROJECT / "tests" / Path(test)).exists() for test in fault.tests)


def test_a_fault_turns_its_tests_red() -> None:
    assert main(["costs are rounded down"]) == 0
