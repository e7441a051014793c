"""No decoder is left out of the table, every seed is valid, and the harness notices each kind of crash."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import streamproc
from streamproc.errors import Malformed
from tests.fuzz.target_statistics import TargetStatistics
from tests.fuzz.targets import TARGETS
from tests.fuzz.trial import Bound, ChainedError, Target, TooMuchMemory, run_trial

TAKES_BYTES = re.compile(r"(decode|parse|read|load|unpack|unseal|split_reports|verify_chain|home_partition|murmur2)|.*from_(text|dict|arrow|pandas)")  # fmt: skip  # noqa: E501

ELSEWHERE = {
    "streamproc.api.Panel.from_arrow": "is panel_from_arrow",
    "streamproc.api.Panel.from_pandas": "is panel_from_pandas",
    "streamproc.api.Panel.load": "is load_panel",
    "streamproc.api.Study.load": "is read_study",
    "streamproc.api.load": "is load_panel; the rest of a damaged ledger.json is in tests/test_api.py",
    "streamproc.api.read_people": "is files.study_files.read_people",
    "streamproc.client.public_reader.PublicReader.read_all": "follows topics, whose records go to the decoders",
    "streamproc.releases.cumulative.parse_at_least": "a name of a query, which the page's targets send",
    "streamproc.releases.cumulative.parse_number": "a part of a name of a query, which the page's targets send",
    "streamproc.releases.flow.decode_integers": "a value of a contract, which decode_contract and contract_from_values read",
    "streamproc.panel.frames.panel_from_pandas": "a frame that the caller made, not bytes",
    "streamproc.panel.panel.Panel.from_arrow": "is panel_from_arrow",
    "streamproc.panel.panel.Panel.from_pandas": "is panel_from_pandas",
    "streamproc.log.embedded.sql.read": "rows of our own SQLite file; their values go to the decoders",
    "streamproc.files.study_files.read_table_file": "is the reading part of read_people and read_release",
    "streamproc.log.port.read_to_end": "records of a topic, whose values go to the decoders",
    "streamproc.service.close.read_closed_periods": "follows the control topic, whose records go to the decoders",
    "streamproc.synthesizer.published_state.read_published_state": "reads the ledger by LedgerVerifier",
    "streamproc.client.newest_summary.read_release_at": "follows topics, whose records go to the decoders",
    "streamproc.log.kafka.admin.parse_topic_metadata": "an answer that aiokafka has decoded",
    "streamproc.log.kafka.protocol.Uuid.decode": "a part of a protocol that aiokafka speaks",
    "streamproc.status_page.responses.Asset": "a file of ours",
    "streamproc.status_page.follower.PublicTopics": "topics named by us",
    "streamproc.status_page.follower.ReadSession": "columns, by the names of the study's releases",
}
"""What is found that needs no target of its own, and why."""

STRANGERS = "streamproc.status_page"
"""The package whose texts come from web clients."""


def public(module_name: str) -> Iterator[tuple[str, object]]:
    """Functions of a module, and class methods that make a value."""
    module = import_module(module_name)
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module_name:
            continue
        if inspect.isfunction(value):
            yield f"{module_name}.{name}", value
        elif inspect.isclass(value):
            makers = [key for key, made in vars(value).items() if isinstance(made, classmethod) and not key.startswith("_")]
            yield from ((f"{module_name}.{name}.{key}", getattr(value, key)) for key in makers)


def takers() -> dict[str, object]:
    modules = [found.name for found in pkgutil.walk_packages(streamproc.__path__, "streamproc.")]
    found = dict(pair for module in modules if not module.endswith("__main__") for pair in public(module))
    return {name: value for name, value in found.items() if TAKES_BYTES.match(name.rpartition(".")[2])}


def askers() -> set[str]:
    """Public functions and classes that are handed a request, anywhere inside them, or a text where strangers ask."""
    modules = [found for found in pkgutil.walk_packages(streamproc.__path__, "streamproc.") if not found.ispkg]
    return {asker for module in modules for asker in askers_of(module.name)}


def askers_of(module: str) -> Iterator[str]:
    source = Path(streamproc.__path__[0]).parent / f"{module.replace('.', '/')}.py"
    wanted = re.compile(r"web\.(Base)?Request" + (r"|.*\bstr\b.*" if module.startswith(STRANGERS) else ""))
    for part in ast.parse(source.read_text()).body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not part.name.startswith("_"):
            taken = [each.annotation for each in ast.walk(part) if isinstance(each, ast.arg) and each.annotation]
            if any(wanted.fullmatch(ast.unparse(kind)) for kind in taken):
                yield f"{module}.{part.name}"


def covered() -> list[object]:
    return [part for target in TARGETS.values() for part in target.covers]


def test_everything_that_takes_bytes_from_outside_is_in_the_table() -> None:
    forgotten = {name for name, value in takers().items() if value not in covered()} - set(ELSEWHERE)
    assert forgotten == set()


def test_everything_that_answers_a_request_is_in_the_table() -> None:
    names = {f"{getattr(part, '__module__', '')}.{getattr(part, '__qualname__', '')}" for part in covered()}
    assert f"{STRANGERS}.app.StatusPage" in askers()
    assert askers() - names - set(ELSEWHERE) == set()


def test_what_needs_no_target_is_still_there() -> None:
    assert set(ELSEWHERE) <= set(takers()) | askers()


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_every_seed_but_what_is_planted_is_valid(target: Target) -> None:
    seeds = [seed for seed in target.seeds() if seed != b"no report"]
    assert seeds
    assert all(run_trial(target, seed).decoded for seed in seeds)


def of(feed: object) -> Target:
    return replace(TARGETS["reject"], feed=feed, bound=Bound(1, 100_000))  # type: ignore[arg-type]


def quoting(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError:
        raise Malformed("text") from None


def test_an_error_that_is_not_declared_too_much_memory_and_bytes_in_tow_are_crashes(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        run_trial(of(lambda data: 1 // len(data)), b"")
    with pytest.raises(TooMuchMemory):
        run_trial(of(lambda data: bytes(200_000)), b"")
    with pytest.raises(ChainedError):
        run_trial(of(quoting), b"\xff")
    assert run_trial(of(lambda data: bytes(50_000)), b"").peak > 50_000


def test_a_crash_is_counted_and_the_first_input_of_each_kind_is_kept(tmp_path: Path) -> None:
    seen, target = TargetStatistics("reject"), of(lambda data: 1 // (len(data) % 2))
    for data in (b"ab", b"abcd", b"a"):
        seen.feed(target, data, tmp_path, patient=True)
    assert seen.inputs == 3
    assert list(seen.crashes.values()) == [2]
    assert [Path(saved).read_bytes() for saved in seen.saved] == [b"ab"]
    assert TargetStatistics.from_json(seen.to_json()) == seen
