"""The files people write: studies, panels, releases, rosters, secrets; and what stands in the environment."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from streamproc.errors import InvalidInput, Refused, StudyError
from streamproc.files.csv import read_csv
from streamproc.files.parquet import read_parquet, read_table
from streamproc.files.release_files import load_panel, read_release
from streamproc.files.study_files import read_people, read_roster, read_study
from streamproc.log.kafka.settings import KafkaSettings, Timeouts
from streamproc.panel.frames import panel_from_arrow
from streamproc.panel.metadata import metadata_from_text
from streamproc.protocol.registry_format import DamagedRegistry, compose, parse_registry
from streamproc.releases.contracts import contract_from_values
from streamproc.service.http_server import TOKEN_FILE, Address, read_token
from streamproc.storage.environment import read_secret
from streamproc.storage.site_registry import SiteRegistry
from streamproc.study import parse_study
from streamproc.study.question_text import QuestionError, parse_question
from streamproc.study.schedule import span_of
from streamproc.study.study import Broker
from tests.fuzz import mutators, seeds
from tests.fuzz.trial import MIB, Bound, Target

STUDY = Bound(2_000, 2 * MIB)
"""A short line of TOML may be a table in a table in a table."""
TABLE = Bound(64, 8 * MIB)
PACKED = Bound(4_000, 8 * MIB)
"""Deflate packs a thousand bytes into one; a row above 4 MiB is refused, and so is the first id that comes twice."""


@cache
def _folder() -> Path:
    """One for each process: a file system call or two is all an input costs."""
    folder = TemporaryDirectory(prefix="fuzz-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _file(name: str, data: bytes) -> Path:
    path = _folder() / name
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def _study(data: bytes) -> None:
    study = read_study(_file("study.toml", data))
    assert study == parse_study(data.decode("utf-8-sig"))


def _panel(name: str) -> Callable[[bytes], object]:
    study = parse_study(seeds.STUDY.replace("size = 2\n", ""))
    return lambda data: read_people(_file(name, data), study)


def _release(name: str) -> Callable[[bytes], object]:
    def load(data: bytes) -> None:
        contract = None if name.endswith(".parquet") else seeds.replayed()[0].contract
        panel = load_panel(_file(name, data), contract)
        assert read_release(_file(name, data), panel.contract.alphabet).shape[1] == len(panel.columns)

    return load


def _metadata(data: bytes) -> None:
    metadata_from_text(data)


def _roster(data: bytes) -> None:
    ids = read_roster(_file("roster.txt", data))
    assert len(set(ids)) == len(ids) > 0


def _registry(data: bytes) -> None:
    registry = parse_registry(data)
    assert SiteRegistry(_file("registry", data)).read() is None or registry is not None
    if registry is not None and registry.entries:
        assert compose(registry.entries).releases == len(registry.entries)
        assert all(entry.shares_people(entry) for entry in registry.entries)


def _setting(data: bytes) -> None:
    """Whatever is no setting of one kind may be one of the next."""
    text = data.decode("utf-8", "replace")
    run_trial: list[Callable[[], object]] = [
        lambda: Address.parse(text),
        lambda: Broker(text).servers,
        lambda: span_of("schedule.every", text),
        lambda: KafkaSettings.parse(("a:1",), {"STREAMPROC_KAFKA_SECURITY": text, "STREAMPROC_KAFKA_MECHANISM": text}),
        lambda: Timeouts.parse({"SESSION_TIMEOUT": text, "TRANSACTION_TIMEOUT": text}),
        lambda: read_token({TOKEN_FILE: str(_file("token", data))}),
    ]
    for parse in run_trial:
        try:
            parse()
        except InvalidInput as error:
            assert len(str(error).splitlines()) == 1


_SETTINGS = [
    b"127.0.0.1:9100",
    b"[::1]:0",
    b"kafka://a:1,b:2",
    b"embedded:x",
    b"90s",
    b"week",
    b"SASL_SSL",
    b"12.5",
    b"a-long-enough-token",
]

_QUESTIONS = [
    b'count("1") >= 2 of 3',
    b'lag1 in ("1") and now in ("0", "x\\"y")',
    b'run("1") >= 2 of 3',
    b"events == 3",
    b"spell >= 6",
    b"matched",
]


def _question(data: bytes) -> None:
    parsed = parse_question(data.decode("utf-8", "replace"))
    assert parse_question(str(parsed)) == parsed


FILE_TARGETS = (
    Target("question", (parse_question,), _question, lambda: list(_QUESTIONS), mutators.of_csv, (QuestionError,), STUDY),
    Target("study", (read_study, parse_study), _study, seeds.studies, mutators.of_study, (InvalidInput, StudyError), STUDY),
    Target("panel-csv", (read_people, read_csv), _panel("p.csv"), seeds.panels, mutators.of_csv, (InvalidInput,), TABLE),
    Target("panel-gz", (), _panel("p.csv.gz"), seeds.packed_panels, mutators.of_gzip, (InvalidInput,), PACKED),
    Target(
        "panel-parquet",
        (read_parquet, read_table),
        _panel("p.parquet"),
        seeds.parquet_panels,
        mutators.of_bytes,
        (InvalidInput,),
        TABLE,
    ),
    Target(
        "release-csv",
        (read_release, load_panel),
        _release("r.csv"),
        lambda: seeds.releases(".csv")[:1],
        mutators.of_csv,
        (InvalidInput,),
        TABLE,
    ),
    Target(
        "release-parquet",
        (panel_from_arrow,),
        _release("r.parquet"),
        lambda: seeds.releases(".parquet"),
        mutators.of_bytes,
        (InvalidInput,),
        TABLE,
    ),
    Target(
        "metadata",
        (metadata_from_text, contract_from_values),
        _metadata,
        seeds.metadata,
        mutators.of_json,
        (InvalidInput,),
        Bound(200, 4 * MIB),
    ),
    Target("roster", (read_roster,), _roster, lambda: [seeds.ROSTER], mutators.of_csv, (InvalidInput,), TABLE),
    Target(
        "site-registry",
        (parse_registry, SiteRegistry.of),
        _registry,
        seeds.registries,
        mutators.of_csv,
        (DamagedRegistry, Refused),
        Bound(200, 4 * MIB),
    ),
    Target(
        "settings",
        (Address.parse, Broker, span_of, KafkaSettings.parse, Timeouts.parse, read_secret, read_token),
        _setting,
        lambda: list(_SETTINGS),
        mutators.of_bytes,
        (),
        TABLE,
    ),
)
