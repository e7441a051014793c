"""Containers of the project's image that tests start, observe, stop, kill and restart."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.network import Network

from tests.containers.engine import STREAMPROC
from tests.stream.programs import PATIENCE, Ended

SAFE: dict[str, Any] = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges"]}
"""How every container of the project is run."""
PATIENT = {"timeout": 600}
"""Of a client of the engine, in seconds: one without overlay mounts copies a whole image for each container."""


class RunningContainer:
    """One container."""

    def __init__(self, described: DockerContainer) -> None:
        self._described = described
        described.start()
        self.container = described.get_wrapped_container()

    @property
    def log(self) -> str:
        """What it has printed so far, in all its lives."""
        return str(self.container.logs().decode())

    @property
    def health(self) -> str:
        """`starting`, `healthy` or `unhealthy`."""
        self.container.reload()
        return str(self.container.attrs["State"]["Health"]["Status"])

    @property
    def checks(self) -> list[int]:
        """What its last health checks ended with: 0 if it was well."""
        self.container.reload()
        return [int(check["ExitCode"]) for check in self.container.attrs["State"]["Health"]["Log"]]

    @property
    def runs(self) -> bool:
        self.container.reload()
        return bool(self.container.status == "running")

    def says(self, text: str, times: int = 1) -> None:
        """Wait for lines with this text."""
        deadline = time.monotonic() + PATIENCE
        while True:
            runs, log = self.runs, self.log
            if sum(text in line for line in log.splitlines()) >= times:
                return
            assert runs, f"it ended and did not say {text!r}:\n{log}"
            assert time.monotonic() < deadline, f"it does not say {text!r}:\n{log}"
            time.sleep(0.2)

    def becomes_healthy(self) -> None:
        """Wait for its health check to succeed."""
        deadline = time.monotonic() + PATIENCE
        while self.health != "healthy":
            assert self.runs and time.monotonic() < deadline, f"it is {self.health}:\n{self.log}"
            time.sleep(0.2)

    def asks(self, line: str) -> tuple[int, str]:
        """A line of shell inside it: the exit code, and what it printed."""
        code, printed = self.container.exec_run(["sh", "-c", line])
        return int(code or 0), bytes(printed).decode()

    def end(self) -> Ended:
        """Wait for it to end by itself."""
        code = int(self.container.wait(timeout=PATIENCE)["StatusCode"])
        return Ended(code, self.container.logs(stderr=False).decode(), self.container.logs(stdout=False).decode())

    def done(self) -> Ended:
        """Wait for it to end well."""
        ended = self.end()
        assert ended.code == 0, self.log
        return ended

    def stop(self) -> Ended:
        """SIGTERM, and wait for its end."""
        self.container.stop(timeout=60)
        return self.end()

    def kill(self) -> None:
        """SIGKILL."""
        self.container.kill("SIGKILL")
        self.container.wait(timeout=PATIENCE)

    def start_again(self) -> None:
        """The same container, on what it left in its volumes."""
        self.container.start()

    def remove(self) -> None:
        self._described.stop()


class ContainerStarter:
    """Starts containers in one network, and sees to it that neither they nor their volumes outlive the test."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._started: list[RunningContainer] = []
        self._volumes: list[str] = []

    def volume(self) -> str:
        """A new volume's name; the engine makes it when it is first used."""
        self._volumes.append(f"streamproc-test-{uuid.uuid4().hex[:12]}")
        return self._volumes[-1]

    def start(
        self,
        arguments: Iterable[object],
        *,
        image: str = STREAMPROC,
        environ: Mapping[str, str] | None = None,
        mounts: Mapping[str | Path, str] | None = None,
        state: str | None = None,
        entrypoint: list[str] | None = None,
    ) -> RunningContainer:
        """A container of an image, its root file system read-only. `mounts` are folders it may read."""
        described = DockerContainer(image, PATIENT, env=dict(environ or {})).with_network(self._network)
        described.with_command([str(argument) for argument in arguments]).with_tmpfs_mount("/tmp")
        described.with_kwargs(**SAFE, **({} if entrypoint is None else {"entrypoint": entrypoint}))
        for source, target in (mounts or {}).items():
            described.with_volume_mapping(source, target, "ro")
        if state is not None:
            described.with_volume_mapping(state, "/state", "rw")
        self._started.append(RunningContainer(described))
        return self._started[-1]

    def remove_all(self) -> None:
        """All of them, also after one that could not be removed."""
        with ExitStack() as stack:
            client = stack.enter_context(closing(DockerClient().client))
            for volume in self._volumes:
                stack.callback(_remove_volume, client, volume)
            for running in self._started:
                stack.callback(running.remove)


def _remove_volume(client: Any, name: str) -> None:
    for found in client.volumes.list(filters={"name": name}):
        found.remove(force=True)
