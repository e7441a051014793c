"""Administration of topics: metadata, offsets, creation and deletion.

A broker returns what it knows. It may learn of topics and leaders later than other brokers, and after a pause it may still
answer as a leader although it was replaced long ago. So where this matters, several brokers are asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError
from aiokafka.protocol.admin import CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest

from streamproc.errors import InvalidInput, LogUnavailable, NoSuchTopic, NotAllowed, PolicyViolated
from streamproc.log.kafka.aiokafka_patches import NoBrokerReady, require_brokers_on_bootstrap
from streamproc.log.kafka.error_translation import probe_broker, translate_error, translate_error_code
from streamproc.log.kafka.protocol import OffsetsRequest, TopicsRequest
from streamproc.log.kafka.settings import PREFIX, KafkaSettings, metadata_timeout, milliseconds
from streamproc.log.port import TopicSettings
from streamproc.log.retry import Backoff

RETRIABLE = (5, 6, 7, 9, 13, 41, 56, 74, 75, 76, 78, 100, 103)
"""Error codes: no leader yet, another leader or controller, another epoch; 78: a new leader has no high watermark yet."""
MIN_RETRY_PAUSE_S, MAX_RETRY_PAUSE_S = 0.05, 1.0
"""Back-off between two attempts, in seconds."""

T = TypeVar("T")


class RetriableError(Exception):
    """An attempt failed and may be retried. The message is used if it was the last attempt."""


class AdminConnection:
    """A client for requests that are retried for up to `timeout` seconds. After that they raise LogUnavailable."""

    def __init__(self, settings: KafkaSettings, timeout: float) -> None:
        self.timeout = timeout
        self._settings = settings
        self._node_timeout = metadata_timeout(timeout)
        self._client = AIOKafkaClient(request_timeout_ms=milliseconds(self._node_timeout), **settings.options())
        require_brokers_on_bootstrap(self._client)

    async def start(self) -> None:
        """Connect to any of the servers. Raises NotAllowed and LogUnavailable."""
        await self.retry_until_deadline("connecting", self._start)

    async def _start(self) -> None:
        await self._probe()
        try:
            await self._client.bootstrap()
        except NoBrokerReady:
            raise RetriableError("connecting: no broker is ready yet") from None
        except KafkaError:
            security = f"{PREFIX}SECURITY {self._settings.security}"
            raise RetriableError(
                f"connecting: the broker closed the connection; check whether {security} is right"
            ) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _probe(self) -> None:
        """Return if any broker accepts a connection. Raises NotAllowed, or RetriableError with the reason."""
        denied, reason = None, "no answer"
        for host, port, _ in self._client.hosts:
            try:
                return await probe_broker(host, port, self._settings, self._node_timeout)
            except NotAllowed as denial:
                denied = denied or denial
            except LogUnavailable as away:
                reason = str(away)
        raise denied or RetriableError(f"no broker of {','.join(self._settings.servers)} can be reached: {reason}")

    async def _probe_node(self, node: int) -> None:
        """Return if a broker accepts a connection at its advertised address. Raises NotAllowed, or RetriableError."""
        broker = self._client.cluster.broker_metadata(node)
        if broker is None:
            return await self._probe()
        try:
            await probe_broker(broker.host, broker.port, self._settings, self._node_timeout)
        except LogUnavailable as away:
            raise RetriableError(f"broker {broker.host}:{broker.port} cannot be reached: {away}") from None

    async def check_authentication(self) -> None:
        """Raise NotAllowed if the brokers deny access, for example because the password was changed."""
        with suppress(RetriableError, TimeoutError):
            async with asyncio.timeout(self.timeout):
                await self._probe()

    async def send_request(self, request: Any, what: str, node: int | None = None) -> Any:
        """Send a request once, to `node` or to any broker, and return the response without checking its error codes.

        Raises RetriableError and NotAllowed.
        """
        node = self._client.get_random_node() if node is None else node
        try:
            return await self._client.send(node, request)
        except (KafkaError, OSError, TimeoutError) as error:
            self._client.force_metadata_update()
            if isinstance(error, (KafkaConnectionError, NodeNotReadyError)):
                await self._probe_node(node)  # to find out why there is no connection
            failure = translate_error(error, what, LogUnavailable)
            raise (RetriableError(str(failure)) if isinstance(failure, LogUnavailable) else failure) from None

    async def retry_until_deadline(self, what: str, attempt: Callable[[], Awaitable[T]], timeout: float | None = None) -> T:
        """Call `attempt` until it does not raise RetriableError, and return its result. Raises LogUnavailable."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self.timeout if timeout is None else timeout)
        backoff, reason = Backoff(MIN_RETRY_PAUSE_S, MAX_RETRY_PAUSE_S), f"{what}: no answer from the broker in time"
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await attempt()
            except RetriableError as error:
                reason = str(error)
            except TimeoutError:
                raise LogUnavailable(reason) from None
            pause = backoff.next_pause()
            if loop.time() + pause > deadline:
                raise LogUnavailable(reason)
            await asyncio.sleep(pause)


