"""The public Python API: from a study and its people to answers, on files or on a stream.

    import streamproc as sp

    study = sp.Study.load("poverty.toml")
    people = sp.read_people("people.csv", study)
    result = sp.replay(study, people)
    print(result["quarterly"].fraction(sp.count_of("1", at_least=2, of=3)))

Secret data has the type `People`, public data the type `Panel`. Everything here is importable from `streamproc`.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from streamproc.client.reporter import Reporter
from streamproc.client.subscribe import subscribe
from streamproc.errors import InvalidInput, PanelFileError, StudyError, UnknownRelease
from streamproc.files.release_files import load_panel, results_folder, save_panel, write_results
from streamproc.files.study_files import check_enrolled, read_roster, read_study
from streamproc.files.study_files import read_people as read_people_file
from streamproc.log.port import Log
from streamproc.log.topic_setup import set_up_topics
from streamproc.offline.people import People
from streamproc.offline.replay import ReplayResult, replay_study, tallies_of
from streamproc.offline.summary import Summary, summary_of
from streamproc.panel.frames import has_arrow
from streamproc.panel.metadata import Metadata, contract_of_file
from streamproc.panel.panel import Panel as BasePanel
from streamproc.planning import ASSUMED_PEOPLE, StudyPlan, plan_study
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Period
from streamproc.protocol.ledger import StudyRecord, require_same_study
from streamproc.releases.contracts import follows_from_study, make_contracts
from streamproc.releases.kind import Contract
from streamproc.releases.step import Measurements
from streamproc.service.close import close_period
from streamproc.service.deployment import Deployment
from streamproc.service.registration import register_replay
from streamproc.storage.clock import SystemClock
from streamproc.storage.entropy import SeededEntropy, SystemEntropy
from streamproc.storage.environment import check_environment
from streamproc.storage.site_registry import SiteRegistry
from streamproc.study import (
    Broker,
    CumulativeRelease,
    PatternRelease,
    Population,
    Privacy,
    Question,
    Release,
    Schedule,
    SpellRelease,
    WindowRelease,
)
from streamproc.study import Study as BaseStudy
from streamproc.study.releases import study_check
from streamproc.study.study import DELTA

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

LEDGER = "ledger.json"
"""What `pull` writes besides the releases."""

Window = WindowRelease
Cumulative = CumulativeRelease
Spell = SpellRelease
Pattern = PatternRelease


@dataclass(frozen=True, eq=False)
class Study(BaseStudy):
    """A study: everything public that is decided before the first report.

    Read it from a study file, or build it in code. Releases without a share divide the budget equally.

    >>> study = sp.Study.load("poverty.toml")
    >>> study = sp.Study(name="poverty", alphabet=["0", "1"], horizon=12, rho=0.005,
    ...               releases=[sp.Window("quarterly", k=3), sp.Cumulative("months-poor")])
    >>> [release.name for release in study.releases]
    ['quarterly', 'months-poor']
    """

    folder: Path = field(default=Path(), compare=False)
    """The folder that relative paths in the study (its roster, an embedded broker) are relative to."""

    def __init__(
        self,
        name: str,
        alphabet: Sequence[str],
        horizon: int | None = None,
        releases: Sequence[Release] = (),
        *,
        rho: float | None = None,
        epsilon: float | None = None,
        delta: float = DELTA,
        adjacency: str = Adjacency.REPLACE_ONE.value,
        population: Population | int | None = None,
        privacy: Privacy | None = None,
        broker: Broker | str | None = None,
        schedule: Schedule | None = None,
        questions: Sequence[Question] = (),
        folder: Path = Path(),
    ) -> None:
        """Give exactly one of `rho`, `epsilon` (at `delta`) and `privacy`. Raises StudyError, which names what is wrong.

        `population` is a Population, or the expected number of people. Only an open study may have no `horizon`.
        """
        symbols = tuple(alphabet)
        study_check.alphabet("study.alphabet", symbols)
        if isinstance(releases, Release):
            raise StudyError("study.releases", "one release", "a list of releases")
        if privacy is None:
            privacy = Privacy(rho=rho, epsilon=epsilon, delta=delta, adjacency=_adjacency(adjacency))
        elif (rho, epsilon, delta, adjacency) != (None, None, DELTA, Adjacency.REPLACE_ONE.value):
            raise InvalidInput("a study has one budget: give privacy alone, or rho or epsilon with delta and adjacency")
        url = f"embedded:{name}" if broker is None else broker
        super().__init__(
            name=name,
            alphabet=symbols,
            horizon=horizon,
            population=population if isinstance(population, Population) else Population(initial=symbols[0], size=population),
            privacy=privacy,
            releases=tuple(releases),
            broker=url if isinstance(url, Broker) else Broker(url),
            schedule=schedule,
            questions=tuple(questions),
        )
        object.__setattr__(self, "folder", folder)

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a study file (TOML). Raises InvalidInput, which names the key and what is allowed.

        >>> sp.Study.load("poverty.toml").horizon
        12
        """
        study = read_study(path)
        values = {each.name: getattr(study, each.name) for each in fields(BaseStudy)}
        return cls(**values, folder=Path(path).parent)

    def __eq__(self, other: object) -> bool:
        """Studies are equal if their public values are, wherever they were read from."""
        if not isinstance(other, BaseStudy):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in fields(BaseStudy))

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, each.name) for each in fields(BaseStudy)))


