"""One Kafka broker: a single KRaft node that keeps its data when it is stopped or killed, and starts again on it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.broker.jars import kafka_jars
from tests.free_ports import free_ports

GUEST = "guest"
PASSWORD = "guest-secret"
"""Credentials for the listener on which only what an ACL allows is permitted. The other listener permits everything."""


PROPERTIES = "server.properties"


class KafkaBroker:
    """`folder` holds configuration, data and log. `settings` are added to the configuration."""

    heap = "512m"

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port, self.guest_port, self.controller_port = free_ports(3)
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"kafka://127.0.0.1:{self.port}"

    @property
    def guest_url(self) -> str:
        return f"kafka://127.0.0.1:{self.guest_port}"

    def guest_environment(self) -> dict[str, str]:
        """How a guest connects to `guest_url`."""
        password = self.folder / "guest.password"
        password.write_text(PASSWORD + "\n")
        return {
            "STREAMPROC_KAFKA_SECURITY": "SASL_PLAINTEXT",
            "STREAMPROC_KAFKA_MECHANISM": "PLAIN",
            "STREAMPROC_KAFKA_USER": GUEST,
            "STREAMPROC_KAFKA_PASSWORD_FILE": str(password),
        }

    def allow(self, *arguments: str) -> None:
        """Add an ACL for the guest, in the words of kafka-acls: `--operation Describe --topic t`."""
        self._java("org.apache.kafka.tools.AclCommand", *f"--bootstrap-server 127.0.0.1:{self.port} --add".split(),
                   "--allow-principal", f"User:{GUEST}", *arguments)  # fmt: skip

    def start(self, *, timeout: float = 180.0) -> None:
        """Start on what is in the folder; returns when the broker answers."""
        self.launch()
        self.wait(timeout)

    def format(self, cluster: str) -> None:
        """Make the folder that of a new node of this cluster."""
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / PROPERTIES
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        options = ["--cluster-id", cluster, "--config", str(properties), *self._format_options()]
        self._java("kafka.tools.StorageTool", "format", *options)

    def launch(self) -> None:
        """The same as `start`, but returns at once if the folder is not new."""
        properties = self.folder / PROPERTIES
        if not properties.exists():
            self.format(new_cluster_id())
        with (self.folder / "broker.log").open("ab") as log:
            # Not this process's session: a Ctrl-C of the tests is not the broker's.
            self._process = subprocess.Popen(
                [*self.java_command("-Xms128m", f"-Xmx{self.heap}"), "kafka.Kafka", str(properties)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it in order."""
        self._signal(signal.SIGTERM)
        self._end()

    def kill(self) -> None:
        """End it as a power cut would."""
        self._signal(signal.SIGKILL)
        self._end()

    def freeze(self) -> None:
        """Stop the process without ending it, so that it does not answer; return when every thread has stopped."""
        self._signal(signal.SIGSTOP)
        while self.runs and not self._stopped():
            time.sleep(0.002)

    def thaw(self) -> None:
        """Go on after `freeze`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.runs:
            self._process.send_signal(number)

    def _stopped(self) -> bool:
        """Whether every thread is stopped: SIGSTOP takes effect after it is sent, and a thread may answer until then."""
        assert self._process is not None
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/stat")
        try:
            return all(stat.read_text().rpartition(") ")[2].startswith("T") for stat in threads)
        except OSError:  # a thread that ended between the listing and the reading
            return False

    def _end(self) -> None:
        if self._process is not None:
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _format_options(self) -> list[str]:
        """What else is known before the first start."""
        return []

    def _properties(self) -> dict[str, str]:
        jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{GUEST}="{PASSWORD}";'
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},GUEST://127.0.0.1:{self.guest_port},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port},GUEST://127.0.0.1:{self.guest_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,GUEST:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.guest.plain.sasl.jaas.config": jaas,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A test of time-outs should not have to wait for the default of ten seconds.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
            **self._settings,
        }

    def wait(self, timeout: float = 180.0) -> None:
        """Until it answers after `launch`."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not self.runs:
                break
            # In a thread of its own, because fixtures may run inside a loop.
            with ThreadPoolExecutor(1) as thread:
                if _listens(self.port) and thread.submit(asyncio.run, _answers(self.port)).result():
                    return
            time.sleep(0.1)
        tail = (self.folder / "broker.log").read_text(errors="replace")[-3000:]
        self.kill()
        raise RuntimeError(f"the broker did not start within {timeout:g} s:\n{tail}")

    def java_command(self, *options: str) -> list[str]:
        # The first compiler only: it starts sooner, and no test runs long enough to gain from the second.
        quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
        return ["java", *quick, *options, "-cp", f"{kafka_jars()}{os.sep}*"]

    def _java(self, *arguments: str) -> None:
        outcome = subprocess.run([*self.java_command(), *arguments], capture_output=True, text=True, check=False)
        if outcome.returncode != 0:
            raise RuntimeError(f"{arguments[0]} failed:\n{outcome.stdout[-2000:]}{outcome.stderr[-2000:]}")


def new_cluster_id() -> str:
    # Not with a dash at its beginning: it would be taken for an option.
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


async def _answers(port: int) -> bool:
    from aiokafka.client import AIOKafkaClient
    from aiokafka.errors import KafkaError

    client = AIOKafkaClient(bootstrap_servers=f"127.0.0.1:{port}", request_timeout_ms=2000)
    try:
        await client.bootstrap()
        return bool(await client.force_metadata_update()) and client.cluster.controller is not None
    except (KafkaError, OSError):
        return False
    finally:
        await client.close()
