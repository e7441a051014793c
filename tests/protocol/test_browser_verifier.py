"""The verifier of the status page, run by Node: it agrees with ours about open and closed studies, and refuses forgeries."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamproc.protocol import snapshots
from streamproc.protocol.columns import ColumnChunk, decode_synthetic
from streamproc.protocol.ledger import PeriodRecord, digest
from streamproc.releases.step import Column
from tests.forged import Change, rechained, with_column, with_release
from tests.protocol.test_open_study import another
from tests.protocol.test_release_audit import BY_FLOW
from tests.protocol.test_release_audit import published as published_closed
from tests.stream_model.open_study import NAMES, OPEN_STUDY, PERIODS, Published, publish, published

STATIC = Path(__file__).parents[2] / "streamproc" / "status_page" / "static"
PROGRAM = Path(__file__).parent / "node" / "verify-ledger.mjs"
EVERY = 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The page's modules, where Node finds them."""
    if shutil.which("node") is None:
        pytest.skip("running the page's verifier needs Node 18 or newer: apt-get install nodejs")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for name in ("verify.js", "msgpack.js", "sha256.js"):
        text = (STATIC / name).read_text().replace('"/static/', '"./')
        (tmp_path / name).write_text(text.replace("SUMMARY_EVERY = 128", f"SUMMARY_EVERY = {EVERY}"))
    return tmp_path


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> Published:
    """An open study with a summary in every few periods."""
    monkeypatch.setattr(snapshots, "SUMMARY_EVERY", EVERY)
    return publish(redrawn=(3,))


def verified(folder: Path, ledger: Sequence[bytes], columns: Mapping[str, Sequence[bytes]]) -> Any:
    """What the page's verifier says."""
    arguments = []
    for name, values in {"ledger": ledger, **columns}.items():
        file = folder / f"{name}.values"
        file.write_bytes(b"".join(len(value).to_bytes(4) + value for value in values))
        arguments += [str(file)] if name == "ledger" else [name, str(file)]
    command = ["node", str(PROGRAM), str(folder), *arguments]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout)


def test_it_verifies_an_open_study_with_its_summaries(folder: Path, often: Published) -> None:
    said = verified(folder, often.ledger, often.columns)

    columns = dict.fromkeys(NAMES, PERIODS)
    assert said == {"periods": PERIODS, "over": True, "head": digest(often.ledger[-1]).hex(), "columns": columns}


def test_it_verifies_a_closed_study(folder: Path) -> None:
    public = published_closed(BY_FLOW)

    said = verified(folder, public.ledger, public.columns)

    assert said["columns"] == dict.fromkeys(public.columns, BY_FLOW.horizon) and not said["over"]


def test_nothing_comes_after_the_last_period(folder: Path, often: Published) -> None:
    said = verified(folder, another(often.ledger), {})

    assert "comes after the last period of the study" in said["error"]


def without_summary(record: PeriodRecord) -> PeriodRecord:
    return replace(record, summary=None)


def present_more(record: PeriodRecord) -> PeriodRecord:
    if record.summary is None:
        return record
    releases = {name: replace(entry, present=entry.present + 1) for name, entry in record.summary.releases.items()}
    return replace(record, summary=replace(record.summary, releases=releases))


def other_snapshot(record: PeriodRecord) -> PeriodRecord:
    if record.summary is None:
        return record
    releases = {name: replace(entry, snapshot=bytes(32)) for name, entry in record.summary.releases.items()}
    return replace(record, summary=replace(record.summary, releases=releases))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (without_summary, "lacks a summary that is due"),
        (present_more, "states another number of people"),
        (other_snapshot, "snapshot of period 4: its digest is not the one in the ledger"),
        (with_release("w", [7], n_star=3), "states fewer synthetic people of w than there were"),
        (with_release("w", range(7, PERIODS + 1), n_star=lambda rows: rows + 1), "w, period 7: rows are missing"),
    ],
)
def test_it_refuses_what_does_not_follow(folder: Path, often: Published, change: Change, problem: str) -> None:
    assert problem in verified(folder, rechained(often.ledger, change), often.columns)["error"]


def test_somebody_who_enters_does_not_leave_at_once(folder: Path, often: Published) -> None:
    def leave(column: Column) -> Column:
        column[-1] = len(OPEN_STUDY.alphabet)
        return column

    ledger, columns = with_column(often.ledger, often.columns["w"], "w", 3, leave)

    said = verified(folder, ledger, {"w": columns})

    assert said["error"] == "w, period 3: somebody leaves who has just entered"


def test_a_snapshot_must_follow_its_column(folder: Path, often: Published) -> None:
    columns = [value for value in often.columns["w"] if not isinstance(decode_synthetic(value), snapshots.SnapshotChunk)]

    assert "w, snapshot of period 4: it is missing" in verified(folder, often.ledger, {"w": columns})["error"]


def test_a_column_of_another_first_row_is_refused(folder: Path) -> None:
    public = published()
    columns = list(public.columns["w"])
    chunk = decode_synthetic(columns[2])
    assert isinstance(chunk, ColumnChunk) and chunk.new is not None
    columns[2] = replace(chunk, new=chunk.new._replace(before=chunk.new.before + 1)).encode()

    (folder / "verify.js").write_text((folder / "verify.js").read_text().replace(f"EVERY = {EVERY}", "EVERY = 128"))
    assert verified(folder, public.ledger, {"w": columns})["error"] == "w, period 2: other rows enter than the ledger says"