def _adjacency(name: str) -> Adjacency:
    try:
        return Adjacency(name)
    except ValueError:
        allowed = " or ".join(each.value for each in Adjacency)
        raise InvalidInput(f"adjacency: got {name!r}, allowed: {allowed}") from None


@dataclass(frozen=True, eq=False, repr=False)
class Panel(BasePanel):
    """A synthetic panel as far as it was released: columns, and answers with error bars.

    >>> panel = sp.Panel.load("public/quarterly.parquet")
    >>> panel.fraction(sp.count_of("1", at_least=2, of=3), period=6).level
    0.95
    """

    @classmethod
    def load(cls, path: str | Path, contract: Contract | None = None) -> Panel:
        """Read a panel from a Parquet file that `Result.save`, `pull` or `save` wrote.

        CSV, and Parquet from elsewhere, also need the release's contract. Raises PanelFileError if the file was changed.

        >>> sp.Panel.load("public/quarterly.parquet").period
        12
        """
        return cls.of(load_panel(path, contract))

    @classmethod
    def of(cls, panel: BasePanel) -> Panel:
        """The same panel, with `load` and `save`."""
        return cls(panel.contract, panel.columns, panel.measurements, panel.followed)

    @classmethod
    def from_arrow(cls, table: pa.Table, contract: Contract | None = None) -> Panel:
        """The panel in a table of `to_arrow`. A table that another program made needs the contract."""
        return cls.of(super().from_arrow(table, contract))

    @classmethod
    def from_pandas(
        cls, frame: pd.DataFrame, contract: Contract, measurements: tuple[Measurements, ...] | None = None
    ) -> Panel:
        """The panel in a frame of `to_pandas`. The measurements, if they are given, make intervals narrower."""
        return cls.of(super().from_pandas(frame, contract, measurements))

    def save(self, path: str | Path) -> None:
        """Write the panel as `.parquet`, `.csv` or `.csv.gz`. The file is replaced atomically."""
        save_panel(self, path)


class Result(Mapping[str, Panel]):
    """A finished replay: a panel for each release, and what the study released and cost.

    >>> result = sp.replay(study, people, seed=7)
    >>> sorted(result)
    ['months-poor', 'quarterly']
    >>> result.summary["insecure"]
    True
    """

    def __init__(self, replayed: ReplayResult) -> None:
        self._panels = {name: Panel.of(panel) for name, panel in replayed.panels.items()}
        self.summary: Summary = summary_of(replayed)
        """What `summary.json` holds: costs, sizes and the released counts of every period."""

    def __getitem__(self, release: str) -> Panel:
        if release not in self._panels:
            raise UnknownRelease(release, list(self._panels))
        return self._panels[release]

    def __iter__(self) -> Iterator[str]:
        return iter(self._panels)

    def __len__(self) -> int:
        return len(self._panels)

    def __repr__(self) -> str:
        return f"Result(study={self.summary['study']!r}, releases={list(self)})"

    def save(self, folder: str | Path) -> None:
        """Write `<release>.csv`, `<release>.parquet` and `summary.json`. Without the extra `frames`, no Parquet.

        >>> result.save("public")
        >>> sorted(sp.load("public"))
        ['months-poor', 'quarterly']
        """
        target = Path(folder)
        if (target / LEDGER).exists():
            raise InvalidInput(f"{target}: holds what `pull` wrote ({LEDGER}); choose another folder")
        results_folder(target, list(self), ())
        write_results(target, self._panels, self.summary, repeated=False)
        if not has_arrow():
            warnings.warn("no Parquet files were written: pip install 'streamproc[frames]'", stacklevel=2)
            return
        for name, panel in self.items():
            panel.save(target / f"{name}.parquet")


def _expect_study(study: object) -> None:
    if not isinstance(study, BaseStudy):
        raise InvalidInput(f"expected a Study, got {type(study).__name__}; Study.load reads one from a file")


def _expect_report(period: object, texts: Sequence[object]) -> None:
    if not _is_whole(period) or not all(isinstance(text, str) for text in texts):
        raise InvalidInput("a report has an id and a symbol, which are text, and a period, which is a whole number")


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 0


