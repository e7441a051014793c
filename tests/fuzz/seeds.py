"""Valid inputs for the decoders: the examples of the wire format's page, and all that one small study leaves behind."""

from __future__ import annotations

import asyncio
import gzip
import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from streamproc.files.parquet import write_table
from streamproc.files.release_files import save_panel
from streamproc.offline.replay import replay_study, tallies_of
from streamproc.panel import Panel
from streamproc.panel.metadata import metadata_text
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Rho
from streamproc.protocol.codec import pack
from streamproc.protocol.columns import ContractRecord, MatrixChunk, decode_synthetic
from streamproc.protocol.ledger import PeriodRecord, decode_ledger
from streamproc.protocol.registry_format import Entry, digest_people, encode_entry, encode_header
from streamproc.protocol.reports import ReportBatch, encode_report
from streamproc.releases.contracts import stated_contracts
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, PatternRelease, SpellRelease, Study, WindowRelease
from streamproc.testing import in_virtual_time
from tests.fuzz.mutators import framed
from tests.protocol.examples import EXAMPLES
from tests.stream_model.simulated_study import SimulatedStudy, random_histories
from tests.studies import build_study


def study_of_every_kind(alphabet: str, partitions: int = 2) -> Study:
    """A study of three periods with a release of each kind and measure."""
    event = (alphabet[-1],)
    return build_study(
        WindowRelease("w", 2),
        WindowRelease("wp", 2, measure="paper"),
        CumulativeRelease("c", event, weights="rule"),
        CumulativeRelease("cp", event, measure="paper"),
        SpellRelease("s", event, length=2, weights="rule"),
        PatternRelease("p", pattern=f"{alphabet[-1]}{{2}}", weights="rule"),
        horizon=3,
        alphabet=alphabet,
        partitions=partitions,
    )


@dataclass(frozen=True)
class Left:
    """What a study of three periods leaves in its topics and on its disks."""

    study: Study
    fingerprint: bytes
    key: bytes
    topics: dict[str, list[bytes]]
    """Values by what follows the study's name."""
    synthesizer_state: bytes
    gatherer_states: tuple[bytes, ...]
    """After period 1, with reports of later periods kept, and at the end."""
    contracts: tuple[ContractRecord, ...]


@cache
def left() -> Left:
    """Made once; the noise is seeded, only the study's key is not."""
    return in_virtual_time(_lived())


async def _lived() -> Left:
    study = study_of_every_kind("abc", partitions=1)
    simulated = await SimulatedStudy(study).begin()
    values = [encode_report(f"p{number}", 1, "abc"[number % 3]) for number in range(9)]
    values.append(ReportBatch(["p1", "p2"], np.array([2, 2], np.uint16), np.array([0, 1], np.uint8)).encode())
    await simulated.log.append_many(simulated.topics.reports, 0, [(None, value) for value in (*values, b"no report")])
    roles = asyncio.create_task(simulated.run_everything())
    states = []
    for period in (1, 2, 3):
        await simulated.close_period(period)
        await simulated.clock.sleep(5)
        states.append(simulated.gatherer_folder.files["gather-0.state"])
    await roles
    records = [
        decode_synthetic(simulated.committed(simulated.topics.synthetic(release.name))[0]) for release in study.releases
    ]
    public = tuple(record for record in records if isinstance(record, ContractRecord))
    names = [topic.removeprefix("study.") for topic in simulated.broker.topics]
    topics = {name: [value for value in simulated.committed(f"study.{name}") if value is not None] for name in names}
    state = simulated.state_folder.files["synthesizer.state"]
    return Left(study, simulated.fingerprint, simulated.key, topics, state, (states[0], states[-1]), public)


def examples_of(*names: str) -> list[bytes]:
    """Messages of the wire format's page."""
    return [EXAMPLES[name].encoded for name in names]


def topic(name: str) -> list[bytes]:
    """The different values of one topic, each as an input of its own."""
    return list(dict.fromkeys(left().topics[name]))


@cache
def whole_topics(*names: str) -> list[bytes]:
    """Each topic as one input of many records."""
    return [framed(left().topics[name]) for name in names]


@cache
def ledgers() -> list[bytes]:
    """The ledger after one period, which more mutations leave valid, and the whole."""
    values = left().topics["ledger"]
    first = next(place for place, value in enumerate(values) if isinstance(decode_ledger(value), PeriodRecord))
    return [framed(values[: first + 1]), framed(values)]


@cache
def reports() -> list[bytes]:
    """Reports in usual and unusual forms, for three people and three periods."""
    plain = [encode_report(individual, period, symbol) for individual in ("p", "ö", "l" * 40) for period in (1, 2, 3) for symbol in "ab?"]  # fmt: skip  # noqa: E501
    batch = ReportBatch(["p", "q"], np.array([1, 2], np.uint16), np.array([0, 2], np.uint8)).encode()
    return [*plain, batch]


