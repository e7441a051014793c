"""A short run, all targets in one process: the same worker that the long run has one of for each target."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.__main__ import Run, line, summary
from tests.fuzz.targets import TARGETS
from tests.fuzz.worker import EVERY, has_atheris

INPUTS = 2_000


def test_a_few_thousand_hostile_inputs_crash_no_decoder(tmp_path: Path) -> None:
    found = Run(INPUTS, seconds=3600, seed=1, crashes=tmp_path).of(EVERY)
    output = "\n".join(map(line, found))
    assert [statistics.target for statistics in found] == list(TARGETS)
    assert not any(statistics.crashes for statistics in found), output
    assert all(statistics.inputs and statistics.largest for statistics in found), output
    assert summary(found).startswith(f"{INPUTS} inputs, {len(TARGETS)} decoders, 0 crashes")
    assert all((statistics.edges or 0) > 100 for statistics in found) or not has_atheris(), output
