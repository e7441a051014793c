"""Process lifecycle: processes wait for an unavailable broker, stop cleanly on signals, and write clean log lines."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from streamproc.log.port import TopicSettings
from tests.broker import KafkaBroker
from tests.broker.fixture import running
from tests.stream.conftest import BROKERS, DeployStudy
from tests.stream.deployed_study import DeployedStudy, individual, random_symbols
from tests.stream.port_forwarder import PortForwarder
from tests.stream.public_records import check_published_once

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
def test_a_command_gives_up_on_a_broker_that_is_away(deploy_study: DeployStudy, command: list[str]) -> None:
    deployed = deploy_study("embedded")
    name, *arguments = [
        str(deployed.write_panel(random_symbols("01", 200, 4, seed=1))) if ".csv" in word else word for word in command
    ]

    ended = deployed.call(name, *arguments, "--broker", NOBODY, "--timeout", 1)

    assert ended.code == 5
    assert ended.out == ""
    assert ended.complaint.startswith("streamproc: ")
    assert len(ended.complaint.splitlines()) == 1
    assert "127.0.0.1:1" in ended.complaint


def test_a_role_that_waits_for_its_broker_says_so_and_ends_on_a_signal(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded")
    roles = [deployed.start(role, "--broker", NOBODY, "--log-json") for role in ("run", "gather", "synthesize")]
    for role in roles:
        first = json.loads(role.says("connecting"))
        assert (first["event"], first["broker"], first["study"]) == ("connecting", NOBODY, deployed.study.name)
        line = json.loads(role.says("the broker is away, trying again in"))
        assert first["at"] < line["at"]
        assert line["level"] == "warning"
        assert "no broker of 127.0.0.1:1 can be reached: Connection refused" in line["event"]
    for role in roles:
        assert role.stop().code == 0
        assert [json.loads(line)["event"] for line in role.log.splitlines()]


@pytest.mark.kafka
def test_roles_go_on_when_the_broker_comes(deploy_study: DeployStudy, kafka_broker: KafkaBroker) -> None:
    deployed = deploy_study("kafka", horizon=2)
    forwarder = PortForwarder(kafka_broker.port)
    roles = deployed.start("run", "--until-done", "--broker", f"kafka://127.0.0.1:{forwarder.port}")
    roles.says("the broker is away, trying again in")
    deployed.do("send", deployed.write_panel(random_symbols("01", 200, 2, seed=16)), "--close")
    assert deployed.status()["released"] == 0

    forwarder.open()
    roles.done()
    forwarder.close()
    assert deployed.status()["released"] == 2


@pytest.mark.kafka
def test_roles_wait_while_the_broker_is_silent_and_go_on(deploy_study: DeployStudy, kafka_broker: KafkaBroker) -> None:
    deployed = deploy_study("kafka", horizon=2)
    panel = deployed.write_panel(random_symbols("01", 200, 2, seed=17))
    roles = deployed.start("run", "--until-done")
    deployed.do("send", panel, "--period", 1, "--close")
    roles.says("period released period=1")

    kafka_broker.freeze()
    try:
        roles.says("the broker is away, trying again in")
    finally:
        kafka_broker.thaw()
    deployed.do("send", panel, "--period", 2, "--close")
    roles.done()
    check_published_once(deployed)


@pytest.mark.slow
@pytest.mark.kafka
def test_roles_survive_brokers_that_are_killed_and_restarted(deploy_study: DeployStudy, tmp_path: Path) -> None:
    deployed = deploy_study("embedded", horizon=3)
    panel = deployed.write_panel(random_symbols("01", 200, 3, seed=18))
    with running(KafkaBroker, tmp_path / "broker") as broker:
        at = ("--broker", broker.url)
        deployed.do("init", *at)
        broker.kill()
        roles = [deployed.start(role, *at) for role in ("gather", "synthesize")]
        for role in roles:
            role.says("the broker is away")
        for period, end in ((1, broker.kill), (2, broker.stop), (3, broker.kill)):
            broker.start()
            deployed.do("send", panel, "--period", period, "--close", *at)
            roles[1].says(f"period released period={period}")
            if period < 3:
                end()
                for role in roles:
                    role.says("the broker is away", 2 * period)
        for role in roles:
            role.done()
        deployed.do("verify", *at)


@pytest.mark.parametrize("broker", BROKERS)
def test_sigterm_is_a_clean_end_and_the_study_goes_on_afterwards(deploy_study: DeployStudy, broker: str) -> None:
    deployed = deploy_study(broker, horizon=2)
    panel = deployed.write_panel(random_symbols("01", 200, 2, seed=19))
    deployed.do("init")
    roles = [deployed.start(role, "--log-json") for role in ("gather", "synthesize")]
    deployed.do("send", panel, "--period", 1, "--close")
    roles[1].says("period released")
    for role in roles:
        ended = role.stop()
        assert ended.code == 0, ended.complaint
        assert ended.out == ""
        check_log(role.log)

    deployed.do("send", panel, "--period", 2, "--close")
    deployed.start("run", "--until-done").done()
    check_published_once(deployed)


def check_log(log: str) -> None:
    """Lines for machines, which name nobody."""
    lines = [json.loads(line) for line in log.splitlines()]
    assert lines
    assert all({"at", "level", "event"} <= set(line) for line in lines)
    assert not any(individual(row) in log for row in range(200))


@pytest.mark.slow
@pytest.mark.parametrize("broker", BROKERS)
def test_whenever_a_role_is_stopped_it_ends_cleanly_and_nothing_is_drawn_twice(
    deploy_study: DeployStudy, broker: str
) -> None:
    """Stopped a little later each time, in the middle of whatever it does then."""
    deployed = deploy_study(broker, horizon=8)
    deployed.do("send", deployed.write_panel(random_symbols("01", 200, 8, seed=20)), "--close")
    for tenths in range(12):
        role = deployed.start("run", "--debug", "--public", "127.0.0.1:0")
        role.says("listening")
        time.sleep(tenths / 10)
        ended = role.stop()
        assert ended.code == 0, ended.complaint
        assert "streamproc: " not in ended.complaint
    deployed.start("run", "--until-done").done()
    check_published_once(deployed)


@pytest.mark.parametrize("broker", BROKERS)
def test_a_role_started_before_init_ends_with_2_and_creates_no_topic(deploy_study: DeployStudy, broker: str) -> None:
    deployed = deploy_study(broker)
    for role in ("gather", "synthesize"):
        ended = deployed.start(role, "--stay").end()
        assert ended.code == 2, ended.complaint
        assert f"study {deployed.parameters.name}: there is no topic " in ended.complaint.splitlines()[-1]
        assert "`streamproc init`" in ended.complaint.splitlines()[-1]
    assert deployed.all_topics() == set()
    assert not deployed.state.exists()


def create(deployed: DeployedStudy, topic: str, settings: TopicSettings) -> None:
    async def work() -> None:
        async with deployed.connect() as log:
            await log.create_topic(topic, settings)

    asyncio.run(work())


@pytest.mark.parametrize("broker", BROKERS)
def test_a_topic_with_other_settings_is_refused_with_the_difference(deploy_study: DeployStudy, broker: str) -> None:
    deployed = deploy_study(broker)
    create(deployed, deployed.topics.reports, TopicSettings(2))
    create(deployed, deployed.topics.ledger, TopicSettings(1, retention_ms=86_400_000, cleanup_policy="compact"))

    refused = deployed.call("init")
    assert refused.code == 3
    assert f"topic {deployed.topics.reports}: has partitions 2 instead of 4; fix the topic" in refused.complaint

    other = deploy_study(broker)
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
def test_topics_are_created_with_the_settings_that_keep_them(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("kafka")
    created = deployed.do("init").out.splitlines()[0].removeprefix("created topics ").split(", ")

    async def settings() -> dict[str, TopicSettings]:
        async with deployed.connect() as log:
            return {topic: await log.settings_of(topic) for topic in created}

    found = asyncio.run(settings())
    for_ever = TopicSettings(1, retention_ms=-1, cleanup_policy="delete", retention_bytes=-1)
    assert found == {
        deployed.topics.reports: TopicSettings(4),
        deployed.topics.rejects: TopicSettings(1, retention_ms=30 * 86_400_000),
        **dict.fromkeys(
            [
                deployed.topics.control,
                deployed.topics.tallies,
                deployed.topics.ledger,
                *map(deployed.topics.synthetic, ("recent", "ever")),
            ],
            for_ever,
        ),
    }
    assert deployed.all_topics() == set(created)
