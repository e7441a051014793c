"""What the patches of aiokafka rely on. A test that fails here names the patch to check against the new version."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiokafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.producer.message_accumulator import MessageAccumulator, MessageBatch
from aiokafka.producer.sender import Sender
from aiokafka.producer.transaction_manager import TransactionManager

import streamproc
from streamproc.log.kafka import aiokafka_patches
from streamproc.log.kafka.aiokafka_patches import (
    CHECKED_VERSION,
    NoBrokerReady,
    ProducerDropped,
    ReadableRecords,
    create_transaction_waiter,
    disable_topic_auto_creation,
    drop_producer,
    patch_batch_decoding,
    require_brokers_on_bootstrap,
    set_broker_timeout,
    stop_consumer,
)

SERVERS = ["127.0.0.1:1"]
PACKAGE = Path(streamproc.__file__).parent


def parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def names_in(function: Callable[..., Any]) -> set[str]:
    """The global names and attributes that the code of a function mentions."""
    return set(function.__code__.co_names)


@pytest.fixture
async def client() -> AsyncIterator[AIOKafkaClient]:
    client = AIOKafkaClient(bootstrap_servers=SERVERS)
    yield client
    await client.close()


@pytest.fixture
async def consumer() -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(bootstrap_servers=SERVERS)
    yield consumer
    with suppress(asyncio.CancelledError):
        await consumer.stop()


@pytest.fixture
async def producer() -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=SERVERS, enable_idempotence=True, acks="all", request_timeout_ms=9000)
    yield producer
    await producer.stop()


def test_the_patches_were_checked_with_the_installed_version() -> None:
    assert aiokafka.__version__.startswith(f"{CHECKED_VERSION}.")
    for patch in (
        create_transaction_waiter,
        disable_topic_auto_creation,
        drop_producer,
        patch_batch_decoding,
        require_brokers_on_bootstrap,
        set_broker_timeout,
        stop_consumer,
    ):
        assert f"Checked with aiokafka {CHECKED_VERSION}" in " ".join((patch.__doc__ or "").split())


class FakeConnection:
    """Returns metadata without brokers, and keeps the request."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    async def send(self, request: Any) -> Any:
        self.requests.append(request)
        return SimpleNamespace(brokers=[])