STUDY = """[study]
name = "poverty"
alphabet = ["0", "1"]
horizon = 3

[population]
size = 2
missing = "carry"
initial = "0"
duplicates = "first"

[privacy]
rho = 0.005
delta = 1e-6
adjacency = "replace-one"

[[release]]
name = "quarterly"
kind = "window"
k = 3
measure = "paper"
beta = 0.05
share = 0.5

[[release]]
name = "months-poor"
kind = "cumulative"
measure = "flow"
most = 2
weights = "tuned"
tune = "mean"
event = ["1"]

[[release]]
name = "poor-for"
kind = "spell"
length = 2
event = ["1"]

[[release]]
name = "ever-twice"
kind = "pattern"
pattern = "1{2}"

[broker]
url = "embedded:poverty"
partitions = 4

[schedule]
start = 2026-01-01T00:00:00Z
every = "month"
grace = "5m"
"""

PANEL = b'individual,1,2,3\nada,0,1,\n"b,ob",1,1,0\n'
ROSTER = "ada\nbob\r\n\nö\n".encode()


def studies() -> list[bytes]:
    """Study files."""
    head = '[study]\nname="a"\nalphabet=["0","1"]\nhorizon=2\n[privacy]\nepsilon=0.5\n'
    return [STUDY.encode(), f'{head}[[release]]\nname="w"\nkind="window"\nk=1\n'.encode()]


def panels() -> list[bytes]:
    """Panel files."""
    return [PANEL, b"\xef\xbb\xbf" + PANEL.replace(b"\n", b"\r\n"), b"individual,1,2,3\nx,,,\ny,1,1,1"]


def packed_panels() -> list[bytes]:
    """The same, gzipped."""
    return [gzip.compress(panel, mtime=0) for panel in panels()]


@cache
def parquet_panels() -> list[bytes]:
    """The same as Parquet: strings, a dictionary, integers with gaps."""
    import pyarrow as pa

    texts = {"individual": ["ada", "bob"], "1": ["0", "1"], "2": ["1", None], "3": ["1", "0"]}
    kinds = [pa.table(texts), pa.table(texts | {"1": pa.array([0, 1]), "2": pa.array([0.0, None])})]
    kinds.append(pa.table(texts | {"1": pa.array(["0", "1"]).dictionary_encode()}))
    return [_parquet(table) for table in kinds]


def _parquet(table: object) -> bytes:
    file = io.BytesIO()
    write_table(Path("p.parquet"), file, table)
    return file.getvalue()


@cache
def replayed() -> tuple[Panel, ...]:
    """The panels of a study, with their measurements."""
    study = study_of_every_kind("01")
    public = stated_contracts(study, 9, insecure=True)
    return tuple(
        replay_study(study, public, tallies_of(study, random_histories(study, 9)), SeededEntropy(1)).panels.values()
    )


@cache
def releases(suffix: str) -> list[bytes]:
    """The releases of the small study as files."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{place}{suffix}" for place in range(len(replayed()))]
        for path, panel in zip(paths, replayed(), strict=True):
            save_panel(panel, path)
        return [path.read_bytes() for path in paths]


@cache
def metadata() -> list[bytes]:
    """What Parquet files of releases carry along."""
    return [metadata_text(panel).encode() for panel in replayed()]


def registries() -> list[bytes]:
    """Site registries: of a replay alone, and of two releases of the same people and a stream of unknown ones."""
    people, mark = digest_people(["p1", "p2"], bytes(32)), "00" * 32
    replay = Entry("2026-01-01T00:00:00Z", "replay", "s", mark, Adjacency.REPLACE_ONE, Rho(0.5), Rho(0.5), False, people)
    stream = Entry(
        "2026-01-02T00:00:00Z",
        "stream",
        "t",
        mark,
        Adjacency.ZERO_OUT,
        Rho(0.5),
        Rho(0.9),
        True,
        None,
        "embedded:/x",
        "00" * 16,
    )
    one = encode_header(bytes(32)) + encode_entry(replay, ())
    return [one, one + encode_entry(replay, {people.digest}) + encode_entry(stream, ())]


@cache
def contract_records() -> list[list[bytes]]:
    """The records of a contract of each kind and measure, and those of one whose matrices need several records."""
    long = CumulativeRelease("l", ("1",), weights="rule")
    contracts = [
        *(panel.contract for panel in replayed()),
        *stated_contracts(build_study(long, horizon=80), 9, insecure=True).values(),
    ]
    return [ContractRecord(contract, contract.n_star or 9).encode() for contract in contracts]


@cache
def divided_contracts() -> list[list[bytes]]:
    """The records of short contracts with matrices, of which each record holds a part."""
    divided = []
    for panel in replayed():
        fields = panel.contract.to_dict() | {"n_star": len(panel.columns[0])}
        if "matrices" in fields:
            first, *others = [fields["matrices"][start : start + 20] for start in range(0, len(fields["matrices"]), 20)]
            contract = pack("contract", fields | {"matrices": first, "matrix_chunks": len(others)})
            chunks = [MatrixChunk(panel.contract.name, part, data) for part, data in enumerate(others, start=1)]
            divided.append([contract, *(chunk.encode() for chunk in chunks)])
    return divided
