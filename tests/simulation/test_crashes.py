"""A short version of `make crashes`: every crash that differs, and a few of the pairs."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulation.crashes import Crash, main, play


def test_after_every_crash_that_differs_every_promise_holds() -> None:
    crashes = list(play(())[0].next_crashes(different=True))
    assert len(crashes) > 100
    broken = {str(crash): found for crash in crashes if (found := play((crash,))[1].violations)}
    assert broken == {}


def test_after_a_pair_of_crashes_every_promise_holds() -> None:
    """Sixty pairs, the same in every run; `make crashes` tries all."""
    random = Random(1)
    firsts = list(play(())[0].next_crashes(different=True))
    for _ in range(60):
        first = random.choice(firsts)
        seconds = list(play((first,))[0].next_crashes(different=True))
        pair = (first, random.choice(seconds)) if seconds else (first,)
        assert not play(pair)[1].violations, pair


def test_a_run_with_the_same_crashes_is_the_same_run() -> None:
    crashes = (Crash(200, "power cut"), Crash(20, "crash"))
    assert list(play(crashes, trace=True)[1].trace()) == list(play(crashes, trace=True)[1].trace())


def test_a_crash_that_breaks_a_promise_can_be_repeated_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the sync of the state file, some power cut after its rename loses a draw that was announced."""
    from streamproc.ports.simulated.file_system import SimulatedFileSystem

    monkeypatch.setattr(SimulatedFileSystem, "sync_file", lambda self, file: None)
    cuts = [crash for crash in play(())[0].next_crashes() if crash.way == "power cut"]
    fatal = next(crash for crash in cuts if play((crash,))[1].violations)

    assert main(["--at", str(fatal)]) == 1

    assert "power cut" in capsys.readouterr().out
