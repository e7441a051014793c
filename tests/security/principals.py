"""A study on a broker with ACLs, in which each role connects as a principal of its own."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from streamproc.log.connect import connect
from streamproc.log.port import Log
from streamproc.protocol.topics import Topics
from tests.broker.secure import SecureBroker
from tests.stream.deployed_study import DeployedStudy
from tests.stream.programs import Ended, Program

REPORTER, GATHERER, SYNTHESIZER = "reporter", "gatherer", "synthesizer"
STEWARD, OPERATOR, ANALYST = "steward", "operator", "analyst"
PRINCIPALS = (REPORTER, GATHERER, SYNTHESIZER, STEWARD, OPERATOR, ANALYST)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Right:
    """One operation of one line that `init --print` shows."""

    principal: str
    operation: str
    resource: tuple[str, str]
    """Such as `--topic`, `poverty.reports`."""
    to_purge: bool
    """Whether it is needed only when the study is over."""

    def __str__(self) -> str:
        kind, name = self.resource
        return f"{self.principal}-{self.operation}-{name.partition('.')[2] if kind == '--topic' else kind.strip('-')}"

    @property
    def arguments(self) -> list[str]:
        """As kafka-acls takes them."""
        return ["--allow-principal", f"User:{self.principal}", "--operation", self.operation, *self.resource]


def command_lines(printed: str, *, to_purge: bool = False) -> list[str]:
    """The commands in what `init --print` shows: those a study needs to run, or those of its last section."""
    parts = printed.partition("to purge it\n")
    return [line for line in parts[2 if to_purge else 0].splitlines() if line.startswith("kafka-acls ")]


def rights(printed: str) -> list[Right]:
    """What they allow, one by one."""
    found = []
    for to_purge in (False, True):
        for line in command_lines(printed, to_purge=to_purge):
            words = shlex.split(line)
            assert words[:3] == ["kafka-acls", "--add", "--allow-principal"]
            operations = [words[at + 1] for at, word in enumerate(words) if word == "--operation"]
            principal = words[3].removeprefix("User:")
            found += [Right(principal, each, (words[-2], words[-1]), to_purge) for each in operations]
    return found


@dataclass(frozen=True)
class Secured:
    """One life of the study: its files are new, and so are its topics."""

    deployed: DeployedStudy
    broker: SecureBroker

    @property
    def topics(self) -> Topics:
        return self.deployed.topics

    def environment(self, principal: str) -> dict[str, str]:
        """How that principal connects: with a password."""
        return self.broker.environment(principal)

    def state(self, principal: str) -> Path:
        """Everybody has a machine of their own."""
        return self.deployed.folder / f"{principal}.state"

    def start(self, principal: str, command: str, *arguments: object) -> Program:
        """`streamproc COMMAND STUDY ARGUMENTS...` as a process of that principal."""
        return self.deployed.start(
            command, "--state", self.state(principal), *arguments, environ=self.environment(principal)
        )

    def call(self, principal: str, command: str, *arguments: object) -> Ended:
        """The same in this process, to its end."""
        with self.being(principal):
            return self.deployed.call(command, "--state", self.state(principal), *arguments)

    def do(self, principal: str, command: str, *arguments: object) -> Ended:
        """The same, to its good end."""
        ended = self.call(principal, command, *arguments)
        assert ended.code == 0, (principal, command, ended.complaint)
        return ended

    @contextmanager
    def being(self, principal: str) -> Iterator[None]:
        others = {name: value for name, value in os.environ.items() if not re.match("STREAMPROC_KAFKA_", name)}
        with patch.dict(os.environ, others | self.environment(principal), clear=True):
            yield

    def connect(self, principal: str) -> Log:
        return connect(self.deployed.url, environ=self.environment(principal))

    def append(self, principal: str, topic: str, value: bytes) -> None:
        async def work() -> None:
            async with self.connect(principal) as log:
                await log.append(topic, 0, value)

        run(work())

    def read(self, principal: str, topic: str) -> list[bytes | None]:
        """What is in partition 0 of a topic, by a reader of that principal."""

        async def work() -> list[bytes | None]:
            async with self.connect(principal) as log:
                reader = await log.reader(topic, 0, await log.start_offset(topic, 0))
                found, end = [], await log.last_stable_offset(topic, 0)
                while reader.position < end:
                    found += [record.value for record in await reader.read()]
                return found

        return run(work())

    def remove_topics(self) -> None:
        """As the broker's administrator, who first ends what transaction a life before may have left open: its end would
        leave a mark in the new topics."""

        async def work() -> None:
            async with connect(self.broker.url, environ={}) as log:
                await (await log.transactional_producer(self.topics.transactional_id)).fence()
                for topic in await log.topics():
                    if topic.startswith(f"{self.deployed.parameters.name}."):
                        await log.delete_topic(topic)

        run(work())


class ByCertificate(Secured):
    """Principals that use certificates instead of passwords, with the broker at `url_of_mutual_tls`."""

    def environment(self, principal: str) -> dict[str, str]:
        return self.broker.mutual_environment(self.broker.certificates.client(principal))


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Within a time after which it never will."""

    async def bounded() -> Result:
        async with asyncio.timeout(120):
            return await work

    return asyncio.run(bounded())
