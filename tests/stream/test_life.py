"""How processes live: they wait for a broker that is away, end in order when told to, and keep their log lines clean."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from streamproc.log.port import TopicSettings
from tests.broker import KafkaBroker
from tests.broker.fixture import running
from tests.stream.conftest import BROKERS, NewPlace
from tests.stream.forwarding import Door
from tests.stream.places import Place, individual, random_symbols
from tests.stream.seen import check_seen_once

NOBODY = "kafka://127.0.0.1:1"


@pytest.mark.parametrize(
    "command",
    [
        ["init"],
        ["status"],
        ["watch"],
        ["verify"],
        ["pull", "--out", "out"],
        ["close", "--period", "1"],
        ["close", "--period", "1", "--wait"],
        ["send", "panel.csv"],
        ["restore"],
    ],
    ids=" ".join,
)
def test_a_command_gives_up_on_a_broker_that_is_away(new_place: NewPlace, command: list[str]) -> None:
    place = new_place("embedded")
    name, *arguments = [
        str(place.write_panel(random_symbols("01", 200, 4, seed=1))) if ".csv" in word else word for word in command
    ]

    ended = place.call(name, *arguments, "--broker", NOBODY, "--timeout", 1)

    assert ended.code == 5
    assert ended.out == ""
    assert ended.complaint.startswith("streamproc: ")
    assert len(ended.complaint.splitlines()) == 1
    assert "127.0.0.1:1" in ended.complaint


def test_a_role_that_waits_for_its_broker_says_so_and_ends_on_a_signal(new_place: NewPlace) -> None:
    place = new_place("embedded")
    roles = [place.start(role, "--broker", NOBODY, "--log-json") for role in ("run", "gather", "synthesize")]
    for role in roles:
        first = json.loads(role.says("connecting"))
        assert (first["event"], first["broker"], first["study"]) == ("connecting", NOBODY, place.study.name)
        line = json.loads(role.says("the broker is away, trying again in"))
        assert first["at"] < line["at"]
        assert line["level"] == "warning"
        assert "no broker of 127.0.0.1:1 can be reached: Connection refused" in line["event"]
    for role in roles:
        assert role.stop().code == 0
        assert [json.loads(line)["event"] for line in role.log.splitlines()]


@pytest.mark.kafka
def test_roles_go_on_when_the_broker_comes(new_place: NewPlace, kafka_broker: KafkaBroker) -> None:
    place = new_place("kafka", horizon=2)
    door = Door(kafka_broker.port)
    roles = place.start("run", "--until-done", "--broker", f"kafka://127.0.0.1:{door.port}")
    roles.says("the broker is away, trying again in")
    place.do("send", place.write_panel(random_symbols("01", 200, 2, seed=16)), "--close")
    assert place.status()["released"] == 0

    door.open()
    roles.done()
    door.close()
    assert place.status()["released"] == 2


@pytest.mark.kafka
def test_roles_wait_while_the_broker_is_silent_and_go_on(new_place: NewPlace, kafka_broker: KafkaBroker) -> None:
    place = new_place("kafka", horizon=2)
    panel = place.write_panel(random_symbols("01", 200, 2, seed=17))
    roles = place.start("run", "--until-done")
    place.do("send", panel, "--period", 1, "--close")
    roles.says("period released period=1")

    kafka_broker.freeze()
    try:
        roles.says("the broker is away, trying again in")
    finally:
        kafka_broker.thaw()
    place.do("send", panel, "--period", 2, "--close")
    roles.done()
    check_seen_once(place)


@pytest.mark.slow
@pytest.mark.kafka
def test_roles_survive_brokers_that_are_killed_and_restarted(new_place: NewPlace, tmp_path: Path) -> None:
    place = new_place("embedded", horizon=3)
    panel = place.write_panel(random_symbols("01", 200, 3, seed=18))
    with running(KafkaBroker, tmp_path / "broker") as broker:
        at = ("--broker", broker.url)
        place.do("init", *at)
        broker.kill()
        roles = [place.start(role, *at) for role in ("gather", "synthesize")]
        for role in roles:
            role.says("the broker is away")
        for period, end in ((1, broker.kill), (2, broker.stop), (3, broker.kill)):
            broker.start()
            place.do("send", panel, "--period", period, "--close", *at)
            roles[1].says(f"period released period={period}")
            if period < 3:
                end()
                for role in roles:
                    role.says("the broker is away", 2 * period)
        for role in roles:
            role.done()
        place.do("verify", *at)


@pytest.mark.parametrize("broker", BROKERS)
def test_sigterm_is_a_clean_end_and_the_study_goes_on_afterwards(new_place: NewPlace, broker: str) -> None:
    place = new_place(broker, horizon=2)
    panel = place.write_panel(random_symbols("01", 200, 2, seed=19))
    place.do("init")
    roles = [place.start(role, "--log-json") for role in ("gather", "synthesize")]
    place.do("send", panel, "--period", 1, "--close")
    roles[1].says("period released")
    for role in roles:
        ended = role.stop()
        assert ended.code == 0, ended.complaint
        assert ended.out == ""
        check_log(role.log)

    place.do("send", panel, "--period", 2, "--close")
    place.start("run", "--until-done").done()
    check_seen_once(place)


def check_log(log: str) -> None:
    """Lines for machines, which name nobody."""
    lines = [json.loads(line) for line in log.splitlines()]
    assert lines
    assert all({"at", "level", "event"} <= set(line) for line in lines)
    assert not any(individual(row) in log for row in range(200))


@pytest.mark.slow
@pytest.mark.parametrize("broker", BROKERS)
def test_whenever_a_role_is_stopped_it_ends_cleanly_and_nothing_is_drawn_twice(new_place: NewPlace, broker: str) -> None:
    """Stopped a little later each time, in the middle of whatever it does then."""
    place = new_place(broker, horizon=8)
    place.do("send", place.write_panel(random_symbols("01", 200, 8, seed=20)), "--close")
    for tenths in range(12):
        role = place.start("run", "--debug", "--public", "127.0.0.1:0")
        role.says("listening")
        time.sleep(tenths / 10)
        ended = role.stop()
        assert ended.code == 0, ended.complaint
        assert "streamproc: " not in ended.complaint
    place.start("run", "--until-done").done()
    check_seen_once(place)


@pytest.mark.parametrize("broker", BROKERS)
def test_a_role_started_before_init_ends_with_2_and_creates_no_topic(new_place: NewPlace, broker: str) -> None:
    place = new_place(broker)
    for role in ("gather", "synthesize"):
        ended = place.start(role, "--stay").end()
        assert ended.code == 2, ended.complaint
        assert f"study {place.parameters.name}: there is no topic " in ended.complaint.splitlines()[-1]
        assert "`streamproc init`" in ended.complaint.splitlines()[-1]
    assert place.all_topics() == set()
    assert not place.state.exists()


def create(place: Place, topic: str, settings: TopicSettings) -> None:
    async def work() -> None:
        async with place.connect() as log:
            await log.create_topic(topic, settings)

    asyncio.run(work())


@pytest.mark.parametrize("broker", BROKERS)
def test_a_topic_with_other_settings_is_refused_with_the_difference(new_place: NewPlace, broker: str) -> None:
    place = new_place(broker)
    create(place, place.topics.reports, TopicSettings(2))
    create(place, place.topics.ledger, TopicSettings(1, retention_ms=86_400_000, cleanup_policy="compact"))

    refused = place.call("init")
    assert refused.code == 3
    assert f"topic {place.topics.reports}: has partitions 2 instead of 4; fix the topic" in refused.complaint

    other = new_place(broker)
    create(other, other.topics.ledger, TopicSettings(1, retention_ms=86_400_000, cleanup_policy="compact"))
    for command in ("init", "close"):
        refused = other.call(command, *(["--period", 1] if command == "close" else []))
        assert refused.code == 3
        assert "retention_ms 86400000 instead of -1, cleanup_policy compact instead of delete" in refused.complaint
    plain = other.start("run").end()
    assert plain.code == 3
    assert "cleanup_policy compact instead of delete" in plain.complaint.splitlines()[-1]
    for_machines = other.start("run", "--log-json").end()
    assert for_machines.code == 3
    last = json.loads(for_machines.complaint.splitlines()[-1])
    assert (last["level"], last["exit_code"]) == ("error", 3)
    assert plain.complaint.splitlines()[-1] == f"streamproc: {last['event']}"


@pytest.mark.kafka
def test_topics_are_created_with_the_settings_that_keep_them(new_place: NewPlace) -> None:
    place = new_place("kafka")
    created = place.do("init").out.splitlines()[0].removeprefix("created topics ").split(", ")

    async def settings() -> dict[str, TopicSettings]:
        async with place.connect() as log:
            return {topic: await log.settings_of(topic) for topic in created}

    found = asyncio.run(settings())
    for_ever = TopicSettings(1, retention_ms=-1, cleanup_policy="delete", retention_bytes=-1)
    assert found == {
        place.topics.reports: TopicSettings(4),
        place.topics.rejects: TopicSettings(1, retention_ms=30 * 86_400_000),
        **dict.fromkeys(
            [
                place.topics.control,
                place.topics.tallies,
                place.topics.ledger,
                *map(place.topics.synthetic, ("recent", "ever")),
            ],
            for_ever,
        ),
    }
    assert place.all_topics() == set(created)