def read_people(path: str | Path, study: BaseStudy) -> People:
    """Read the people of a study from a CSV or Parquet file with the header `individual,1,...,T`. Secret data.

    A row is a person, a cell a symbol, empty if missing. Raises PanelFileError, which names the line and never the content.

    >>> people = sp.read_people("people.csv", study)
    >>> people.periods
    12
    """
    _expect_study(study)
    if not isinstance(path, str | Path):
        raise InvalidInput(f"expected the path of a file, got {type(path).__name__}; write a table to a CSV file first")
    people = read_people_file(path, study)
    roster = _roster(study)
    if roster is None:
        return people
    check_enrolled(Path(path), people, roster)
    return people.enrolled(roster)


def _roster(study: BaseStudy) -> tuple[str, ...] | None:
    named = study.population.roster
    folder = study.folder if isinstance(study, Study) else Path()
    return None if named is None else read_roster(folder / named)


def plan(study: BaseStudy, n: int | None = None) -> StudyPlan:
    """What a study will cost and how accurate it will be, before any data.

    `n` is the number of people; by default that of the roster, else `population.size`, else 10,000. In an open study it is
    the number of people present, by default `population.size`; without either, errors are stated in people only.

    >>> sp.plan(study).to_frame().columns.tolist()[:4]
    ['release', 'query', 'label', 'period']
    """
    _expect_study(study)
    if n is None and study.is_open:
        n = study.population.size
        if n is None:
            return plan_study(study, None)
    if n is None:
        roster = _roster(study)
        n = len(roster) if roster is not None else study.population.size or ASSUMED_PEOPLE
    if not _is_whole(n) or n < 1:
        raise InvalidInput(f"n: got {n}, allowed: a whole number from 1")
    return plan_study(study, int(n))


def replay(study: BaseStudy, people: People, *, seed: int | None = None, again: bool = False) -> Result:
    """Release a whole study over its people, without a stream. Each call is a release of its own, and costs add up.

    Each call draws fresh noise. If the variable
    `STREAMPROC_REGISTRY` names a site registry, the release is registered there first, and people who are registered already
    are refused (Refused) unless `again`. With a `seed` the run can be repeated, so it protects nobody and is marked
    insecure. An open study has as many periods as `people` has columns, and everybody in `people` may enter it:
    `population.sample` applies to the stream only.

    >>> result = sp.replay(study, people, seed=7)
    >>> print(result["quarterly"].fraction(sp.count_of("1", at_least=2, of=3), period=6).period)
    6
    """
    _expect_study(study)
    if not isinstance(people, People):
        raise InvalidInput(f"expected People, got {type(people).__name__}; read_people reads them from a file")
    if seed is not None and not _is_whole(seed):
        raise InvalidInput("seed: expected a whole number from 0")
    check_environment(os.environ)
    entropy = SystemEntropy() if seed is None else SeededEntropy(int(seed))
    contracts = make_contracts(study, people.size, entropy)
    tallies = tallies_of(study, people.filled(study))
    registry = SiteRegistry.of(os.environ)
    if registry is not None:
        if people.ids is None:
            raise InvalidInput("the site registry recognises people by their ids: read them with read_people")
        register_replay(registry, study, people.ids, SystemClock().now(), insecure=seed is not None, again=again)
    return Result(replay_study(study, contracts, tallies, entropy))


def load(folder: str | Path, study: BaseStudy | None = None) -> dict[str, Panel]:
    """The panels of all releases in a folder that `Result.save` or `streamproc pull` wrote, by release.

    Parquet files are enough by themselves. A pull without Parquet files also needs the study, for its contracts.

    >>> sp.load("public")["quarterly"].contract.kind
    'window'
    """
    source = Path(folder)
    if not source.is_dir():
        raise InvalidInput(f"{source}: is not a folder")
    found = {path.stem: Panel.load(path) for path in sorted(source.glob("*.parquet"))}
    if found:
        return found
    ledger = source / LEDGER
    if study is None or not ledger.exists():
        raise InvalidInput(
            f"{source}: holds no Parquet file of a release; write them with `pull --parquet`, or with Result.save and the "
            "extra frames, or give the study of a folder that `pull` wrote"
        )
    try:
        return _load_pulled(source, json.loads(ledger.read_bytes()), study)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        raise PanelFileError(f"{ledger}: is not a ledger of this study that `pull` wrote") from None


