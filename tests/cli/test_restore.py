"""A `restore` that is refused leaves no trace, and says what is wrong with the folder it was given."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Command, Ended


def test_where_there_is_nothing_to_restore_no_folder_is_made(streamproc: Command, small_study: Path) -> None:
    why = "streamproc: study small: has no ledger, so there is nothing to restore\n"
    assert streamproc("restore", small_study) == Ended(3, "", why)
    assert not (small_study.parent / "small.state").exists()


def test_a_state_that_is_there_is_refused_before_the_broker_is_asked(streamproc: Command, small_study: Path) -> None:
    state = small_study.parent / "small.state"
    state.mkdir(mode=0o700)
    (state / "synthesizer.state").write_bytes(b"whatever it is")
    refused = streamproc("restore", small_study, "--broker", "kafka://127.0.0.1:1")
    assert refused.code == 3
    assert "holds a state already" in refused.complaint
    assert [path.name for path in state.iterdir()] == ["synthesizer.state"]


def test_a_file_in_place_of_the_folder_is_left_alone(streamproc: Command, small_study: Path) -> None:
    state = small_study.parent / "small.state"
    state.write_text("mine")
    assert streamproc("restore", small_study).code == 3  # as there is no ledger
    assert state.read_text() == "mine"
