"""A cluster of three brokers: whichever dies, the study goes on; while two are away, nothing is acknowledged."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from streamproc.client.reporter import Reporter
from streamproc.errors import LogUnavailable, OutcomeUnknown
from streamproc.log.connect import connect
from streamproc.log.port import Log, TopicSettings
from tests.broker.cluster import OFFSETS, TRANSACTIONS, KafkaCluster, Node
from tests.broker.fixture import running
from tests.stream.deployed_study import DeployedStudy, Symbols, individual, random_symbols
from tests.stream.exact import check_columns, check_rejects, check_tallies, models
from tests.stream.paused_publishing import PAUSED
from tests.stream.programs import PATIENCE, Programs
from tests.stream.public_records import check_published_once
from tests.stream.report_traffic import RawRecord, ReportTraffic, send_raw
from tests.stream.test_listeners import Listeners, ask
from tests.studies import StudyParameters

pytestmark = pytest.mark.kafka

SAFE = TopicSettings(1, replication=3, min_insync_replicas=2)
PEOPLE = [individual(row) for row in range(200)]


@pytest.fixture(scope="module")
def whole_or_not(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with running(KafkaCluster, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(whole_or_not: KafkaCluster) -> Iterator[KafkaCluster]:
    """Whole, however the test before ended."""
    whole_or_not.restart_stopped_nodes()
    yield whole_or_not


def deploy_study(cluster: KafkaCluster, programs: Programs, folder: Path, horizon: int) -> DeployedStudy:
    parameters = StudyParameters(f"s-{uuid.uuid4().hex[:8]}", horizon=horizon)
    home = folder / parameters.name
    home.mkdir()
    deployed = DeployedStudy(home, cluster.url, parameters, programs, {"STREAMPROC_ALLOW_INSECURE": "1"})
    deployed.write_study()
    return deployed


def create(deployed: DeployedStudy, topic: str, settings: TopicSettings) -> None:
    async def work() -> None:
        async with deployed.connect() as log:
            await log.create_topic(topic, settings)

    asyncio.run(work())


def test_topics_have_three_copies_and_one_with_fewer_is_refused(
    cluster: KafkaCluster, programs: Programs, tmp_path: Path
) -> None:
    deployed = deploy_study(cluster, programs, tmp_path, horizon=2)
    created = deployed.do("init").out.splitlines()[0].removeprefix("created topics ").split(", ")

    async def settings() -> dict[str, TopicSettings]:
        async with deployed.connect() as log:
            return {topic: await log.settings_of(topic) for topic in created}

    found = asyncio.run(settings())
    assert set(found) == deployed.all_topics()
    assert len(found) == 7
    safe = {(each.replication, each.min_insync_replicas, each.unclean_leader_election) for each in found.values()}
    assert safe == {(3, 2, False)}

    for settings_of_another, difference in (
        (TopicSettings(1), "replication 1 instead of 3, min_insync_replicas 1 instead of 2"),
        (TopicSettings(1, replication=3), "min_insync_replicas 1 instead of 2"),
        (
            TopicSettings(1, replication=3, min_insync_replicas=2, unclean_leader_election=True),
            "unclean_leader_election True instead of False",
        ),
    ):
        other = deploy_study(cluster, programs, tmp_path, horizon=2)
        create(other, other.topics.ledger, settings_of_another)
        refused = other.call("init")
        assert refused.code == 3
        assert f"topic {other.topics.ledger}: has {difference}; fix the topic" in refused.complaint


def test_a_topic_that_was_created_is_there_whichever_broker_is_asked(cluster: KafkaCluster) -> None:
    """Brokers learn of it one after the other."""

    async def create_and_ask() -> None:
        async with connect(cluster.url) as log:
            for _ in range(10):
                topic = f"t-{uuid.uuid4().hex[:8]}"
                await log.create_topic(topic, SAFE)
                assert await asyncio.gather(*(log.high_watermark(topic, 0) for _ in range(10))) == [0] * 10
                assert topic in await log.topics()
                assert await log.settings_of(topic) == SAFE
                await log.delete_topic(topic)
                assert topic not in await log.topics()

    asyncio.run(create_and_ask())


async def append_at_last(log: Log, topic: str, value: bytes) -> int:
    """The status. It is retried, because a new client may ask a stopped broker first, and again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(LogUnavailable, OutcomeUnknown):
                return int(await log.append(topic, 0, value))


