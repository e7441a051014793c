"""A broker whose policy refuses a topic says why, and so do the commands that create topics."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamproc.errors import InvalidInput, LogUnavailable, NotAllowed, PolicyViolated
from streamproc.log.kafka.admin import TopicAdmin
from streamproc.log.port import TopicSettings
from streamproc.log.topic_setup import set_up_topics
from streamproc.protocol.topics import Role
from streamproc.testing import Faults, SimulatedBroker, SimulatedLog
from tests.broker import KafkaBroker
from tests.broker.fixture import running
from tests.broker.jars import kafka_jars
from tests.stream.programs import call
from tests.studies import StudyParameters, build_study

SOURCE = Path(__file__).parents[1] / "broker" / "java" / "RetentionPolicy.java"
REASON = "retention.ms must be at most 30 days. See the wiki, page 7"

STUDY = build_study()


class OneAnswer:
    """A broker that answers the request for a new topic, as far as `Topics` sees it."""

    timeout = 1.0
    check_authentication = None

    def __init__(self, code: int, message: str | None) -> None:
        self._answer = SimpleNamespace(topic_errors=[("t", code, message)])

    async def send_request(self, request: object, what: str) -> Any:
        return self._answer

    async def retry_until_deadline(self, what: str, attempt: Callable[[], Awaitable[None]]) -> None:
        await attempt()


async def refusal(code: int, message: str | None) -> Exception:
    with pytest.raises((NotAllowed, InvalidInput, LogUnavailable)) as raised:
        await TopicAdmin(OneAnswer(code, message)).create("t", TopicSettings(1))  # type: ignore[arg-type]
    return raised.value


async def test_the_reason_of_the_brokers_policy_is_shown_on_one_line() -> None:
    refused = await refusal(44, "Topics need\na label.")
    assert isinstance(refused, PolicyViolated)
    assert str(refused) == (
        "topic t: the broker's policy for new topics refuses it: Topics need a label; ask the administrator of the broker "
        "to allow this topic"
    )


async def test_a_policy_without_a_reason_is_named_all_the_same() -> None:
    assert "refuses it: it gives no reason;" in str(await refusal(44, None))


@dataclass
class Refusing(Faults):
    """A broker that refuses to create topics."""

    error: NotAllowed

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if call == "create_topic":
            raise self.error


@pytest.mark.parametrize("role", [None, *Role])
async def test_every_command_that_creates_topics_shows_the_policy(role: Role | None) -> None:
    log = SimulatedLog(SimulatedBroker(), Refusing(PolicyViolated("t", "Topics need a label.")))
    with pytest.raises(PolicyViolated, match="Topics need a label"):
        await set_up_topics(log, STUDY, role)


async def test_a_refused_topic_creation_does_not_advise_the_same_command() -> None:
    log = SimulatedLog(SimulatedBroker(), Refusing(NotAllowed("creating topic t: the broker does not allow it: DENIED")))
    with pytest.raises(NotAllowed) as raised:
        await set_up_topics(log, STUDY, Role.STEWARD)
    assert "DENIED; `streamproc init --print`" in str(raised.value)
    assert "run by the steward" not in str(raised.value)


class PolicedBroker(KafkaBroker):
    """Refuses topics that are kept without a limit."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {"create.topic.policy.class.name": "RetentionPolicy"})
        self._classes = folder / "classes"
        compiler = [*super().java_command()[:-2], "-m", "jdk.compiler/com.sun.tools.javac.Main"]
        jars = ":".join(map(str, kafka_jars().glob("*.jar")))
        subprocess.run([*compiler, "-cp", jars, "-d", str(self._classes), str(SOURCE)], check=True)

    def java_command(self, *options: str) -> list[str]:
        *command, path = super().java_command(*options)
        return [*command, f"{path}:{self._classes}"]


@pytest.fixture
def policed(tmp_path: Path) -> Iterator[KafkaBroker]:
    with running(PolicedBroker, tmp_path / "broker") as broker:
        yield broker


@pytest.mark.kafka
def test_init_says_why_a_real_broker_refuses_a_topic(tmp_path: Path, policed: KafkaBroker) -> None:
    study = tmp_path / "study.toml"
    study.write_text(StudyParameters("policed").text(policed.url))
    ended = call("init", study)
    assert ended.code == 5
    assert REASON in ended.complaint
    assert "`streamproc init`" not in ended.complaint
    assert len(ended.complaint.splitlines()) == 1