def check(code: int, what: str) -> None:
    """Raise the error that an error code in a response means. 0 is no error."""
    if code in RETRIABLE:
        raise RetriableError(f"{what}: Kafka error {code}")
    if code != 0:
        raise translate_error_code(code, what, LogUnavailable)


NO_TOPIC, INVALID_TOPIC = 3, 17


@dataclass(frozen=True)
class TopicMetadata:
    """Metadata of a topic, as one broker knows it."""

    id: bytes
    """Topic id. A recreated topic has another id."""
    leaders: dict[int, int]
    """Leader (node id) of each partition."""
    epochs: dict[int, int]
    """Leader epoch of each partition."""
    replicas: dict[int, tuple[int, ...]]
    """Node ids of the replicas of each partition."""


def parse_topic_metadata(topic: str, answer: dict[str, Any]) -> TopicMetadata:
    """Parse the response to a request for one topic. Raises NoSuchTopic, NotAllowed and RetriableError."""
    what, (found,) = f"topic {topic}", answer["topics"]
    if found["error_code"] in (NO_TOPIC, INVALID_TOPIC):
        raise NoSuchTopic(topic)
    check(found["error_code"], what)
    parts = {part["partition"]: part for part in found["partitions"]}
    leaders = {number: part["leader"] for number, part in parts.items()}
    if not leaders or min(leaders.values()) < 0:
        raise RetriableError(f"{what}: a partition has no leader")
    return TopicMetadata(
        found["topic_id"],
        leaders,
        {number: part["leader_epoch"] for number, part in parts.items()},
        {number: tuple(part["replicas"]) for number, part in parts.items()},
    )


EARLIEST, LATEST = -2, -1
"""Kafka's special timestamps for the first offset and the offset after the last record."""
EXISTS, POLICY_VIOLATION = 36, 44
REFUSED = (INVALID_TOPIC, 37, 38, 39, 40, 42)
"""Error codes: a name, number or setting that the cluster does not support, such as more replicas than brokers."""
TOPIC_RESOURCE = 2


