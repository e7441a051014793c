"""What the page shows of topics that are read slowly, read again, incomplete or damaged: it never goes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from streamproc.cli.commands.page import update_monitor
from streamproc.errors import LogUnavailable
from streamproc.log.port import Log, Offset, Reader, Record, read_to_end
from streamproc.protocol.ledger import Intent, decode_ledger
from streamproc.protocol.topics import Topics
from streamproc.service.monitor import ProcessMonitor
from streamproc.status_page.follower import CATCH_UP_TIMEOUT_S, LEDGER_SHRANK, MAX_RETRY_PAUSE_S, Follower, PageSnapshot
from streamproc.testing import in_virtual_time
from streamproc.testing.simulated_broker import StoredRecord
from tests.service.test_gather import deployment_in
from tests.synthesizer.study_runs import STUDY, run_two_periods


class SlowReader:
    """As over a network: at once it finds nothing when it was just opened, and later what one small answer holds."""

    def __init__(self, log: SlowLog, within: Reader, topic: str) -> None:
        self._log, self._within, self._topic = log, within, topic
        self._fresh = True

    @property
    def position(self) -> Offset:
        return self._within.position

    async def read(self, *, max_records: int = 10_000, timeout: float = 0.5) -> Sequence[Record]:
        if self._log.away:
            raise LogUnavailable("away")
        if self._log.unexpected is not None:
            raise self._log.unexpected
        if self._log.withheld in self._topic:
            await asyncio.sleep(timeout)
            return ()
        if self._fresh and timeout == 0.0:
            self._fresh = False
            return ()
        if "synthetic" in self._topic:
            await asyncio.sleep(self._log.pace)
        found = await self._within.read(max_records=2 if timeout == 0.0 else max_records, timeout=timeout)
        return [self._log.alter(self._topic, cast(StoredRecord, record)) for record in found]

    async def close(self) -> None:
        await self._within.close()


class SlowLog:
    """A log whose readers are slow, and to which this and that happens."""

    def __init__(self, within: Log) -> None:
        self.within = within
        self.away = False
        self.pace = 0.0
        self.withheld = "no topic"
        self.damaged = "no topic"
        self.opened = 0
        self.unexpected: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.within, name)

    async def reader(self, topic: str, partition: int, offset: Offset) -> SlowReader:
        self.opened += topic.endswith(".ledger")
        return SlowReader(self, await self.within.reader(topic, partition, offset), topic)

    async def last_stable_offset(self, topic: str, partition: int) -> Offset:
        return Offset(0) if self.withheld in topic else await self.within.last_stable_offset(topic, partition)

    def alter(self, topic: str, record: StoredRecord) -> Record:
        if self.damaged in topic and record.offset >= 2:  # its second column
            return replace(record, value=b"\xc1")
        return record


Scenario = Callable[[SlowLog, list[PageSnapshot]], Awaitable[None]]


def shown_in(scenario: Scenario) -> list[PageSnapshot]:
    """All that was shown, one after the other, during the scenario, of a study with two released periods."""
    seen: list[PageSnapshot] = []

    async def run() -> None:
        log = SlowLog((await run_two_periods()).simulated.log)
        follower = Follower(STUDY, ThreadPoolExecutor(1), seen.append)
        task = asyncio.create_task(follower.follow(cast(Log, log)))
        await scenario(log, seen)
        task.cancel()
        await asyncio.wait([task])

    in_virtual_time(run())
    return seen


def columns(shown: PageSnapshot) -> dict[str, int]:
    return {name: history.period for name, history in shown.histories.items()}


ALL = {"w": 2, "c": 2}


def test_a_long_study_is_not_shown_before_all_of_it_was_read_however_long_that_takes() -> None:
    async def scenario(log: SlowLog, seen: list[PageSnapshot]) -> None:
        log.pace = CATCH_UP_TIMEOUT_S * 0.75
        await asyncio.sleep(20 * CATCH_UP_TIMEOUT_S)

    assert [columns(shown) for shown in shown_in(scenario)] == [ALL]


def test_a_study_that_goes_on_is_shown_though_a_release_lacks_columns_for_good() -> None:
    async def scenario(log: SlowLog, seen: list[PageSnapshot]) -> None:
        log.withheld = "synthetic.c"
        ledger = Topics(STUDY.name).ledger
        records = [record.value async for record in read_to_end(log.within, ledger)]
        last = [value for value in records if isinstance(decode_ledger(value), Intent)][-1]
        for _ in range(10):
            await log.append(ledger, 0, last)  # said again
            await asyncio.sleep(CATCH_UP_TIMEOUT_S / 4)

    assert [columns(shown) for shown in shown_in(scenario)][:1] == [{"w": 2}]


def test_after_the_broker_was_away_what_was_shown_stays_until_all_of_it_was_read_again() -> None:
    async def scenario(log: SlowLog, seen: list[PageSnapshot]) -> None:
        await asyncio.sleep(10)
        log.away = True
        await asyncio.sleep(10)
        assert not seen[-1].following
        log.away = False
        await asyncio.sleep(60)
        assert log.opened > 1

    seen = shown_in(scenario)
    assert all((shown.period, columns(shown)) == (2, ALL) for shown in seen), [columns(shown) for shown in seen]
    assert seen[-1].following


def test_the_broker_is_not_blamed_for_a_column_that_was_lost_while_it_was_away() -> None:
    async def scenario(log: SlowLog, seen: list[PageSnapshot]) -> None:
        await asyncio.sleep(10)
        log.away, log.withheld = True, ".synthetic.w"
        await asyncio.sleep(10)
        assert not seen[-1].following
        log.away = False
        await asyncio.sleep(MAX_RETRY_PAUSE_S + CATCH_UP_TIMEOUT_S)
        assert seen[-1].following

    seen = shown_in(scenario)
    assert all((shown.period, columns(shown)) == (2, ALL) for shown in seen)


def test_a_ledger_that_became_shorter_is_a_problem_and_what_was_shown_stays() -> None:
    async def scenario(log: SlowLog, seen: list[PageSnapshot]) -> None:
        await asyncio.sleep(10)
        log.away, log.withheld = True, "."
        await asyncio.sleep(10)
        log.away = False
        await asyncio.sleep(MAX_RETRY_PAUSE_S + CATCH_UP_TIMEOUT_S)
        assert (seen[-1].problem, seen[-1].following) == (LEDGER_SHRANK, True)

    seen = shown_in(scenario)
    assert all((shown.period, columns(shown)) == (2, ALL) for shown in seen)


def test_nothing_is_shown_of_a_study_before_its_columns_were_read() -> None:
    async def scenario(log: SlowLog, seen: list[PageSnapshot]) -> None:
        await asyncio.sleep(10)

    assert [(shown.period, columns(shown)) for shown in shown_in(scenario)] == [(2, ALL)]


def test_a_column_that_never_comes_does_not_hide_the_ledger() -> None:
    async def scenario(log: SlowLog, seen: list[PageSnapshot]) -> None:
        log.withheld = ".synthetic.w"
        await asyncio.sleep(CATCH_UP_TIMEOUT_S + 1)
        assert columns(seen[-1]) == {"c": 2}
        log.withheld = "no topic"
        await asyncio.sleep(2)

    seen = shown_in(scenario)
    assert {shown.period for shown in seen} == {2}
    assert columns(seen[-1]) == ALL


def test_what_does_not_verify_is_said_all_the_time_and_read_ever_more_seldom_until_it_does() -> None:
    async def scenario(log: SlowLog, seen: list[PageSnapshot]) -> None:
        log.damaged = ".synthetic.c"
        await asyncio.sleep(3600)
        assert seen[-1].period == 2, "the ledger does verify"
        assert all(shown.problem is not None and shown.following for shown in seen)
        assert log.opened < 70
        log.damaged = "no topic"
        await asyncio.sleep(120)

    seen = shown_in(scenario)
    assert (seen[-1].problem, columns(seen[-1])) == (None, ALL)


def test_damage_that_is_found_late_takes_nothing_from_what_was_shown() -> None:
    async def scenario(log: SlowLog, seen: list[PageSnapshot]) -> None:
        await asyncio.sleep(10)
        log.damaged, log.away = ".synthetic.c", True
        await asyncio.sleep(10)
        log.away = False
        await asyncio.sleep(600)
        assert seen[-1].problem is not None

    assert all((shown.period, columns(shown)) == (2, ALL) for shown in shown_in(scenario))


@pytest.mark.parametrize("cause", ["damaged", "away", "unexpected", "shorter"])
def test_a_page_is_ready_only_while_what_it_reads_holds(tmp_path: Path, cause: str) -> None:
    async def run() -> None:
        run = await run_two_periods()
        log, health = SlowLog(run.simulated.log), ProcessMonitor(deployment_in(tmp_path, run.simulated.clock))
        follower = Follower(STUDY, ThreadPoolExecutor(1), lambda shown: update_monitor(health, shown))
        task = asyncio.create_task(follower.follow(cast(Log, log)))
        ready = list[bool]()
        for wrong in (False, True, False):
            log.damaged = ".synthetic.c" if wrong and cause == "damaged" else "no topic"
            log.withheld = "." if wrong and cause == "shorter" else "no topic"
            log.away = wrong and cause != "unexpected"  # after that the topics are read again from their start
            log.unexpected = RuntimeError("unexpected") if wrong and cause == "unexpected" else None
            await asyncio.sleep(90.0)
            log.away = wrong and cause == "away"
            await asyncio.sleep(600.0)
            ready.append(health.publicly_ready)
        task.cancel()
        await asyncio.wait([task])
        assert ready == [True, False, True]

    in_virtual_time(run())


def test_a_page_of_another_study_is_not_ready_and_its_log_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = list[tuple[str, int]]()
    monkeypatch.setattr(
        "streamproc.status_page.follower.event", lambda line, level=logging.INFO: lines.append((line, level))
    )

    async def run() -> None:
        run = await run_two_periods()
        health, other = (
            ProcessMonitor(deployment_in(tmp_path, run.simulated.clock)),
            replace(STUDY, horizon=STUDY.last_period + 1),
        )
        follower = Follower(other, ThreadPoolExecutor(1), lambda shown: update_monitor(health, shown))
        task = asyncio.create_task(follower.follow(run.simulated.log))
        await asyncio.sleep(3600.0)
        task.cancel()
        await asyncio.wait([task])
        assert not health.publicly_ready

    in_virtual_time(run())
    assert [(level, "its ledger was begun with other values" in line) for line, level in lines] == [(logging.WARNING, True)]
