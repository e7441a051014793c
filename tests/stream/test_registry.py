"""Streams in the site registry: a restart is the same stream, another broker is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from streamproc.protocol.registry_format import Entry
from streamproc.service.registration import NOBODY_KNOWN, NOT_CHECKED, OTHERS_UNKNOWN
from streamproc.storage.site_registry import SiteRegistry
from tests.stream.conftest import BROKERS, NewPlace
from tests.stream.places import Place, individual, random_symbols

T, PEOPLE = 2, 60


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteRegistry:
    monkeypatch.setenv("STREAMPROC_REGISTRY", str(tmp_path / "registry"))
    return SiteRegistry(tmp_path / "registry")


def rostered(new_place: NewPlace, broker: str = "embedded") -> Place:
    """A study of two periods with a roster."""
    place = new_place(broker, horizon=T, people=PEOPLE, roster="people.txt")
    (place.folder / "people.txt").write_text("".join(f"{individual(row)}\n" for row in range(PEOPLE)))
    return place


def panel_of(place: Place) -> Path:
    return place.write_panel(random_symbols("01", PEOPLE, T, seed=2))


def entries(registry: SiteRegistry) -> tuple[Entry, ...]:
    found = registry.read()
    assert found is not None
    return found.entries


@pytest.mark.parametrize("broker", BROKERS)
def test_a_restart_is_the_same_stream_and_a_replay_is_not(broker: str, new_place: NewPlace, registry: SiteRegistry) -> None:
    place = rostered(new_place, broker)
    panel = panel_of(place)
    first = place.start("run")
    first.says("created the site registry")
    place.do("send", panel, "--period", 1)
    place.do("close", "--period", 1, "--wait")
    first.stop()

    second = place.start("run", "--until-done")
    place.do("send", panel, "--period", 2, "--close")
    second.done()
    (entry,) = entries(registry)
    assert (entry.what, entry.study, entry.rho, entry.again) == ("stream", place.parameters.name, 0.5, False)
    assert entry.people is not None
    assert entry.people.n == PEOPLE
    assert entry.broker == (f"embedded:{place.folder / 'log'}" if broker == "embedded" else place.url)

    refused = place.call("replay", panel, "--out", place.folder / "out")
    assert (refused.code, f"stream of {place.parameters.name}" in refused.complaint) == (3, True)
    place.do("replay", panel, "--out", place.folder / "out", "--again")
    assert place.status()["registry"]["rho"] == 1.0


def test_the_same_study_on_another_broker_is_refused(new_place: NewPlace, registry: SiteRegistry) -> None:
    place = rostered(new_place)
    begun = place.start("run")
    begun.says("created the site registry")
    place.do("status")
    begun.stop()

    elsewhere = ("--broker", f"embedded:{place.folder / 'another'}", "--state", place.folder / "another.state")
    for command in ("run", "synthesize"):
        refused = place.start(command, *elsewhere).end()
        assert (refused.code, "--again accepts that" in refused.complaint) == (3, True)
    accepted = place.start("run", *elsewhere, "--again")
    accepted.says("the people are registered under other releases too: costs add up")
    accepted.stop()
    assert [entry.again for entry in entries(registry)] == [False, True]


def test_without_a_roster_the_study_is_recognised_and_its_people_are_not(
    new_place: NewPlace, registry: SiteRegistry
) -> None:
    place = new_place("embedded", horizon=T, people=PEOPLE)
    begun = place.start("run")
    begun.says(NOBODY_KNOWN)
    begun.stop()
    (entry,) = entries(registry)
    assert entry.people is None

    refused = place.start("run", "--broker", f"embedded:{place.folder / 'another'}", "--state", place.folder / "other").end()
    assert refused.code == 3
    other = new_place("embedded", horizon=T, people=PEOPLE)
    other.do("replay", panel_of(other), "--out", other.folder / "out")
    found = json.loads(other.do("status", "--json").out)["registry"]
    assert (found["releases"], found["unknown"]) == (1, 1)
    assert "1 stream without a roster, whose people it cannot recognise" in other.do("status").out
    third = rostered(new_place)
    begun = third.start("run", "--again")
    begun.says(OTHERS_UNKNOWN)
    begun.stop()


def test_a_log_that_has_moved_is_the_same_stream(new_place: NewPlace, registry: SiteRegistry) -> None:
    place = rostered(new_place)
    begun = place.start("run")
    begun.says("created the site registry")
    place.do("send", panel_of(place), "--close")
    place.do("close", "--period", 1, "--wait")
    begun.stop()
    shutil.move(place.folder / "log", place.folder / "moved")
    place.start("run", "--broker", f"embedded:{place.folder / 'moved'}", "--until-done").done()
    assert len(entries(registry)) == 1


def test_without_a_registry_a_new_stream_says_what_nobody_checks(new_place: NewPlace) -> None:
    place = rostered(new_place)
    begun = place.start("run")
    begun.says(NOT_CHECKED)
    place.do("send", panel_of(place), "--close")
    place.do("close", "--period", 1, "--wait")
    begun.stop()
    assert NOT_CHECKED not in place.start("run", "--until-done").done().complaint
