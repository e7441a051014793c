"""Closes periods by the clock: appends a cut when the end of a period, plus the grace time, has come."""

from __future__ import annotations

from collections.abc import Callable

from streamproc.errors import PeriodsOverdue
from streamproc.log.control_topic import ControlFollower, append_cut, require_cut_accepted, require_reports_in_period_1
from streamproc.log.port import Log
from streamproc.privacy.types import Period
from streamproc.protocol.topics import Topics
from streamproc.storage.clock import Clock
from streamproc.study import Schedule, Study

MAX_SLEEP_S = 30.0
"""Longest sleep in seconds, because the clock may be adjusted during a sleep."""


class Scheduler:
    """Appends the cuts of a study in time.

    A cut cannot be undone. So periods that were missed are closed only with `catch_up`, and raise PeriodsOverdue otherwise.
    """

    def __init__(
        self,
        study: Study,
        schedule: Schedule,
        log: Log,
        clock: Clock,
        *,
        catch_up: bool,
        in_time: Callable[[], None] = lambda: None,
    ) -> None:
        """`catch_up` allows to close periods that were missed. `in_time` is called whenever every due period is closed."""
        self._study = study
        self._schedule = schedule
        self._log = log
        self._clock = clock
        self._catch_up = catch_up
        self._in_time = in_time
        self._began = False
        """Whether it was checked that the first cut was not overdue when the study began."""

    async def check(self) -> None:
        """Raise Refused if `run` would raise it now. Closes nothing."""
        control = await ControlFollower.open(self._log, self._study)
        try:
            await self._read_all(control)
            await self._check_beginning(control)
            if self._check_missed(control):
                await require_reports_in_period_1(self._log, self._study, Period(control.sequence.period + 1))
        finally:
            await control.close()

    async def run(self) -> None:
        """Close every period when it is due; returns after the last one. Can be run again after an error."""
        control = await ControlFollower.open(self._log, self._study)
        try:
            await self._read_all(control)
            await self._check_beginning(control)
            while not control.sequence.is_over:
                await self._close_what_is_due(control)
        finally:
            await control.close()

    async def _check_beginning(self, control: ControlFollower) -> None:
        overdue = control.sequence.period == 0 and self._overdue(control)
        new = not self._began and await self._log.high_watermark(Topics(self._study.name).ledger, 0) == 0
        if overdue and new and not self._catch_up:
            raise PeriodsOverdue(
                1,
                1,
                f"schedule: period 1 ended at {self._schedule.cut_of(1):%Y-%m-%d %H:%M:%S} UTC, before the study began; "
                "set a later start, or close what was missed with --catch-up",
            )
        self._began = True

    def _check_missed(self, control: ControlFollower) -> int:
        """The number of periods that are due. Raises PeriodsOverdue if it is more than 1 without `catch_up`."""
        overdue = self._overdue(control)
        if overdue > 1 and not self._catch_up:
            first, last = control.sequence.period + 1, control.sequence.period + overdue
            raise PeriodsOverdue(
                first,
                last,
                f"schedule: periods {first}..{last} ended and nobody closed them, so their reports are mixed; start with "
                "--catch-up to close them all now",
            )
        return overdue

    async def _close_what_is_due(self, control: ControlFollower) -> None:
        overdue = self._check_missed(control)
        if not overdue:
            # The missed periods are closed. `catch_up` does not apply to periods that are missed later, by a clock jump.
            self._catch_up = False
            self._in_time()
            await self._clock.sleep(self._until_next(control.sequence.period))
            await self._read_all(control)
            return
        period = Period(control.sequence.period + 1)
        await require_reports_in_period_1(self._log, self._study, period)
        await append_cut(self._log, self._study, period)
        await self._read_all(control)
        if not control.sequence.is_over:  # else the steward may have ended the study with the period before
            require_cut_accepted(control, period)

    async def _read_all(self, control: ControlFollower) -> None:
        await control.catch_up(await self._log.last_stable_offset(Topics(self._study.name).control, 0))

    def _overdue(self, control: ControlFollower) -> int:
        """The number of periods after the last closed one that have ended by now; 0 after the end of the study."""
        if control.sequence.is_over:
            return 0
        due = min(self._schedule.periods_due(self._clock.now()), self._study.last_period)
        return max(due - control.sequence.period, 0)

    def _until_next(self, closed: Period) -> float:
        wait = (self._schedule.cut_of(closed + 1) - self._clock.now()).total_seconds()
        return min(max(wait, 0.01), MAX_SLEEP_S)
