"""State folders that are old, lost, copied or used twice: refused, or restored, and no draw is ever made again unnoticed."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import msgpack
import pytest

from tests.stream.altered import DEAD
from tests.stream.conftest import BROKERS, ONE_NORMALLY, NewPlace
from tests.stream.places import Place, random_symbols
from tests.stream.programs import PATIENCE, Program
from tests.stream.seen import check_seen_once, everything_public


def panel_of(place: Place) -> Path:
    return place.write_panel(random_symbols("01", 200, place.parameters.horizon, seed=5))


def complaint_of(program: Program) -> str:
    """What a program says that refuses: one line."""
    ended = program.end()
    assert ended.code == 3, ended.complaint
    (line,) = [line for line in ended.complaint.splitlines() if line.startswith("streamproc: ")]
    return line


def release(place: Place, panel: Path, period: int) -> None:
    """Run all roles until this period is out."""
    roles = place.start("run")
    place.do("send", panel, "--period", period, "--close")
    roles.says(f"period released period={period}")
    assert roles.stop().code == 0


def check_refused(place: Place, role: str, why: str) -> None:
    """Starting is refused for this reason, and changes nothing."""
    before = everything_public(place)
    assert why in complaint_of(place.start(role))
    assert everything_public(place) == before


def first_to_end(programs: Sequence[Program]) -> Program:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for program in programs:
            if not program.runs:
                return program
        time.sleep(0.05)
    raise AssertionError("none of them ends")


@pytest.mark.parametrize("broker", BROKERS)
def test_old_or_lost_state_is_refused_and_can_be_restored(new_place: NewPlace, broker: str) -> None:
    place = new_place(broker)
    panel = panel_of(place)
    release(place, panel, 1)
    old = shutil.copytree(place.state, place.folder / "old")
    release(place, panel, 2)

    shutil.rmtree(place.state)
    old.rename(place.state)
    check_refused(place, "run", "the state folder is old: it ends at period 1, the ledger at 2")

    shutil.rmtree(place.state)
    check_refused(place, "run", "the ledger ends at period 2, but the state folder holds nothing")

    assert "as of period 2" in place.do("restore").out
    again = place.call("restore")
    assert again.code == 3
    assert "holds a state already" in again.complaint

    place.do("send", panel, "--close")
    place.start("run", "--until-done").done()
    check_seen_once(place)
    place.do("verify")


@pytest.mark.parametrize(("broker", "period"), [("embedded", 1), pytest.param("kafka", 2, marks=pytest.mark.kafka)])
def test_a_lost_draw_that_was_announced_is_paid_for_twice_or_not_made_again(
    new_place: NewPlace, broker: str, period: int
) -> None:
    place = new_place(broker, horizon=3)
    place.do("init")
    gatherer = place.start("gather", "--state", place.folder / "gatherer")
    place.do("send", panel_of(place), "--close")
    assert place.start_altered(f"after-announce@{period}", "synthesize").end().code == DEAD
    shutil.rmtree(place.state)

    lost = f"the ledger ends at period {period - 1}, and the next was announced, but the state folder holds nothing"
    check_refused(place, "synthesize", lost)
    refused = place.call("restore")
    assert refused.code == 3
    assert f"period {period} was announced" in refused.complaint
    assert not (place.state / "synthesizer.state").exists()

    place.do("restore", "--accept-cost")
    place.start("synthesize").done()
    gatherer.done()
    place.do("verify")
    status = place.status()
    assert status["rho_spent"] > status["rho"]
    ledger = [msgpack.unpackb(value) for value in place.values(place.topics.ledger)]
    abandoned = {record["period"]: len(record["abandoned"]) for record in ledger if record["type"] == "period"}
    assert abandoned == {each: int(each == period) for each in (1, 2, 3)}


@pytest.mark.parametrize("broker", ONE_NORMALLY)
def test_two_synthesizers_with_copies_of_one_state_folder_publish_one_draw(new_place: NewPlace, broker: str) -> None:
    place = new_place(broker, horizon=4)
    panel = panel_of(place)
    place.do("init")
    place.start("gather")
    place.do("send", panel, "--through", 3, "--close")
    assert place.start_altered("after-persist@2", "synthesize").end().code == DEAD
    shutil.copytree(place.state, place.folder / "copy")

    both = [place.start("synthesize"), place.start("synthesize", "--state", place.folder / "copy")]

    loser = first_to_end(both)
    assert loser.end().code == 3
    # Not before: one that is slow to start would find the study over, and end well.
    place.do("send", panel, "--period", 4, "--close")
    (winner,) = (program for program in both if program is not loser)
    winner.done()
    check_seen_once(place)
    place.do("verify")


@pytest.mark.parametrize("broker", ONE_NORMALLY)
def test_a_second_synthesizer_fences_the_first(new_place: NewPlace, broker: str) -> None:
    place = new_place(broker)
    panel = panel_of(place)
    place.do("init")
    gatherer, first = place.start("gather"), place.start("synthesize")
    place.do("send", panel, "--period", 1, "--close")
    first.says("period released period=1")
    assert "another synthesizer is using it" in complaint_of(place.start("synthesize"))

    shutil.copytree(place.state, place.folder / "copy")
    second = place.start("synthesize", "--state", place.folder / "copy")
    second.says("going on after what is released")
    place.do("send", panel, "--close")

    assert sorted((first.end().code, second.end().code)) == [0, 3]
    assert "fenced" in first.log
    gatherer.done()
    check_seen_once(place)
    verified = json.loads(place.do("verify", "--json").out)
    assert verified.items() >= {"study": place.parameters.name, "verified": True, "periods": 4, "columns": 8}.items()
