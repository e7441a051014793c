"""A study of cumulative, spell and pattern releases that are measured by flow, from the reports to the answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import streamproc as sp
from streamproc.errors import Malformed
from streamproc.protocol.columns import ContractRecord, LongContract, MatrixChunk, decode_synthetic
from streamproc.releases.contracts import stated_contracts
from streamproc.study import CumulativeRelease
from tests.stream.programs import Ended, Programs, call
from tests.studies import build_study

HORIZON, PEOPLE = 5, 120

STUDY = f"""
[study]
name = "flows"
alphabet = ["0", "1"]
horizon = {HORIZON}

[population]
size = {PEOPLE}

[privacy]
rho = 0.4

[[release]]
name = "months"
kind = "cumulative"
measure = "flow"

[[release]]
name = "spells"
kind = "spell"
length = 3

[[release]]
name = "ever"
kind = "pattern"
pattern = "1{{2}}"
weights = "rule"

[[question]]
release = "months"
ask = "events >= 2"

[broker]
url = "embedded:log"
partitions = 2
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study file of a study that was run to its end."""
    folder = tmp_path_factory.mktemp("flows")
    study = folder / "flows.toml"
    study.write_text(STUDY)
    symbols = np.random.default_rng(1).integers(0, 2, (PEOPLE, HORIZON))
    rows = [f"p{row}," + ",".join(map(str, values)) for row, values in enumerate(symbols.tolist())]
    header = "individual," + ",".join(map(str, range(1, HORIZON + 1)))
    (folder / "people.csv").write_text("\n".join([header, *rows]) + "\n")
    with Programs(folder) as programs:
        roles = programs.start("run", study, "--until-done")
        done("send", study, folder / "people.csv", "--close")
        roles.done()
    return study


def done(*arguments: object) -> Ended:
    ended = call(*arguments)
    assert ended.code == 0, ended.complaint
    return ended


def test_the_ledger_is_verified_and_every_release_has_a_column_in_every_period(finished: Path) -> None:
    done("verify", finished)
    lines = [json.loads(line) for line in done("watch", finished, "--json").out.splitlines()]
    found = {(line["release"], line["period"]) for line in lines}
    assert found == {(release, t) for release in ("months", "spells", "ever") for t in range(1, HORIZON + 1)}
    status = json.loads(done("status", finished, "--json").out)
    assert 0.4 * (1 - 1e-9) <= status["rho_spent"] <= 0.4


@pytest.mark.parametrize("parquet", [True, False])
def test_what_is_pulled_answers_the_questions_of_each_kind(finished: Path, tmp_path: Path, parquet: bool) -> None:
    out = tmp_path / "public"
    done("pull", finished, "--out", out, *(["--parquet"] if parquet else []))
    panels = sp.load(out, sp.Study.load(finished))
    answers = [
        panels["months"].fraction(sp.ask("events >= 2")),
        panels["spells"].fraction(sp.in_spell(2)),
        panels["ever"].fraction(sp.matched()),
    ]
    assert all(answer.low < answer.high and -0.5 < answer.value < 1.5 for answer in answers)
    assert [panel.rows for panel in panels.values()] == [PEOPLE] * 3


def test_a_lost_state_folder_is_restored_from_the_topics(finished: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished.parent, copy)
    study = copy / finished.name
    before = (copy / "flows.state" / "synthesizer.state").stat().st_size
    (copy / "flows.state" / "synthesizer.state").unlink()
    done("restore", study)
    assert 0 < (copy / "flows.state" / "synthesizer.state").stat().st_size <= before
    done("run", study, "--until-done")
    done("verify", study)


def test_a_contract_too_long_for_one_record_comes_back_from_its_records() -> None:
    release = CumulativeRelease("long", ("1",), measure="flow", weights="rule")
    [contract] = stated_contracts(build_study(release, horizon=100), 50, insecure=True).values()
    record = ContractRecord(contract, 50)
    first, *others = [decode_synthetic(value) for value in record.encode()]
    assert isinstance(first, LongContract)
    assert first.n_star == 50
    whole = None
    for chunk in others:
        assert whole is None
        assert isinstance(chunk, MatrixChunk)
        whole = first.add(chunk)
    assert whole is not None
    assert whole.contract.to_dict() == contract.to_dict()


@pytest.mark.parametrize("order", [[1], [0, 0], [1, 0]], ids=["missing", "repeated", "swapped"])
def test_matrices_in_another_order_are_malformed(order: list[int]) -> None:
    release = CumulativeRelease("long", ("1",), measure="flow", weights="rule")
    [contract] = stated_contracts(build_study(release, horizon=100), 50, insecure=True).values()
    first, *others = [decode_synthetic(value) for value in ContractRecord(contract, 50).encode()]
    assert isinstance(first, LongContract)
    with pytest.raises(Malformed):
        for place in order:
            chunk = others[place]
            assert isinstance(chunk, MatrixChunk)
            first.add(chunk)