def _load_pulled(source: Path, ledger: dict[str, Any], study: BaseStudy) -> dict[str, Panel]:
    """The panels of a pull as CSV files; `ledger.json` holds their measurements."""
    if not ledger["periods"]:
        raise InvalidInput(f"{source}: nothing is released yet")
    record = StudyRecord(ledger["study"], bytes.fromhex(ledger["fingerprint"]), ledger["insecure"])
    require_same_study(record, study, None)
    contracts = {name: contract_of_file(values) for name, values in ledger["contracts"].items()}
    for name, contract in contracts.items():
        if not follows_from_study(contract, study, insecure=ledger["insecure"]):
            raise InvalidInput(f"{source}: the contract of release {name} is not what the study implies")
    there = {name: source / f"{name}.csv" for name in contracts if (source / f"{name}.csv").exists()}
    panels = {name: load_panel(path, contracts[name]) for name, path in there.items()}
    for name, panel in panels.items():
        measured = [record["releases"][name]["measurements"] for record in ledger["periods"][: len(panel.columns)]]
        arrays = [np.array(numbers, dtype=np.int64) for numbers in measured]
        split = [panel.contract.split_measurements(flat, Period(t)) for t, flat in enumerate(arrays, start=1)]
        panels[name] = Metadata(panel.contract, tuple(split)).panel_of(panel.columns)
    return {name: Panel.of(panel) for name, panel in panels.items()}


class Stream:
    """A study on its broker: report, close periods, and follow what is released. Made by `connect`.

    >>> async def follow(release):
    ...     async with sp.connect(study, broker="embedded:example-log") as stream:
    ...         async for panel in stream.subscribe(release):
    ...             print(panel.period, panel.fraction(sp.count_of("1", at_least=2, of=3)))
    """

    def __init__(self, deployment: Deployment, log: Log) -> None:
        self._deployment, self._log = deployment, log
        self._reporter: Reporter | None = None

    async def report(self, individual: str, *, period: int, symbol: str) -> None:
        """Send one report; returns when the log has acknowledged it. Creates the study's topics if they do not exist."""
        _expect_report(period, (individual, symbol))
        await (await self._ready_reporter()).report(individual, int(period), symbol)

    async def report_all(self, individuals: Sequence[str], *, period: int, symbols: Sequence[str]) -> None:
        """Send the reports of many people for one period; returns when all are acknowledged."""
        _expect_report(period, (*individuals, *symbols))
        if len(individuals) != len(symbols):
            raise InvalidInput(f"reports of {len(individuals)} people with {len(symbols)} symbols, expected one symbol each")
        await (await self._ready_reporter()).report_all(individuals, int(period), symbols)

    async def close_period(self, period: int, *, last: bool = False) -> None:
        """Close a period: every report that was acknowledged before belongs to it or to an earlier one.

        A period that is closed already stays as it is. `last` ends an open study with this period. Raises InvalidInput if an
        earlier one is still open, or if the study has ended.
        """
        horizon = self._deployment.study.last_period
        if not (_is_whole(period) and 1 <= period <= horizon):
            raise InvalidInput(f"period: got {period!r}, allowed: a whole number from 1 to {horizon}")
        await self._ready_reporter()
        await close_period(self._deployment, self._log, Period(period), last=last)

    async def subscribe(self, release: str | None = None) -> AsyncIterator[Panel]:
        """The panel of a release (default: of all) after each new column, from the first on; ends after the last period.

        `panel.contract.name` is the release. Columns come out while the roles run (`streamproc run`). Every column is
        checked against the ledger. Creates nothing, and needs only an analyst's rights.
        """
        shown: dict[str, Period] = {}
        study, timeout = self._deployment.study, self._deployment.timeout
        async for column in subscribe(self._log, study, release, timeout=timeout):
            # The first columns of a release may come out together: then one panel has all of them.
            if column.panel.period > shown.get(column.release, 0):
                shown[column.release] = column.panel.period
                yield Panel.of(column.panel)

    async def _ready_reporter(self) -> Reporter:
        if self._reporter is None:
            await self._deployment.require_same_ledger(self._log, only_reports=True)
            await set_up_topics(self._log, self._deployment.study)
            self._reporter = Reporter(self._log, self._deployment.study)
        return self._reporter


@asynccontextmanager
async def connect(study: BaseStudy, *, broker: str | None = None, timeout: float = 30.0) -> AsyncIterator[Stream]:
    """Connect to the broker of a study: `async with connect(study) as stream: ...`.

    `broker` overrides the study's, as does `STREAMPROC_BROKER`. No call takes much longer than `timeout` seconds.

    >>> async def report_and_close():
    ...     async with sp.connect(study, broker="embedded:example-log") as stream:
    ...         await stream.report("id-17", period=1, symbol="0")
    ...         await stream.close_period(1)
    >>> asyncio.run(report_and_close())
    """
    _expect_study(study)
    folder = study.folder if isinstance(study, Study) else Path()
    deployment = Deployment.of_study(study, folder, broker=broker, timeout=timeout)
    async with deployment.connect() as log:
        yield Stream(deployment, log)
