"""The schedule: when periods end, by the calendar. Nothing here reads a clock."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal

from streamproc.errors import StudyError
from streamproc.validation import format_value

Every = timedelta | Literal["month"]

_LONGEST = timedelta(days=3660)
_SPAN = re.compile(r"([0-9]{1,7})([smhdw])")
_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_WORDS = {"minute": "m", "hour": "h", "day": "d", "week": "w"}


SHORTEST_MONTH = timedelta(days=28)


@dataclass(frozen=True)
class Schedule:
    """Period `t` ends at `start + t * every`; its cut follows `grace` later, and its release `release_after` later still.

    >>> from datetime import UTC, datetime, timedelta
    >>> sp.Schedule(datetime(2026, 1, 1, tzinfo=UTC), "month", grace=timedelta(days=2)).cut_of(1).isoformat()
    '2026-02-03T00:00:00+00:00'
    """

    start: datetime
    """When period 1 begins, in UTC."""
    every: Every
    """Length of a period; "month" is a calendar month."""
    grace: timedelta = timedelta(0)
    """How long after its end a period still accepts reports."""
    release_after: timedelta | None = None
    """How long after its scheduled cut a period is published; None publishes it as soon as it is computed."""

    def __post_init__(self) -> None:
        _check_start(self.start)
        if self.every != "month":
            _check_span("schedule.every", self.every, timedelta(seconds=1))
        _check_span("schedule.grace", self.grace, timedelta(0))
        if self.release_after is not None:
            _check_span("schedule.release_after", self.release_after, timedelta(0))

    def end_of(self, period: int) -> datetime:
        """When `period` ends, in UTC, without grace; `end_of(0)` is the start.

        A month without the day of `start` ends on its last day, which does not change the end of the next month.
        """
        if isinstance(self.every, timedelta):
            return self.start + period * self.every
        years, month = divmod(self.start.month - 1 + period, 12)
        year = self.start.year + years
        if year > 9999:
            raise OverflowError("the calendar ends with the year 9999")
        day = min(self.start.day, monthrange(year, month + 1)[1])
        return self.start.replace(year=year, month=month + 1, day=day)

    def cut_of(self, period: int) -> datetime:
        """When `period` is to be closed, in UTC: its end plus grace."""
        return self.end_of(period) + self.grace

    def periods_due(self, now: datetime) -> int:
        """The number of periods whose cut is due by `now`, in UTC. It takes no longer for a later time."""
        ended = now - self.grace
        if isinstance(self.every, timedelta):
            return max((ended - self.start) // self.every, 0)
        months = 12 * (ended.year - self.start.year) + ended.month - self.start.month
        if months <= 0:
            return 0
        return months if self.end_of(months) <= ended else months - 1

    def release_of(self, period: int) -> datetime:
        """When `period` is due to be published, in UTC: its cut plus `release_after`, or its cut if there is none."""
        return self.cut_of(period) + (self.release_after or timedelta(0))

    @property
    def periods_ahead(self) -> int:
        """The number of periods by which a report sent within its own period may be ahead of the last closed period.

        During its grace a period is still open while people report for later periods: those within the grace, and one more.
        """
        if not self.grace:
            return 1
        return self.grace // (self.every if isinstance(self.every, timedelta) else SHORTEST_MONTH) + 2


def _check_start(value: object) -> None:
    if not (isinstance(value, datetime) and value.utcoffset() == timedelta(0)):
        got = value.isoformat() if isinstance(value, date | time) else format_value(value)
        raise StudyError("schedule.start", got, "a time with its zone, such as 2026-01-01T00:00:00Z")


def _check_span(key: str, value: object, shortest: timedelta) -> None:
    if not (isinstance(value, timedelta) and shortest <= value <= _LONGEST):
        got = str(value) if isinstance(value, timedelta) else format_value(value)
        raise StudyError(key, got, f"a length from {shortest.seconds}s to {_LONGEST.days}d")


def span_of(key: str, text: object) -> timedelta:
    """A length of time as a study file writes it: `90s`, `5m`, `1h`, `2d`, `1w`, `hour`, `day`, `week`."""
    if isinstance(text, str):
        found = _SPAN.fullmatch(f"1{_WORDS[text]}" if text in _WORDS else text)
        if found:
            return int(found[1]) * _UNITS[found[2]]
    words = ', "month"' if key == "schedule.every" else ""
    raise StudyError(key, format_value(text), f'a length of time such as "90s", "5m", "1h", "day", "week"{words}')
