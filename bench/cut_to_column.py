"""How long it takes from a cut until everybody can read the column: settle, tally, draw, persist, announce, publish.

The roles run together in a process of their own, with real noise, and have taken in all reports before the cut. The reader
is in another process, and sees nothing before it is committed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.brokers import NoBroker, own_broker
from bench.result import Result
from bench.streamed import Plan, send
from bench.studies import shown
from streamproc.log.control_topic import append_cut
from streamproc.log.port import Log, Offset, Reader
from streamproc.log.topic_setup import set_up_topics
from streamproc.privacy.types import Period
from streamproc.protocol.columns import ColumnChunk, decode_synthetic
from streamproc.service.deployment import Deployment
from tests.free_ports import free_ports

PERIODS = 5
WARM = 2
"""Periods not measured: the windows of the first are shorter, and the second is the first with full ones."""
PATIENCE = 600.0
"""Seconds after which something is wrong."""


def measure(quick: bool = False) -> Iterator[Result]:
    """At each number of people."""
    try:
        with own_broker(quick) as (url, folder):
            for people in (1000,) if quick else (100_000, 1_000_000):
                plan = Plan(f"cut{people}", people, PERIODS, packed=True)
                seconds = asyncio.run(seconds_to_columns(plan, plan.deploy(url, folder), folder))
                name = f"from cut to columns of two releases, {shown(people)} people"
                yield Result(name=name, value=median(seconds[WARM:]), unit="s")
    except NoBroker as reason:
        print(f"the time from cut to column is not measured: {reason}")


async def seconds_to_columns(plan: Plan, deployment: Deployment, folder: Path) -> list[float]:
    """For each period, the seconds from asking for its cut until the last of its columns was read."""
    study, topics = deployment.study, deployment.topics
    ids, seconds = plan.ids(), []
    async with deployment.connect() as log:
        await set_up_topics(log, study)
        releases = [await Release.open(log, topics.synthetic(release.name)) for release in study.releases]
        with _roles(folder / f"{plan.name}.toml", folder / f"{plan.name}.log") as roles:
            for period in range(1, plan.periods + 1):
                await send(log, topics.reports, plan.records(ids, period))
                await roles.have_read(await log.high_watermark(topics.reports, 0))
                start = time.perf_counter()
                await append_cut(log, study, Period(period))
                await asyncio.gather(*(release.reach(period, roles) for release in releases))
                seconds.append(time.perf_counter() - start)
    return seconds


class Release:
    """A reader of one release's topic that knows its records and nothing else."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @classmethod
    async def open(cls, log: Log, topic: str) -> Release:
        """From the start of the topic."""
        return cls(await log.reader(topic, 0, Offset(0)))

    async def reach(self, period: int, roles: Roles) -> None:
        """Read on until the column of this period is there to its last row."""
        while True:
            for record in await self._reader.read(timeout=0.2):
                chunk = decode_synthetic(record.value)
                if isinstance(chunk, ColumnChunk) and chunk.period == period and chunk.first + chunk.rows == chunk.total:
                    return
            roles.check()


@dataclass
class Roles:
    """`streamproc run`."""

    process: subprocess.Popen[bytes]
    operator: str
    """The address of its operator's listener."""
    log: Path

    def check(self) -> None:
        """Raise if it has ended."""
        if self.process.poll() not in (None, 0):
            raise RuntimeError(f"the roles ended:\n{self.log.read_text()[-2000:]}")

    async def have_read(self, records: int) -> None:
        """Wait until the gatherer has taken in that many."""
        deadline = time.monotonic() + PATIENCE
        while await asyncio.to_thread(self._read) < records:
            self.check()
            if time.monotonic() > deadline:
                raise RuntimeError(f"the gatherer has not read {records} records in {PATIENCE:g} s")
            await asyncio.sleep(0.2)

    def _read(self) -> float:
        try:
            with urllib.request.urlopen(f"http://{self.operator}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return 0
        return sum(float(line.split()[-1]) for line in lines if line.startswith("streamproc_reports_total"))


@contextmanager
def _roles(study: Path, log: Path) -> Iterator[Roles]:
    operator = f"127.0.0.1:{free_ports(1)[0]}"
    command = [sys.executable, "-m", "streamproc", "run", str(study), "--operator", operator, "--until-done"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield Roles(process, operator, log)
    finally:
        process.terminate()
        process.wait()
