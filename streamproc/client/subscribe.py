"""Yields the columns of a study as they are released. This is the client for programs of analysts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from streamproc.client.public_reader import PublicReader
from streamproc.errors import LogUnavailable
from streamproc.log.port import Log
from streamproc.log.retry import OutageTimeout
from streamproc.panel import Panel
from streamproc.privacy.types import Period
from streamproc.releases.step import Column
from streamproc.study import Release, Study


@dataclass(frozen=True, eq=False)
class ReleasedColumn:
    """One released column, whose digest is in the ledger."""

    release: str
    period: Period
    column: Column
    digest: bytes
    """SHA-256 of the packed column, equal to the one in the ledger."""
    panel: Panel
    """The release up to this column. The first `k` columns of a window release are released together."""


async def subscribe(
    log: Log,
    study: Study,
    release: str | None = None,
    *,
    timeout: float = 30.0,
    waits: Callable[[Mapping[str, Period]], None] | None = None,
) -> AsyncIterator[ReleasedColumn]:
    """Yield every column of a release (by default of all releases) once, from the first on; ends after the last period.

    Raises LogUnavailable if the broker is unavailable for longer than `timeout` seconds, and VerificationFailed if a column
    is not that of the ledger. `waits` is called once, when all present columns were yielded and more will follow, with the
    period of each release's next column.
    """
    names = [release] if release is not None else [r.name for r in study.releases]
    for name in names:
        study.release(name)
    yielded, outage, over = dict.fromkeys(names, 0), OutageTimeout(timeout), False
    while not over:
        public = PublicReader(log, study)
        try:
            while not over:
                await public.poll(timeout=0.5)
                outage.reset()
                quiet = True
                for name in names:
                    for column in _new_columns(public, name, yielded[name]):
                        yielded[name] += 1
                        quiet = False
                        yield column
                over = public.is_over and min(yielded.values()) == public.period
                if waits is not None and quiet and not over and await _is_caught_up(public, yielded):
                    waits(
                        {
                            name: _next_period(study.release(name), yielded[name])
                            for name in names
                            if yielded[name] < study.last_period
                        }
                    )
                    waits = None
        except LogUnavailable as unavailable:
            await outage.wait(unavailable)
        finally:
            await public.close()


async def _is_caught_up(public: PublicReader, yielded: Mapping[str, int]) -> bool:
    """Whether every column that is in the topics now was yielded. A single poll may return less than the topics hold."""
    await public.catch_up()
    return all(len(public.columns(name)) == count for name, count in yielded.items())


def _next_period(release: Release, yielded: int) -> Period:
    """The period at which the next column is released. The first columns of a release may come together."""
    return Period(max(yielded + 1, release.first_column))


def _new_columns(public: PublicReader, name: str, yielded: int) -> Iterator[ReleasedColumn]:
    """The columns of a release after the first `yielded` ones."""
    columns = public.columns(name)
    panel = public.panel(name) if len(columns) > yielded else None
    for column in columns[yielded:]:
        assert panel is not None
        yield ReleasedColumn(name, column.period, column.symbols, column.digest, _panel_up_to(panel, column.period))


def _panel_up_to(panel: Panel, period: Period) -> Panel:
    last = max(period, panel.contract.first_column)
    measurements = None if panel.measurements is None else panel.measurements[:last]
    return replace(panel, columns=panel.columns[:last], measurements=measurements)
