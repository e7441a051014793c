"""Purging: when a study is over what is private goes, what was released stays and verifies; before that nothing goes."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path

import pytest

from streamproc.service.deployment import GATHER_LOCK, LOCK
from streamproc.storage.state_folder import LocalStateFolder
from tests.stream.conftest import BROKERS, NewPlace
from tests.stream.places import Place, individual, random_symbols
from tests.stream.seen import everything_public

PEOPLE = 200


def finished(place: Place) -> None:
    panel = place.write_panel(random_symbols("01", PEOPLE, place.parameters.horizon, seed=5))
    place.do("send", panel, "--close")
    place.start("run", "--until-done").done()


def private_topics(place: Place) -> set[str]:
    topics = place.topics
    return {topics.reports, topics.control, topics.tallies, topics.rejects}


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("broker", BROKERS)
def test_after_the_last_period_the_private_goes_and_the_released_stays_and_verifies(
    new_place: NewPlace, broker: str
) -> None:
    place = new_place(broker, horizon=2)
    finished(place)
    released, private = everything_public(place), private_topics(place)
    before = place.status() | {"watermark": None}

    said = place.do("purge", "--yes").out

    assert all(topic in said for topic in private) and str(place.state) in said
    assert not place.state.exists()
    assert place.all_topics() & private == set()
    assert everything_public(place) == released
    place.do("verify")
    place.do("pull", "--out", place.folder / "pulled")
    assert place.status() == before
    assert "nothing private was left" in place.do("purge", "--yes").out

    assert "closed already" in place.do("close", "--period", 2).out
    place.start("run", "--until-done").done()
    place.start("gather").done()
    assert not place.state.exists()
    for command in (["send", place.folder / "panel.csv"], ["init"]):
        refused = place.call(*command)
        assert refused.code == 3
        assert "was the study purged?" in refused.complaint
    assert place.call("restore").code == 3
    assert place.all_topics() & private == set()
    assert not any(name.endswith(".state") for name in files(place.state))


@pytest.mark.parametrize("broker", BROKERS)
def test_processes_that_stayed_up_after_the_last_period_do_not_mind(new_place: NewPlace, broker: str) -> None:
    place = new_place(broker, horizon=2)
    place.do("init")
    roles, other = place.start("run", "--public", "127.0.0.1:0"), place.start("gather", "--stay")
    place.do("send", place.write_panel(random_symbols("01", PEOPLE, 2, seed=6)), "--close")
    address = roles.says("listening").rpartition("address=")[2]
    roles.says("the study is over")
    other.says("the study is over")

    place.do("purge", "--yes")

    with urllib.request.urlopen(f"http://{address}/api/v1/releases/recent.csv", timeout=30) as answer:
        assert len(answer.read().splitlines()) > PEOPLE
    assert (roles.stop().code, other.stop().code) == (0, 0)
    assert place.all_topics() & private_topics(place) == set()
    assert not place.state.exists()


def test_a_purge_beside_a_synthesizer_at_work_deletes_nothing(new_place: NewPlace) -> None:
    place = new_place("embedded", horizon=2)
    finished(place)
    disk = LocalStateFolder(place.state)
    assert disk.lock(LOCK)

    refused = place.call("purge", "--yes")

    assert (refused.code, "another synthesizer is using it" in refused.complaint) == (3, True)
    assert private_topics(place) <= place.all_topics()
    disk.unlock(LOCK)


def test_a_purge_beside_a_gatherer_at_work_deletes_nothing(new_place: NewPlace) -> None:
    place = new_place("embedded", horizon=2)
    finished(place)
    before, disk = files(place.state), LocalStateFolder(place.state)
    assert disk.lock(GATHER_LOCK, shared=True)

    refused = place.call("purge", "--yes")

    assert (refused.code, refused.complaint.count("\n")) == (3, 1)
    assert "a gatherer is still using it" in refused.complaint
    assert private_topics(place) <= place.all_topics()
    assert files(place.state) == before
    disk.unlock(GATHER_LOCK)
    place.do("purge", "--yes")
    assert not place.state.exists()


def test_nothing_of_a_person_is_left_in_the_files_of_an_embedded_log(new_place: NewPlace) -> None:
    place = new_place("embedded", horizon=2)
    finished(place)
    everybody = [individual(row).encode() for row in range(PEOPLE)]
    log = place.folder / "log"
    assert all(person in b"".join(path.read_bytes() for path in log.iterdir()) for person in everybody)

    place.do("purge", "--yes")

    left = b"".join(path.read_bytes() for path in log.iterdir())
    assert not any(person in left for person in everybody)


def test_a_study_that_is_not_over_keeps_everything(new_place: NewPlace) -> None:
    place = new_place("embedded", horizon=3)
    panel = place.write_panel(random_symbols("01", PEOPLE, 3, seed=5))
    roles = place.start("run")
    place.do("send", panel, "--through", 2, "--close")
    roles.says("period released period=2")
    assert roles.stop().code == 0
    topics, state = place.all_topics(), files(place.state)

    refused = place.call("purge", "--yes")

    assert refused.code == 3
    assert refused.complaint.count("\n") == 1
    assert "2 of 3 periods are released" in refused.complaint
    assert (place.all_topics(), files(place.state)) == (topics, state)


def test_a_folder_that_holds_something_else_is_left_alone(new_place: NewPlace) -> None:
    place = new_place("embedded", horizon=1, k=1)
    finished(place)
    (place.state / "thesis.tex").write_text("ten years of work")
    topics = place.all_topics()

    refused = place.call("purge", "--yes")

    assert refused.code == 3
    assert "thesis.tex" in refused.complaint
    assert (place.state / "thesis.tex").exists()
    assert place.all_topics() == topics
    (place.state / "thesis.tex").unlink()
    place.do("purge", "--yes")


def test_what_does_not_verify_is_not_purged(new_place: NewPlace) -> None:
    place = new_place("embedded", horizon=1, k=1)
    finished(place)
    topics = place.all_topics()

    async def forge() -> None:
        async with place.connect() as log:
            await log.append(place.topics.ledger, 0, b"no record")

    asyncio.run(forge())
    assert place.call("purge", "--yes").code == 4
    assert place.all_topics() == topics
    assert files(place.state)