class TopicAdmin:
    """Operations on topics. Each call is retried until the cluster answers; at the timeout it raises LogUnavailable."""

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection
        self.check_authentication = connection.check_authentication

    async def all(self) -> tuple[dict[str, int], int]:
        """Return the number of partitions of each topic that any broker knows, and the number of brokers.

        Internal topics of Kafka are left out.
        """

        async def once() -> tuple[dict[str, int], int]:
            first = (await self._connection.send_request(TopicsRequest(None), what)).to_object()
            others = await self._answers({broker["node_id"] for broker in first["brokers"]}, TopicsRequest(None), what)
            known = {
                topic["topic"]: len(topic["partitions"])
                for answer in (*others, first)
                for topic in answer["topics"]
                if not topic["is_internal"] and topic["error_code"] == 0
            }
            return known, len(first["brokers"])

        what = "the list of topics"
        return await self._connection.retry_until_deadline(what, once)

    async def topic_metadata(self, topic: str, *, node: int | None = None, timeout: float | None = None) -> TopicMetadata:
        """Return the metadata that `node`, or any broker, has of the topic.

        Raises NotAllowed, and NoSuchTopic if that node, or all brokers, do not know the topic.
        """

        async def once() -> TopicMetadata:
            answer = (await self._connection.send_request(TopicsRequest([topic]), what, node)).to_object()
            try:
                return parse_topic_metadata(topic, answer)
            except NoSuchTopic:
                if node is None and await self._any_broker_knows(topic, answer["brokers"], without=1):
                    raise RetriableError(f"{what}: not every broker knows the topic yet") from None
                raise

        what = f"topic {topic}"
        return await self._connection.retry_until_deadline(what, once, timeout)

    async def _any_broker_knows(self, topic: str, brokers: list[dict[str, Any]], *, without: int) -> bool:
        nodes = {broker["node_id"] for broker in brokers}
        answers = await self._answers(nodes, TopicsRequest([topic]), f"topic {topic}", without=without)
        return any(answer["topics"][0]["error_code"] not in (NO_TOPIC, INVALID_TOPIC) for answer in answers)

    async def _answers(
        self, nodes: Collection[int], request: TopicsRequest, what: str, *, without: int = 1
    ) -> list[dict[str, Any]]:
        """Ask all nodes at once, and return the responses when all but `without` nodes have answered.

        Nodes that fail are left out. For fewer than two nodes nothing is returned.
        """
        if len(nodes) < 2:
            return []
        waiting = {asyncio.ensure_future(self._connection.send_request(request, what, node)) for node in nodes}
        answers: list[dict[str, Any]] = []
        try:
            while waiting and len(answers) < len(nodes) - without:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                answers += [each.result().to_object() for each in done if not isinstance(each.exception(), RetriableError)]
        finally:
            for each in waiting:
                each.cancel()
        return answers

    async def _leader(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the current leader of a partition and its epoch.

        Example: three replicas, of which two must have a record before it is acknowledged. A new leader acknowledges nothing
        before a second broker knows that it leads. So of any two brokers that answer, one knows the leader.
        """
        found = [await self.partition_metadata(topic, partition)]
        replicas = found[0].replicas[partition]
        if len(replicas) > 1:
            answers = await self._answers(replicas, TopicsRequest([topic]), f"topic {topic}")
            if len(answers) < len(replicas) - 1:
                raise RetriableError(f"topic {topic}: not enough brokers answered to determine the leader")
            found += [parse_topic_metadata(topic, answer) for answer in answers if answer["topics"][0]["error_code"] == 0]
        last = max(found, key=lambda each: each.epochs.get(partition, -1))
        return last.leaders[partition], last.epochs[partition]

    async def partition_metadata(self, topic: str, partition: int) -> TopicMetadata:
        """Return the metadata of a topic. Raises NoSuchTopic if it does not exist or does not have this partition."""
        metadata = await self.topic_metadata(topic)
        if partition not in metadata.leaders:
            raise NoSuchTopic(topic, partition)
        return metadata

    async def metadata_from_leader(self, topic: str, partition: int, *, timeout: float) -> TopicMetadata:
        """Return the metadata that the leader of a partition has of the topic. Each attempt looks up the leader again."""

        async def once() -> TopicMetadata:
            leader = (await self.partition_metadata(topic, partition)).leaders[partition]
            return parse_topic_metadata(
                topic, (await self._connection.send_request(TopicsRequest([topic]), what, leader)).to_object()
            )

        what = f"topic {topic}"
        return await self._connection.retry_until_deadline(what, once, timeout)

    async def offset(self, topic: str, partition: int, which: int, *, committed: bool = False) -> int:
        """Return an offset of a partition.

        `which` is EARLIEST, or LATEST for the high watermark. With `committed`, LATEST is the last stable offset.
        """

        async def once() -> int:
            leader, epoch = await self._leader(topic, partition)
            request = OffsetsRequest(topic, partition, epoch, which, committed=committed)
            ((_, ((_, code, _, offset, *_),)),) = (await self._connection.send_request(request, what, leader)).topics
            if code == NO_TOPIC:
                raise RetriableError(f"{what}: the leader does not know the topic yet")
            check(code, what)
            return int(offset)

        what = f"offsets of {topic}"
        return await self._connection.retry_until_deadline(what, once)

    async def create(self, topic: str, settings: TopicSettings) -> None:
        """Create a topic unless it exists, and return when its partitions have leaders.

        Raises InvalidInput if the cluster does not support the settings, PolicyViolated and NotAllowed.
        """

        async def once() -> None:
            request = CreateTopicsRequest(
                [(topic, settings.partitions, settings.replication, [], list(_config(settings).items()))],
                int(1000 * self._connection.timeout),
                False,
            )
            ((_, code, message),) = (await self._connection.send_request(request, what)).topic_errors
            if code in REFUSED:
                raise InvalidInput(f"{what}: {message}")
            if code == POLICY_VIOLATION:
                raise PolicyViolated(topic, message)
            check(0 if code == EXISTS else code, what)

        async def check_visible() -> None:
            try:
                await self.topic_metadata(topic)
            except NoSuchTopic:
                raise RetriableError(f"{what}: the topic does not appear") from None

        what = f"creating topic {topic}"
        await self._connection.retry_until_deadline(what, once)
        await self._connection.retry_until_deadline(what, check_visible)

    async def delete(self, topic: str) -> None:
        """Delete a topic if it exists, and return when no broker that can be reached knows it."""

        async def once() -> None:
            request = DeleteTopicsRequest([topic], int(1000 * self._connection.timeout))
            ((_, code),) = (await self._connection.send_request(request, what)).topic_error_codes
            check(0 if code == NO_TOPIC else code, what)

        async def check_gone() -> None:
            answer = (await self._connection.send_request(TopicsRequest([topic]), what)).to_object()
            try:
                parse_topic_metadata(topic, answer)
            except NoSuchTopic:
                # Ask all brokers: the slowest one may be the one that serves the next request.
                if not await self._any_broker_knows(topic, answer["brokers"], without=0):
                    return
            raise RetriableError(f"{what}: the topic does not disappear")

        what = f"deleting topic {topic}"
        await self._connection.retry_until_deadline(what, once)
        await self._connection.retry_until_deadline(what, check_gone)

    async def settings_of(self, topic: str) -> TopicSettings:
        """Return the settings of a topic, including defaults of the cluster. Raises NoSuchTopic."""

        async def once() -> dict[str, str]:
            request = DescribeConfigsRequest([(TOPIC_RESOURCE, topic, names)], False)
            ((code, _, _, _, entries),) = (await self._connection.send_request(request, what)).resources
            if code == NO_TOPIC:
                raise RetriableError(f"{what}: not every broker knows the topic yet")
            check(code, what)
            return {entry[0]: entry[1] for entry in entries}

        what = f"settings of topic {topic}"
        metadata = await self.topic_metadata(topic)
        names = list(_config(TopicSettings(1)))
        config = await self._connection.retry_until_deadline(what, once)
        return TopicSettings(
            partitions=len(metadata.leaders),
            retention_ms=int(config["retention.ms"]),
            replication=len(metadata.replicas[0]),
            min_insync_replicas=int(config["min.insync.replicas"]),
            cleanup_policy=config["cleanup.policy"],
            retention_bytes=int(config["retention.bytes"]),
            unclean_leader_election=config["unclean.leader.election.enable"] == "true",
            compression=config["compression.type"],
            max_batch_bytes=int(config["max.message.bytes"]),
            timestamp_type=config["message.timestamp.type"],
            timestamp_before_max_ms=int(
                config.get("message.timestamp.before.max.ms", TopicSettings.timestamp_before_max_ms)
            ),
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
        "message.timestamp.type": settings.timestamp_type,
        "message.timestamp.before.max.ms": str(settings.timestamp_before_max_ms),
    }
