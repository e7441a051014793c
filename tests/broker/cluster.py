"""A Kafka cluster: three nodes on this machine, each of which can be killed, frozen and started again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from tests.broker.broker import KafkaBroker, new_cluster_id

TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"
"""Kafka's own topics, of one partition each: who leads it coordinates all transactions, or all groups."""
NODES = 3
PATIENCE = 180.0
"""Seconds after which a cluster that ought to be whole will not be."""

Result = TypeVar("Result")


class Node(KafkaBroker):
    """One broker of a cluster, which has a vote in its quorum too. It is formatted and started by the cluster."""

    heap = "256m"
    peers: Sequence[Node] = ()

    def __init__(self, number: int, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder / f"node-{number}", settings)
        self.number = number

    def _properties(self) -> dict[str, str]:
        copies = str(len(self.peers))
        return super()._properties() | {
            "node.id": str(self.number),
            "controller.quorum.voters": ",".join(f"{peer.number}@127.0.0.1:{peer.controller_port}" for peer in self.peers),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "2",
            # A test should not have to wait for the default of nine seconds until a dead leader is replaced.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            **self._settings,
        }


class KafkaCluster:
    """Three nodes. Internal topics, and those that say so, have three copies of which two must be in step."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.nodes = [Node(number, folder, settings or {}) for number in range(1, NODES + 1)]
        for node in self.nodes:
            node.peers = self.nodes

    @property
    def servers(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    @property
    def url(self) -> str:
        return f"kafka://{self.servers}"

    def start(self) -> None:
        """Start all of a new cluster; returns when it is whole."""
        cluster = new_cluster_id()
        with ThreadPoolExecutor(NODES) as threads:
            list(threads.map(lambda node: node.format(cluster), self.nodes))
        try:
            for node in self.nodes:
                node.launch()
            for node in self.nodes:
                node.wait(PATIENCE)
            self.wait_until_whole()
        except BaseException:
            self.kill()
            raise

    def restart_stopped_nodes(self) -> None:
        """Start what is not running; returns when the cluster is whole."""
        for node in self.nodes:
            node.thaw()
            if not node.runs:
                node.launch()
        self.wait_until_whole()

    def kill(self) -> None:
        """End all, as a power cut would."""
        for node in self.nodes:
            node.kill()

    def leader_of(self, topic: str, partition: int = 0, *, but: Node | None = None) -> Node:
        """The node that leads it, once there is one; one that has taken over from `but`, which is dead or frozen."""
        others = [node for node in self.nodes if node is not but]

        def leader() -> Node | None:
            found = {node.number: node for node in others}
            views = [view for view in map(_view, others) if view is not None]
            leaders = {found.get(view.leaders.get((topic, partition), 0)) for view in views}
            return leaders.pop() if len(leaders) == 1 else None

        return _until(leader, f"a leader of {topic}/{partition}")

    def wait_until_whole(self) -> None:
        """Every node serves, and every copy of every partition is in step: another node may be taken away."""
        _until(lambda: all(view is not None and view.whole for view in map(_view, self.nodes)) or None, "a whole cluster")


@dataclass(frozen=True)
class View:
    """The cluster as one of its nodes sees it."""

    leaders: dict[tuple[str, int], int]
    """Topic and partition to the number of the node that leads it."""
    whole: bool


def _view(node: Node) -> View | None:
    # In a thread of its own, because fixtures may run inside a loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _ask_for_view(node)).result()


async def _ask_for_view(node: Node) -> View | None:
    """None if it does not answer."""
    try:
        connection = await create_conn("127.0.0.1", node.port, request_timeout_ms=3000)
        try:
            answer = (await connection.send(MetadataRequest(None))).to_object()
        finally:
            connection.close()
    except (KafkaError, OSError, TimeoutError):
        return None
    parts = [(topic["topic"], part) for topic in answer["topics"] for part in topic["partitions"]]
    return View(
        {(topic, part["partition"]): part["leader"] for topic, part in parts},
        len(answer["brokers"]) == NODES and all(set(part["isr"]) == set(part["replicas"]) for _, part in parts),
    )


def _until(question: Callable[[], Result | None], what: str) -> Result:
    deadline = time.monotonic() + PATIENCE
    while (answer := question()) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {PATIENCE:g} s for {what}")
        time.sleep(0.1)
    return answer
