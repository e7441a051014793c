"""What there is to know and to do about topics."""

from __future__ import annotations

from dataclasses import dataclass

from aiokafka.protocol.admin import CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest
from aiokafka.protocol.offset import OffsetRequest

from streamproc.errors import InvalidInput
from streamproc.ports.kafka.questions import Questions, TryAgain, check
from streamproc.ports.kafka.requests import TopicsRequest
from streamproc.ports.log import NoSuchTopic, TopicSettings

EARLIEST, LATEST = -2, -1
NO_TOPIC, INVALID_TOPIC, EXISTS = 3, 17, 36
REFUSED = (INVALID_TOPIC, 37, 38, 39, 40, 42)
"""A name, a number or a setting that the cluster cannot have, such as more replicas than brokers."""
TOPIC_RESOURCE = 2


@dataclass(frozen=True)
class Look:
    """A topic as a broker knows it."""

    id: bytes
    """Of this incarnation: created anew it has another."""
    leaders: dict[int, int]
    """Partition to the node that leads it."""
    replication: int


class Topics:
    """Each call is repeated until the cluster has answered."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self.check_welcome = questions.check_welcome

    async def all(self) -> tuple[dict[str, int], int]:
        """Topics and their numbers of partitions, Kafka's own left out; and the number of brokers."""

        async def once() -> tuple[dict[str, int], int]:
            answer = (await self._questions.ask(TopicsRequest(None), "the list of topics")).to_object()
            mine = [topic for topic in answer["topics"] if not topic["is_internal"] and topic["error_code"] == 0]
            return {topic["topic"]: len(topic["partitions"]) for topic in mine}, len(answer["brokers"])

        return await self._questions.until_answered("the list of topics", once)

    async def look(self, topic: str, *, node: int | None = None, timeout: float | None = None) -> Look:
        """What `node`, or any, knows of the topic. Raises NoSuchTopic, NotAllowed."""

        async def once() -> Look:
            (answer,) = (await self._questions.ask(TopicsRequest([topic]), what, node)).to_object()["topics"]
            if answer["error_code"] in (NO_TOPIC, INVALID_TOPIC):
                raise NoSuchTopic(topic)
            check(answer["error_code"], what)
            leaders = {each["partition"]: each["leader"] for each in answer["partitions"]}
            if not leaders or min(leaders.values()) < 0:
                raise TryAgain(f"{what}: a partition has no leader")
            return Look(answer["topic_id"], leaders, len(answer["partitions"][0]["replicas"]))

        what = f"topic {topic}"
        return await self._questions.until_answered(what, once, timeout)

    async def look_at(self, topic: str, partition: int) -> Look:
        """The same, where that partition must be one of it."""
        look = await self.look(topic)
        if partition not in look.leaders:
            raise NoSuchTopic(topic, partition)
        return look

    async def offset(self, topic: str, partition: int, which: int, *, committed: bool = False) -> int:
        """EARLIEST; or LATEST, which is the high watermark, or for `committed` readers the last stable offset."""

        async def once() -> int:
            leader = (await self.look_at(topic, partition)).leaders[partition]
            request = OffsetRequest(-1, int(committed), [(topic, [(partition, which)])])
            ((_, ((_, code, _, offset, *_),)),) = (await self._questions.ask(request, what, leader)).topics
            if code == NO_TOPIC:
                raise TryAgain(f"{what}: the leader does not know the topic")
            check(code, what)
            return int(offset)

        what = f"offsets of {topic}"
        return await self._questions.until_answered(what, once)

    async def create(self, topic: str, settings: TopicSettings) -> None:
        """Create it unless it is there; returns when its partitions have leaders."""

        async def once() -> None:
            request = CreateTopicsRequest(
                [(topic, settings.partitions, settings.replication, [], list(_config(settings).items()))],
                int(1000 * self._questions.timeout),
                False,
            )
            ((_, code, message),) = (await self._questions.ask(request, what)).topic_errors
            if code in REFUSED:
                raise InvalidInput(f"{what}: {message}")
            check(0 if code == EXISTS else code, what)

        async def visible() -> None:
            try:
                await self.look(topic)
            except NoSuchTopic:
                raise TryAgain(f"{what}: it does not appear") from None

        what = f"creating topic {topic}"
        await self._questions.until_answered(what, once)
        await self._questions.until_answered(what, visible)

    async def delete(self, topic: str) -> None:
        """Delete it if it is there; returns when it is gone."""

        async def once() -> None:
            request = DeleteTopicsRequest([topic], int(1000 * self._questions.timeout))
            ((_, code),) = (await self._questions.ask(request, what)).topic_error_codes
            check(0 if code == NO_TOPIC else code, what)

        async def gone() -> None:
            try:
                await self.look(topic)
            except NoSuchTopic:
                return
            raise TryAgain(f"{what}: it does not disappear")

        what = f"deleting topic {topic}"
        await self._questions.until_answered(what, once)
        await self._questions.until_answered(what, gone)

    async def settings_of(self, topic: str) -> TopicSettings:
        """How it is set up, whatever of it is the cluster's default."""

        async def once() -> dict[str, str]:
            request = DescribeConfigsRequest([(TOPIC_RESOURCE, topic, names)], False)
            ((code, _, _, _, entries),) = (await self._questions.ask(request, what)).resources
            check(code, what)
            return {entry[0]: entry[1] for entry in entries}

        what = f"settings of topic {topic}"
        look = await self.look(topic)
        names = list(_config(TopicSettings(1)))
        config = await self._questions.until_answered(what, once)
        return TopicSettings(
            partitions=len(look.leaders),
            retention_ms=int(config["retention.ms"]),
            replication=look.replication,
            min_insync_replicas=int(config["min.insync.replicas"]),
            cleanup_policy=config["cleanup.policy"],
            retention_bytes=int(config["retention.bytes"]),
            unclean_leader_election=config["unclean.leader.election.enable"] == "true",
            compression=config["compression.type"],
            max_batch_bytes=int(config["max.message.bytes"]),
        )


def _config(settings: TopicSettings) -> dict[str, str]:
    return {
        "retention.ms": str(settings.retention_ms),
        "retention.bytes": str(settings.retention_bytes),
        "cleanup.policy": settings.cleanup_policy,
        "min.insync.replicas": str(settings.min_insync_replicas),
        "unclean.leader.election.enable": "true" if settings.unclean_leader_election else "false",
        "compression.type": settings.compression,
        "max.message.bytes": str(settings.max_batch_bytes),
    }