def test_a_leader_that_was_replaced_while_it_slept_is_not_believed(cluster: KafkaCluster) -> None:
    """It wakes up and answers as of before: a cut at that end would leave out what others have acknowledged since."""

    async def ends() -> tuple[set[int], int]:
        async with connect(cluster.url, timeout=60.0) as log, connect(cluster.url) as another:
            topic = f"t-{uuid.uuid4().hex[:8]}"
            await log.create_topic(topic, SAFE)
            await log.append(topic, 0, b"before")
            sleeper = cluster.leader_of(topic)
            sleeper.freeze()
            cluster.leader_of(topic, but=sleeper)
            # Its producer is new, and does not wait for who leads no more.
            appended = await append_at_last(another, topic, b"meanwhile")
            asking = [asyncio.ensure_future(log.high_watermark(topic, 0)) for _ in range(30)]
            # Some of them ask the sleeper, who has the question when it wakes up.
            await asyncio.sleep(0.5)
            sleeper.thaw()
            return set(await asyncio.gather(*asking)), appended

    found, appended = asyncio.run(ends())
    assert min(found) > appended


class Study:
    """A study without noise whose synthesizer can be paused while it publishes."""

    def __init__(self, deployed: DeployedStudy) -> None:
        self.deployed = deployed
        parameters = deployed.parameters
        self._gate = deployed.folder / "gate"
        self._raw_records = ReportTraffic(PEOPLE, parameters.alphabet, parameters.horizon, parameters.partitions, seed=31)
        deployed.do("init")
        self.gatherer = deployed.start("gather", "--state", deployed.folder / "gatherer")
        arguments = (self._gate, "synthesize", deployed.file, "--state", deployed.folder / "synthesizer")
        self.synthesizer = deployed.programs.start(
            *arguments, module="tests.stream.paused_publishing", environ=deployed.environ
        )
        self._held = 0

    def raw_records(self, period: int) -> list[RawRecord]:
        return self._raw_records.of(period)

    def hold(self) -> None:
        self._gate.touch()

    def wait_until_held(self) -> None:
        self._held += 1
        self.synthesizer.says(PAUSED, self._held)

    def let_go(self) -> None:
        self._gate.unlink()

    def released(self, period: int) -> None:
        self.synthesizer.says(f"period released period={period}")

    def check(self) -> None:
        """Both roles have lived through it, nothing is lost, and nothing is counted or drawn twice."""
        for role in (self.synthesizer, self.gatherer):
            role.done()
        expected = models(self.deployed)
        check_tallies(self.deployed, expected)
        check_rejects(self.deployed, expected, repeated=True)
        check_columns(self.deployed, expected)
        check_published_once(self.deployed)
        self.deployed.do("verify")


REPORTS, LEDGER = "reports", "ledger"


@pytest.mark.parametrize(
    ("while_people_report", "in_mid_publish"),
    [([REPORTS], [TRANSACTIONS]), pytest.param([OFFSETS, LEDGER], [LEDGER, REPORTS], marks=pytest.mark.slow)],
    ids=["two", "four"],
)
def test_a_study_outlives_the_brokers_it_needs_most(
    cluster: KafkaCluster, programs: Programs, tmp_path: Path, while_people_report: list[str], in_mid_publish: list[str]
) -> None:
    """Of each of these topics the leader is killed: of Kafka's own it coordinates the gatherers, or the transactions."""
    deployed = deploy_study(cluster, programs, tmp_path, horizon=len(while_people_report) + len(in_mid_publish))
    study = Study(deployed)
    names = {REPORTS: deployed.topics.reports, LEDGER: deployed.topics.ledger}

    for period, leads in enumerate(while_people_report, start=1):
        raw_records = study.raw_records(period)
        cluster.wait_until_whole()
        victim = cluster.leader_of(names.get(leads, leads))
        with ThreadPoolExecutor(1) as thread:
            posting = thread.submit(send_raw, deployed, raw_records)
            victim.kill()
            posting.result()
        deployed.do("close", "--period", period)
        study.released(period)
        victim.launch()

    for period, leads in enumerate(in_mid_publish, start=len(while_people_report) + 1):
        study.hold()
        send_raw(deployed, study.raw_records(period))
        deployed.do("close", "--period", period)
        study.wait_until_held()
        cluster.wait_until_whole()
        victim = cluster.leader_of(names.get(leads, leads))
        victim.kill()
        study.let_go()
        study.released(period)
        victim.launch()

    study.check()