async def test_metadata_is_requested_without_creating_topics(
    client: AIOKafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = FakeConnection()

    async def connect(node: int) -> FakeConnection:
        return connection

    monkeypatch.setattr(client.cluster, "brokers", lambda: [SimpleNamespace(nodeId=1)])
    assert parameters(AIOKafkaClient._metadata_update) == ["self", "cluster_metadata", "topics"]
    assert parameters(AIOKafkaClient._get_conn)[:2] == ["self", "node_id"]
    monkeypatch.setattr(client, "_get_conn", connect)
    disable_topic_auto_creation(client)

    assert await client._metadata_update(client.cluster, {"topic"}) is False

    (request,) = connection.requests
    assert request._allow_auto_topic_creation is False


def test_every_request_for_topics_goes_through_the_replaced_method() -> None:
    assert "_metadata_update" in names_in(AIOKafkaClient._md_synchronizer)
    assert "_metadata_update" in names_in(AIOKafkaClient.fetch_all_metadata)
    users = {
        name for name, function in inspect.getmembers(AIOKafkaClient, inspect.isfunction)
        if "MetadataRequest" in names_in(function)
    }  # fmt: skip
    assert users == {"_metadata_update", "bootstrap"}


async def test_the_bootstrap_connection_is_closed_if_no_broker_is_listed(
    client: AIOKafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []

    async def bootstrap(self: AIOKafkaClient) -> None:
        self._conns["bootstrap", ConnectionGroup.DEFAULT] = SimpleNamespace(close=lambda: closed.append(True))

    assert parameters(AIOKafkaClient.bootstrap) == ["self"]
    assert '("bootstrap", ConnectionGroup.DEFAULT)' in inspect.getsource(AIOKafkaClient.bootstrap)
    assert client._conns == {}
    monkeypatch.setattr(AIOKafkaClient, "bootstrap", bootstrap)
    require_brokers_on_bootstrap(client)

    with pytest.raises(NoBrokerReady):
        await client.bootstrap()

    assert closed == [True]
    assert client._conns == {}


async def test_consumers_and_producers_start_with_the_patched_bootstrap(
    consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    assert isinstance(consumer._client, AIOKafkaClient)
    assert isinstance(producer.client, AIOKafkaClient)
    assert "bootstrap" in names_in(AIOKafkaConsumer.start)
    assert "bootstrap" in names_in(AIOKafkaProducer.start)
    for owner, client in ((consumer, consumer._client), (producer, producer.client)):
        require_brokers_on_bootstrap(owner)
        disable_topic_auto_creation(owner)
        assert client.bootstrap.__func__ is aiokafka_patches._bootstrap
        assert client._metadata_update.__func__ is aiokafka_patches._metadata_update


def test_a_fetch_is_parsed_by_the_name_that_the_patch_replaces() -> None:
    assert parameters(Fetcher._proc_fetch_request) == ["self", "assignment", "node_id", "request"]
    assert "MemoryRecords" in names_in(Fetcher._proc_fetch_request)
    users = {
        name for name, function in inspect.getmembers(Fetcher, inspect.isfunction) if "MemoryRecords" in names_in(function)
    }
    assert users == {"_proc_fetch_request"}
    assert "_proc_fetch_request" in names_in(Fetcher._fetch_requests_routine)
    assert "_fetcher" in names_in(AIOKafkaConsumer.start)


def test_batch_decoding_is_patched_for_one_consumer_only() -> None:
    class OneFetcher(Fetcher):  # type: ignore[misc]
        def __init__(self) -> None:
            """Start no task."""

        def __del__(self) -> None:
            """Nothing was opened."""

    patched, other = OneFetcher(), OneFetcher()

    patch_batch_decoding(SimpleNamespace(_fetcher=patched))

    assert patched._proc_fetch_request.__func__.__globals__["MemoryRecords"] is ReadableRecords
    assert other._proc_fetch_request.__func__.__globals__["MemoryRecords"] is not ReadableRecords


async def test_a_consumer_whose_stop_is_cancelled_from_within_still_closes_its_connections(
    consumer: AIOKafkaConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []

    async def stop() -> None:
        raise asyncio.CancelledError

    async def close() -> None:
        closed.append(True)

    assert parameters(AIOKafkaConsumer.stop) == parameters(AIOKafkaClient.close) == ["self"]
    with monkeypatch.context() as patch:
        patch.setattr(consumer, "stop", stop)
        patch.setattr(consumer._client, "close", close)
        await stop_consumer(consumer)
    assert closed == [True]


async def test_the_timeout_of_one_broker_is_apart_from_that_of_a_record(producer: AIOKafkaProducer) -> None:
    assert producer.client._request_timeout_ms == 9000

    set_broker_timeout(producer, 3000)

    assert producer.client._request_timeout_ms == 3000
    assert producer._request_timeout_ms == 9000
    assert "_request_timeout_ms" in names_in(AIOKafkaClient._get_conn)


async def test_a_fatal_error_outside_of_a_transaction_needs_the_waiter(producer: AIOKafkaProducer) -> None:
    assert isinstance(producer._txn_manager, TransactionManager)
    assert producer._txn_manager._transaction_waiter is None
    with pytest.raises(AttributeError):
        producer._txn_manager.fatal_error(RuntimeError())

    create_transaction_waiter(producer)

    producer._txn_manager.fatal_error(RuntimeError("fatal"))
    waiter: asyncio.Future[None] = producer._txn_manager.wait_for_transaction_end()
    assert str(waiter.exception()) == "fatal"


async def test_a_dropped_producer_fails_its_batches_and_ends_its_sender(producer: AIOKafkaProducer) -> None:
    assert isinstance(producer._sender, Sender)
    assert isinstance(producer._message_accumulator, MessageAccumulator)
    assert isinstance(inspect.getattr_static(Sender, "sender_task"), property)
    assert parameters(MessageAccumulator.fail_all) == ["self", "exception"]
    assert {"_batches", "_pending_batches"} <= names_in(MessageAccumulator.fail_all) | names_in(MessageAccumulator.reenqueue)
    assert "_drain_waiter" in names_in(MessageBatch.__init__)
    create_transaction_waiter(producer)
    producer._txn_manager.set_pid_and_epoch(1, 0)
    sender = producer._sender._sender_task = asyncio.ensure_future(catch_one_cancellation())
    await asyncio.sleep(0)
    place = TopicPartition("topic", 0)
    record = await producer._message_accumulator.add_message(place, None, b"value", 1.0)

    await drop_producer(producer)

    with pytest.raises(ProducerDropped):
        await record
    assert sender.done()
    assert producer._closed


async def catch_one_cancellation() -> None:
    """Wait forever, as the sender of an idempotent producer does, also after it was cancelled once."""
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()


def private_uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Private attributes of anything but self and cls, also by getattr and the like, and private names that are imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aiokafka"):
            yield from ((node.lineno, each.name) for each in node.names if is_private(each.name))
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("getattr", "setattr", "delattr", "hasattr")
            and isinstance(node.args[1], ast.Constant)
            and is_private(str(node.args[1].value))
        ):
            yield node.lineno, str(node.args[1].value)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def uses_aiokafka(tree: ast.AST) -> bool:
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    return any(module.split(".")[0] == "aiokafka" for module in modules)


def test_no_other_module_touches_private_attributes_of_aiokafka() -> None:
    found, checked = [], set()
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        if uses_aiokafka(tree) or path.parent == PACKAGE / "log" / "kafka":
            checked.add(path.name)
            if path.name != Path(aiokafka_patches.__file__).name:
                found += [f"{path.relative_to(PACKAGE)}:{line}: {name}" for line, name in private_uses(tree)]
    assert found == []
    assert {"producer.py", "consumer.py", "group.py", "admin.py"} <= checked


@pytest.mark.parametrize(
    "source",
    ["consumer._client", "self._consumer._client.close()", "getattr(consumer, '_client')", "from aiokafka.x import _y"],
)
def test_a_private_attribute_is_noticed(source: str) -> None:
    assert list(private_uses(ast.parse(source)))


def test_no_other_module_replaces_methods_of_aiokafka() -> None:
    users = [path.name for path in (PACKAGE / "log").rglob("*.py") if "MethodType" in path.read_text()]
    assert users == ["aiokafka_patches.py"]
