"""For analysts' programs: the columns of a release as they come, each checked against the ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from streamproc.panel import Panel
from streamproc.ports.log import Log
from streamproc.privacy.quantities import Period
from streamproc.service.public import PublicStudy
from streamproc.study import Study
from streamproc.synth.contract import WindowContract
from streamproc.synth.step import Column


@dataclass(frozen=True, eq=False)
class Published:
    """One column that is in the ledger."""

    release: str
    period: Period
    column: Column
    digest: bytes
    """SHA-256 of the packed column, as in the ledger."""
    panel: Panel
    """The release up to this column; up to the first `k` of a window release, which come out together."""


async def subscribe(log: Log, study: Study, release: str | None = None) -> AsyncIterator[Published]:
    """Every column of a release (default: of all) from the first, then as they come; ends after period `T`."""
    names = [release] if release is not None else [r.name for r in study.releases]
    for name in names:
        study.release(name)
    public = PublicStudy(log, study)
    given = dict.fromkeys(names, 0)
    try:
        while min(given.values()) < study.horizon:
            await public.poll(timeout=0.5)
            for name in names:
                columns = public.columns(name)
                panel = public.panel(name) if len(columns) > given[name] else None
                for column in columns[given[name] :]:
                    assert panel is not None
                    yield Published(name, column.period, column.symbols, column.digest, _up_to(panel, column.period))
                given[name] = len(columns)
    finally:
        await public.close()


def _up_to(panel: Panel, period: Period) -> Panel:
    first = panel.contract.mechanism.k if isinstance(panel.contract, WindowContract) else 1
    last = max(period, first)
    measurements = None if panel.measurements is None else panel.measurements[:last]
    return replace(panel, columns=panel.columns[:last], measurements=measurements)
