"""For analysts' programs: the columns of a release as they come, each checked against the ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from streamproc.client.public_reader import PublicReader
from streamproc.errors import LogUnavailable
from streamproc.log.port import Log
from streamproc.log.retry import OutageTimeout
from streamproc.panel import Panel
from streamproc.privacy.types import Period
from streamproc.releases.contract import WindowContract
from streamproc.releases.step import Column
from streamproc.study import Release, Study, WindowRelease


@dataclass(frozen=True, eq=False)
class ReleasedColumn:
    """One column that is in the ledger."""

    release: str
    period: Period
    column: Column
    digest: bytes
    """SHA-256 of the packed column, as in the ledger."""
    panel: Panel
    """The release up to this column; up to the first `k` of a window release, which come out together."""


async def subscribe(
    log: Log,
    study: Study,
    release: str | None = None,
    *,
    patience: float = 30.0,
    waits: Callable[[Mapping[str, Period]], None] | None = None,
) -> AsyncIterator[ReleasedColumn]:
    """Every column of a release (default: of all) from the first, then as they come; ends after period `T`.

    A broker that goes away is waited for, at most `patience` seconds at a time; no column comes twice. Then LogUnavailable.
    `waits` is called once, when all there is was given and more is to come: with the period of each release's next column.
    """
    names = [release] if release is not None else [r.name for r in study.releases]
    for name in names:
        study.release(name)
    given, waiting = dict.fromkeys(names, 0), OutageTimeout(patience)
    while min(given.values()) < study.horizon:
        public = PublicReader(log, study)
        try:
            while min(given.values()) < study.horizon:
                await public.poll(timeout=0.5)
                waiting.reset()
                quiet = True
                for name in names:
                    for column in _new(public, name, given[name]):
                        given[name] += 1
                        quiet = False
                        yield column
                if waits is not None and quiet and await _were_all(public, given):
                    waits({name: _next(study.release(name), given[name]) for name in names if given[name] < study.horizon})
                    waits = None
        except LogUnavailable as away:
            await waiting.wait(away)
        finally:
            await public.close()


async def _were_all(public: PublicReader, given: Mapping[str, int]) -> bool:
    """Whether there is no further column now: a broker may take its time over what it has."""
    await public.catch_up()
    return all(len(public.columns(name)) == count for name, count in given.items())


def _next(release: Release, given: int) -> Period:
    """When the column after the first `given` comes: the first `k` of a window release come together."""
    return Period(max(given + 1, release.k if isinstance(release, WindowRelease) else 1))


def _new(public: PublicReader, name: str, given: int) -> Iterator[ReleasedColumn]:
    """The columns of a release after the first `given`."""
    columns = public.columns(name)
    panel = public.panel(name) if len(columns) > given else None
    for column in columns[given:]:
        assert panel is not None
        yield ReleasedColumn(name, column.period, column.symbols, column.digest, _up_to(panel, column.period))


def _up_to(panel: Panel, period: Period) -> Panel:
    first = panel.contract.mechanism.k if isinstance(panel.contract, WindowContract) else 1
    last = max(period, first)
    measurements = None if panel.measurements is None else panel.measurements[:last]
    return replace(panel, columns=panel.columns[:last], measurements=measurements)