def wait_for_readiness(address: str, answer: tuple[int, str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while (found := ask(address, "/readyz")) != answer:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


async def report_in_vain(deployed: DeployedStudy, symbols: Symbols, away: list[Node]) -> None:
    """A connected client that sends all reports of period 2, each to the former leader of its partition."""
    async with connect(deployed.url, timeout=4.0) as log:
        reporter = Reporter(log, deployed.study)
        reader = None
        while reader is None:  # until a busy cluster answers within the short timeout
            with suppress(LogUnavailable, OutcomeUnknown):
                await reporter.report(PEOPLE[0], 2, symbols[0, 1])
                reader = await log.reader(deployed.topics.ledger, 0, await log.last_stable_offset(deployed.topics.ledger, 0))
        for node in away:
            node.kill()
        reports = [reporter.report(each, 2, symbols[row, 1]) for row, each in enumerate(PEOPLE)]
        answers = await asyncio.gather(*reports, return_exceptions=True)
        with pytest.raises(LogUnavailable):  # rather than find that nothing is new
            await reader.read(timeout=0.1)
    assert {type(answer) for answer in answers} <= {LogUnavailable, OutcomeUnknown}


def test_while_two_of_three_are_away_nothing_is_acknowledged_and_then_the_study_goes_on(
    cluster: KafkaCluster, programs: Programs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deployed = deploy_study(cluster, programs, tmp_path, horizon=2)
    symbols = random_symbols("01", 200, 2, seed=32)
    panel = deployed.write_panel(symbols)
    roles = deployed.start_altered("silent", "run", "--until-done", *Listeners.ARGUMENTS)
    listeners = Listeners(roles)
    deployed.do("send", panel, "--period", 1, "--close")
    roles.says("period released period=1")
    for address in (listeners.public, listeners.operator):
        wait_for_readiness(address, (200, "ready\n"))

    # Who is left leads the control topic, if that is another one: it answers questions, but nobody can follow the ledger.
    leaders = [cluster.leader_of(deployed.topics.ledger), cluster.leader_of(deployed.topics.control)]
    left = next(node for node in (leaders[1], *cluster.nodes) if node is not leaders[0])
    away = [node for node in cluster.nodes if node is not left]
    asyncio.run(report_in_vain(deployed, symbols, away))
    for command, *arguments in (("send", panel, "--period", 2), ("close", "--period", 2)):
        refused = deployed.call(command, *arguments, "--timeout", 2)
        assert refused.code == 5
        assert refused.out == ""
        assert len(refused.complaint.splitlines()) == 1, refused.complaint
        assert not caplog.records  # of the event loop, which would show them to the user of the client
    roles.says("the broker is away")
    for address in (listeners.public, listeners.operator):
        wait_for_readiness(address, (503, "not ready\n"))
        assert ask(address, "/livez")[0] == 200
    assert roles.runs

    for node in away:
        node.launch()
    cluster.wait_until_whole()
    deployed.do("send", panel, "--period", 2, "--close")
    roles.done()

    expected = models(deployed)
    check_tallies(deployed, expected)
    check_columns(deployed, expected)
    check_published_once(deployed)
    deployed.do("verify")
