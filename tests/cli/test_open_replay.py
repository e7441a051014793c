"""`streamproc replay` and `sp.replay` of an open study: what is written, what is refused, and what Python reads of it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamproc as sp
from streamproc.study.fingerprint import fingerprint, public_values
from tests.cli.conftest import Command

STUDY = """
[study]
name = "app"
alphabet = ["0", "1"]

[population]
open = true
tenure = 4
absent_after = 2
size = 50

[privacy]
rho = 20

[[release]]
name = "recent"
kind = "window"
k = 2

[[release]]
name = "active"
kind = "spell"
length = 3
event = ["1"]
"""
PERIODS, PEOPLE = 9, 400


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.toml").write_text(STUDY)
    write_people(tmp_path / "people.csv", PERIODS)
    return tmp_path


def write_people(path: Path, periods: int) -> None:
    """Person `i` enters in period `1 + i mod 8` and is silent in every third period after that."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["individual", *range(1, periods + 1)])
        for person in range(PEOPLE):
            first = 1 + person % 8
            cells = [str(person * t % 2) if t >= first and (t - first) % 3 < 2 else "" for t in range(1, periods + 1)]
            writer.writerow([f"id-{person}", *cells])


def table(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_a_replay_writes_rows_that_begin_and_end(folder: Path, streamproc: Command) -> None:
    ended = streamproc("replay", "app.toml", "people.csv", "--out", "out", "--seed", 1)
    assert ended.code == 0
    assert "app: open study, replace-one" in ended.out
    assert "a person's whole participation" in " ".join(ended.out.split())
    header, *rows = table(folder / "out/recent.csv")
    assert header == ["synthetic", *map(str, range(1, PERIODS + 1))]
    assert [row[0] for row in rows] == list(map(str, range(len(rows))))
    stays = [len("".join(cell or " " for cell in row[1:]).strip()) for row in rows]
    assert 1 <= min(stays) <= max(stays) <= 4
    summary = json.loads((folder / "out/summary.json").read_bytes())
    assert summary["n"] is None
    assert summary["releases"]["recent"]["n_star"] == len(rows)
    assert summary["releases"]["recent"]["periods"][-1]["bins"]["#present"] == sum(bool(row[-1]) for row in rows)


def test_errors_are_in_people(folder: Path, streamproc: Command) -> None:
    ended = streamproc("replay", "app.toml", "people.csv", "--out", "out", "--repeat", 3, "--seed", 1)
    assert ended.code == 0
    assert "RMS error" in ended.out
    comment, header, *rows = table(folder / "out/errors.csv")
    assert comment[0].startswith("# PRIVATE")
    assert header == ["run", "release", "period", "query", "truth", "estimate", "stderr", "low", "high"]
    entered = [float(row[4]) for row in rows if row[:2] == ["0", "recent"] and row[3] == "entered"]
    assert entered == [PEOPLE / 8] * 8 + [0.0]
    assert {row[3] for row in rows if row[1] == "active"} == {"spell:1", "spell:2", "spell:3", "present", "entered", "left"}


def test_a_file_is_as_wide_as_it_is_unless_the_study_has_a_horizon(folder: Path, streamproc: Command) -> None:
    write_people(folder / "wide.csv", 20)
    assert streamproc("replay", "app.toml", "wide.csv", "--out", "wide", "--seed", 1).code == 0
    assert len(table(folder / "wide/recent.csv")[0]) == 21
    (folder / "app.toml").write_text(STUDY.replace('"1"]\n', '"1"]\nhorizon = 9\n', 1))
    assert streamproc("replay", "app.toml", "people.csv", "--out", "same", "--seed", 1).code == 0
    ended = streamproc("replay", "app.toml", "wide.csv", "--out", "other", "--seed", 1)
    assert ended.code == 2
    assert "expected the header individual,1,...,9 of 10 columns, but there are 21" in ended.complaint


def test_a_replay_says_that_it_does_not_sample(folder: Path, streamproc: Command) -> None:
    (folder / "app.toml").write_text(STUDY.replace("size = 50", "sample = 0.5"))
    ended = streamproc("replay", "app.toml", "people.csv", "--out", "out", "--seed", 1)
    assert ended.code == 0
    assert "population.sample applies to the stream only: everybody in the file may enter this replay" in ended.complaint
    summary = json.loads((folder / "out/summary.json").read_bytes())
    assert summary["releases"]["active"]["n_star"] > 0.8 * PEOPLE


@pytest.fixture
def result(folder: Path) -> sp.Result:
    study = sp.Study.load("app.toml")
    return sp.replay(study, sp.read_people("people.csv", study), seed=7)


def test_python_answers_shares_numbers_and_retention(result: sp.Result) -> None:
    recent, active = result["recent"], result["active"]
    assert result.summary["n"] is None
    assert 0 < recent.fraction(sp.exactly("1"), 6).value < 1
    assert recent.fraction(sp.count_of("1", at_least=1, of=2), 6).unit == "share"
    assert recent.people(sp.present(), 6).low < 200 < recent.people(sp.present(), 6).high
    assert recent.people(sp.since_entry("1"), 6).value <= recent.people(sp.entered(), 6).value
    assert active.people(sp.left(), 9).unit == "people"
    assert 0 < active.fraction(sp.in_spell(1), 6).value < 1
    assert 0 < recent.retention(6).value < 1


def test_what_is_saved_is_loaded_with_the_same_answers(result: sp.Result) -> None:
    result.save("public")
    for name, panel in sp.load("public").items():
        assert panel.rows == result[name].rows
        assert panel.people(sp.present()) == result[name].people(sp.present())
        assert panel.retention() == result[name].retention()


def test_a_pull_without_parquet_is_loaded_with_the_measurements_of_its_ledger(result: sp.Result, folder: Path) -> None:
    study = sp.Study.load("app.toml")
    (folder / "pulled").mkdir()
    for name, panel in result.items():
        panel.save(folder / "pulled" / f"{name}.csv")
    (folder / "pulled" / "ledger.json").write_text(json.dumps(ledger_of(result, study)))
    for name, panel in sp.load("pulled", study).items():
        assert panel.people(sp.present()) == result[name].people(sp.present())
        assert panel.retention() == result[name].retention()


def ledger_of(result: sp.Result, study: sp.Study) -> dict[str, Any]:
    """What `pull` writes as `ledger.json`, as far as a reader of files needs it."""
    periods: list[dict[str, Any]] = [{"releases": {}} for _ in range(PERIODS)]
    for name, panel in result.items():
        assert panel.measurements is not None
        for period, measured in zip(periods, panel.measurements, strict=True):
            period["releases"][name] = {"measurements": np.concatenate(measured).tolist()}
    return {
        "study": public_values(study),
        "fingerprint": fingerprint(study, None).hex(),
        "insecure": True,
        "n": None,
        "contracts": {name: panel.contract.to_dict() for name, panel in result.items()},
        "periods": periods,
    }


def test_a_study_in_python_needs_no_horizon() -> None:
    population = sp.Population(initial="0", open=True, tenure=4)
    study = sp.Study(name="app", alphabet=["0", "1"], releases=[sp.Window("recent", k=2)], rho=2, population=population)
    assert study.horizon is None
    frame = sp.plan(study).to_frame()
    assert frame["half_points"].isna().all()
    assert sp.plan(study, n=500).to_frame()["half_points"].notna().any()
    with pytest.raises(sp.StudyError, match=r"study\.horizon: got nothing"):
        sp.Study(name="app", alphabet=["0", "1"], releases=[sp.Window("recent", k=2)], rho=2)
    with pytest.raises(sp.StudyError, match="release"):
        sp.Study(name="app", alphabet=["0", "1"], rho=2, population=population)


def test_a_people_file_may_not_be_longer_than_the_horizon_in_python_either(result: sp.Result) -> None:
    study = sp.Study.load("app.toml")
    people = sp.read_people("people.csv", study)
    short = sp.Study(
        name="app",
        alphabet=["0", "1"],
        horizon=5,
        releases=[sp.Window("recent", k=2)],
        rho=2,
        population=sp.Population(initial="0", open=True, tenure=4),
    )
    with pytest.raises(sp.InvalidInput, match="the histories have 9 periods, but the study has 5"):
        sp.replay(short, people, seed=1)
