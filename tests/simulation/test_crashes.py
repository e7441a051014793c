"""A short version of `make crashes`: every crash that differs, and a few of the pairs."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulation.crashes import main, play, try_alike
from tests.simulation.fated import Crash


def test_after_every_crash_that_differs_every_promise_holds() -> None:
    crashes = [alike[0] for alike in play(())[0].next_crashes()]
    assert len(crashes) > 100
    broken = {str(crash): found for crash in crashes if (found := play((crash,))[1].violations)}
    assert broken == {}


def test_crashes_that_are_alike_are_followed_by_the_same() -> None:
    """Every fourth of them; `make crashes` compares all."""
    several = [alike for alike in play(())[0].next_crashes() if len(alike) > 1][::4]
    assert len(several) > 10
    assert [str(a[0]) for a in several if play((a[0],))[0].course != play((a[-1],))[0].course] == []


def test_a_client_that_dies_before_it_speaks_is_not_like_one_that_has_spoken() -> None:
    after, before = Crash(7, "crash"), Crash(8, "crash")
    assert play((after,))[0].course != play((before,))[0].course
    assert [[after], [before]] == [alike for alike in play(())[0].next_crashes() if after in alike or before in alike]


def test_crashes_that_are_not_alike_are_not_taken_for_such() -> None:
    with pytest.raises(RuntimeError, match="8:crash is not like 7:crash"):
        try_alike([Crash(7, "crash"), Crash(8, "crash")], every=False)


def test_after_a_pair_of_crashes_every_promise_holds() -> None:
    """Sixty pairs, the same in every run; `make crashes` tries all."""
    random = Random(1)
    firsts = play(())[0].next_crashes()
    for _ in range(60):
        first = random.choice(firsts)[0]
        seconds = play((first,))[0].next_crashes()
        pair = (first, random.choice(seconds)[0]) if seconds else (first,)
        assert not play(pair)[1].violations, pair


def test_every_possible_pair_is_counted_and_with_every_played() -> None:
    """Of the last crashes, after which there are few."""
    last = play(())[0].next_crashes()[-1]
    assert len(last) > 1
    possible = sum(len(alike) for first in last for alike in play((first,))[0].next_crashes())
    differing = len(play((last[0],))[0].next_crashes())

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
    assert list(play(crashes, trace=True)[1].trace()) == list(play(crashes, trace=True)[1].trace())


def test_a_crash_that_breaks_a_promise_can_be_repeated_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the sync of the state file, some power cut after its rename loses a draw that was announced."""
    from tests.simulated_filesystem.filesystem import SimulatedFileSystem

    monkeypatch.setattr(SimulatedFileSystem, "sync_file", lambda self, file: None)
    cuts = [alike[0] for alike in play(())[0].next_crashes() if alike[0].way == "power cut"]
    fatal = next(crash for crash in cuts if play((crash,))[1].violations)

    assert main(["--at", str(fatal)]) == 1

    assert "power cut" in capsys.readouterr().out
