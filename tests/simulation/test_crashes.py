"""A short version of `make crashes`: every crash that differs, and a few of the pairs."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulation.crash_plan import Crash
from tests.simulation.crashes import main, run_with_crashes, try_alike


def test_after_every_crash_that_differs_every_promise_holds() -> None:
    crashes = [alike[0] for alike in run_with_crashes(())[0].next_crashes()]
    assert len(crashes) > 100
    broken = {str(crash): found for crash in crashes if (found := run_with_crashes((crash,))[1].violations)}
    assert broken == {}


def test_crashes_that_are_alike_are_followed_by_the_same() -> None:
    """Every fourth of them; `make crashes` compares all."""
    several = [alike for alike in run_with_crashes(())[0].next_crashes() if len(alike) > 1][::4]
    assert len(several) > 10
    assert [str(a[0]) for a in several if run_with_crashes((a[0],))[0].course != run_with_crashes((a[-1],))[0].course] == []


def test_a_client_that_dies_before_it_speaks_is_not_like_one_that_has_spoken() -> None:
    after, before = Crash(7, "crash"), Crash(8, "crash")
    assert run_with_crashes((after,))[0].course != run_with_crashes((before,))[0].course
    assert [[after], [before]] == [
        alike for alike in run_with_crashes(())[0].next_crashes() if after in alike or before in alike
    ]


def test_crashes_that_are_not_alike_are_not_taken_for_such() -> None:
    with pytest.raises(RuntimeError, match="8:crash is not like 7:crash"):
        try_alike([Crash(7, "crash"), Crash(8, "crash")], every=False)


def test_after_a_pair_of_crashes_every_promise_holds() -> None:
    """Sixty pairs, the same in every run; `make crashes` tries all."""
    random = Random(1)
    firsts = run_with_crashes(())[0].next_crashes()
    for _ in range(60):
        first = random.choice(firsts)[0]
        seconds = run_with_crashes((first,))[0].next_crashes()
        pair = (first, random.choice(seconds)[0]) if seconds else (first,)
        assert not run_with_crashes(pair)[1].violations, pair


def test_every_possible_pair_is_counted_and_with_every_played() -> None:
    """Of the last crashes, after which there are few."""
    last = run_with_crashes(())[0].next_crashes()[-1]
    assert len(last) > 1
    possible = sum(len(alike) for first in last for alike in run_with_crashes((first,))[0].next_crashes())
    differing = len(run_with_crashes((last[0],))[0].next_crashes())

    some, every = try_alike(last, every=False), try_alike(last, every=True)

    assert (some.crashes, some.pairs, some.possible) == (len(last), differing, possible)
    assert (every.crashes, every.pairs, every.possible) == (len(last), possible, possible)
    assert differing < possible


@pytest.mark.parametrize("part", ["0/3", "4/3", "3", "1/x", "-1/3"])
def test_a_part_that_is_none_is_refused(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([f"--part={part}"])
    assert ended.value.code == 2
    assert "expected K/N, K from 1 to N" in capsys.readouterr().err


def test_a_run_with_the_same_crashes_is_the_same_run() -> None:
    crashes = (Crash(200, "power cut"), Crash(20, "crash"))
    assert list(run_with_crashes(crashes, trace=True)[1].trace()) == list(run_with_crashes(crashes, trace=True)[1].trace())


def test_a_crash_that_breaks_a_promise_can_be_repeated_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the sync of the state file, some power cut after its rename loses a draw that was announced."""
    from tests.simulated_filesystem.filesystem import SimulatedFileSystem

    monkeypatch.setattr(SimulatedFileSystem, "sync_file", lambda self, file: None)
    cuts = [alike[0] for alike in run_with_crashes(())[0].next_crashes() if alike[0].way == "power cut"]
    fatal = next(crash for crash in cuts if run_with_crashes((crash,))[1].violations)

    assert main(["--at", str(fatal)]) == 1

    assert "power cut" in capsys.readouterr().out
