"""`streamproc replay`: what its files say is what its releases hold, and only its owner may read the truth."""

from __future__ import annotations

import csv
import itertools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from streamproc.cli.formatting import format_epsilon, format_rounded_up
from streamproc.files.study_files import read_study
from streamproc.privacy.types import Period
from streamproc.privacy.window_flow import WindowFlowMechanism
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.releases.contracts import stated_contracts
from streamproc.service.registration import NOT_CHECKED
from tests.cli.conftest import Command
from tests.studies import cumulative_table, pattern_table, spell_table, study_toml, window_table

T, K, PEOPLE = 4, 2, 60

STUDY = study_toml(
    window_table("pairs", 2, share=0.75),
    cumulative_table("out", event=["out,ill"], weights="rule"),
    name="work",
    alphabet=["in", "out,ill", "away"],
    horizon=4,
    population={"size": 60},
    rho=0.5,
)
ALPHABET = ("in", "out,ill", "away")


def history(person: int) -> list[str]:
    """Person 7 does not report after the first period."""
    symbols = [ALPHABET[(person * (period + 2) // 3) % 3] for period in range(T)]
    return [symbols[0], "", "", ""] if person == 7 else symbols


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    path = tmp_path / "panel.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["individual", 1, 2, 3, 4])
        writer.writerows([f"person-{person}", *history(person)] for person in range(PEOPLE))
    return path


def table(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def summary(folder: Path) -> Any:
    return json.loads((folder / "summary.json").read_text())


def bins_by_hand(rows: list[list[str]], period: int) -> Counter[str]:
    """Windows are shorter before period K."""
    return Counter("|".join(row[max(period - K, 0) : period]) for row in rows)


def at_least_by_hand(rows: list[list[str]], period: int, one: str) -> dict[str, int]:
    ones = [row[:period].count(one) for row in rows]
    return {str(b): sum(count >= b for count in ones) for b in range(1, period + 1)}


def test_the_summary_counts_what_the_release_files_hold(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path
) -> None:
    assert streamproc("replay", study, panel, "--out", tmp_path / "deep" / "out").code == 0

    folder = tmp_path / "deep" / "out"
    report = summary(folder)["releases"]
    for name in ("pairs", "out"):
        header, *rows = table(folder / f"{name}.csv")
        assert header == ["synthetic", "1", "2", "3", "4"]
        assert [row[0] for row in rows] == [str(number) for number in range(report[name]["n_star"])]
        columns = [row[1:] for row in rows]
        for period in report[name]["periods"]:
            if name == "pairs":
                assert len(period["bins"]) == 3 ** min(period["period"], K)
                assert +Counter(period["bins"]) == bins_by_hand(columns, period["period"])
            else:
                assert period["bins"] == at_least_by_hand(columns, period["period"], "1")
        assert [period["period"] for period in report[name]["periods"]] == [1, 2, 3, 4]


def test_the_summary_has_the_names_that_scripts_rely_on(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path
) -> None:
    streamproc("replay", study, panel, "--out", tmp_path)

    report = summary(tmp_path)
    names = {"study", "n", "rho", "rho_spent", "adjacency", "epsilon", "delta", "insecure", "releases"}
    assert names <= report.keys()
    assert (report["study"], report["n"], report["rho"], report["adjacency"]) == ("work", 60, 0.5, "replace-one")
    for release in report["releases"].values():
        names = {"kind", "rho", "rho_spent", "n_star", "n_pad", "variance", "clamped", "periods"}
        assert names <= release.keys()
        assert release["clamped"] == sum(period["clamped"] for period in release["periods"])
        for period in release["periods"]:
            assert {"period", "rho_spent", "bins"} <= period.keys()
    pairs, out = report["releases"]["pairs"], report["releases"]["out"]
    assert pairs["n_star"] == 60 + 9 * pairs["n_pad"] > 60
    assert (out["n_star"], out["n_pad"]) == (60, 0)
    assert isinstance(pairs["variance"], float)
    assert len(out["variance"]) == T


def test_spending_grows_to_the_budget_and_never_above(streamproc: Command, study: Path, panel: Path, tmp_path: Path) -> None:
    streamproc("replay", study, panel, "--out", tmp_path)

    report = summary(tmp_path)
    assert 0.5 - 1e-12 <= report["rho_spent"] <= 0.5
    for release, share in (("pairs", 0.75), ("out", 0.25)):
        spent = [period["rho_spent"] for period in report["releases"][release]["periods"]]
        assert spent == sorted(set(spent))
        assert report["releases"][release]["rho"] == 0.5 * share
        assert report["releases"][release]["rho_spent"] == spent[-1] == pytest.approx(0.5 * share, abs=1e-12)


def test_epsilon_is_that_of_the_whole_budget(streamproc: Command, study: Path, panel: Path, tmp_path: Path) -> None:
    study.write_text(STUDY.replace("rho = 0.5", "rho = 0.005"))
    streamproc("replay", study, panel, "--out", tmp_path)

    assert summary(tmp_path)["delta"] == 1e-6
    assert 0.4299 < summary(tmp_path)["epsilon"] < 0.43


def test_a_seed_makes_a_run_repeatable_and_marks_it(streamproc: Command, study: Path, panel: Path, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        shown = streamproc("replay", study, panel, "--out", tmp_path / folder, "--seed", 5).out
        assert "INSECURE" in shown
        assert summary(tmp_path / folder)["insecure"] is True
    for name in ("pairs.csv", "out.csv", "summary.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_without_a_seed_every_run_is_different(streamproc: Command, study: Path, panel: Path, tmp_path: Path) -> None:
    """Two runs give the same rows in the same order with a chance far below 1e-30."""
    for folder in ("one", "two"):
        assert "INSECURE" not in streamproc("replay", study, panel, "--out", tmp_path / folder).out
        assert summary(tmp_path / folder)["insecure"] is False
    assert (tmp_path / "one" / "pairs.csv").read_bytes() != (tmp_path / "two" / "pairs.csv").read_bytes()


def test_json_prints_the_summary_and_nothing_else(streamproc: Command, study: Path, panel: Path, tmp_path: Path) -> None:
    ended = streamproc("replay", study, panel, "--out", tmp_path, "--json")

    assert json.loads(ended.out) == summary(tmp_path)
    assert ended.complaint == f"{NOT_CHECKED}\n"


def test_the_table_names_the_adjacency_beside_every_cost(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path
) -> None:
    study.write_text(STUDY.replace("rho = 0.5", 'rho = 0.5\nadjacency = "zero-out"'))
    ended = streamproc("replay", study, panel, "--out", tmp_path)

    assert "pairs" in ended.out
    assert "zero-out, delta 1e-6" in ended.out
    assert "for a person's whole history (zero-out)" in " ".join(ended.out.split())
    report = summary(tmp_path)
    beside = f"the same noise under replace-one: rho {format_rounded_up(report['rho_spent_replace_one'])}, epsilon "
    assert beside + format_epsilon(report["epsilon_replace_one"]) in " ".join(ended.out.split())
    assert f"wrote {tmp_path / 'pairs.csv'}\n" in ended.out
    assert "errors.csv" not in ended.out
    assert ended.complaint == f"{NOT_CHECKED}\n"


def measured_of(history: Sequence[int], mechanism: WindowFlowMechanism) -> npt.NDArray[np.float64]:
    """What one person adds to the measurements of the release `pairs`, in units of their noise."""
    added = []
    for t in range(1, T + 1):
        now = 3 * np.eye(3)[history[t - 1]] - 1
        added.append(now / mechanism.sigma(Period(t), 1, 1))
        if t > 1:
            before = 3 * np.eye(3)[history[t - 2]] - 1
            added.append(np.outer(before, now).ravel() / mechanism.sigma(Period(t), 2, 2))
    return np.concatenate(added)


def test_the_summary_of_a_zero_out_study_states_the_same_noise_under_replace_one(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path
) -> None:
    """At period T of a window release by its definition: the largest distance of any two histories in what is measured."""
    study.write_text(STUDY.replace("rho = 0.5", 'rho = 0.5\nadjacency = "zero-out"'))
    streamproc("replay", study, panel, "--out", tmp_path)

    report = summary(tmp_path)
    assert report["rho_spent_replace_one"] == report["rho_replace_one"] > report["rho_spent"]
    assert report["epsilon_replace_one"] == epsilon_of_rho(report["rho_replace_one"], report["delta"]) > report["epsilon"]
    pairs = report["releases"]["pairs"]
    mechanism = stated_contracts(read_study(study), PEOPLE, insecure=False)["pairs"].mechanism
    measured = [measured_of(symbols, mechanism) for symbols in itertools.product(range(3), repeat=T)]
    assert pairs["rho_spent"] == pytest.approx(max(one @ one for one in measured) / 2, rel=1e-9)
    distances = [(one - other) @ (one - other) for one, other in itertools.combinations(measured, 2)]
    assert pairs["rho_spent_replace_one"] == pytest.approx(max(distances) / 2, rel=1e-9)
    assert pairs["periods"][-1]["rho_spent_replace_one"] == pairs["rho_spent_replace_one"]
    assert sum(release["rho_replace_one"] for release in report["releases"].values()) == pytest.approx(
        report["rho_replace_one"]
    )


def test_the_summary_of_a_replace_one_study_has_no_second_figure(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path
) -> None:
    streamproc("replay", study, panel, "--out", tmp_path)
    assert "replace_one" not in (tmp_path / "summary.json").read_text()


def test_results_replace_those_of_an_earlier_run(streamproc: Command, study: Path, panel: Path, tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("old")
    (tmp_path / "pairs.csv").write_text("old")
    ended = streamproc("replay", study, panel, "--out", tmp_path)

    assert (ended.code, ended.complaint) == (0, f"{NOT_CHECKED}\n")
    assert summary(tmp_path)["study"] == "work"
    assert table(tmp_path / "pairs.csv")[0][0] == "synthetic"
    assert not list(tmp_path.glob(".*"))


def test_replacing_a_replay_with_real_noise_states_the_cost_of_showing_both(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path
) -> None:
    assert streamproc("replay", study, panel, "--out", tmp_path).complaint == f"{NOT_CHECKED}\n"
    report = f"{tmp_path}: replacing an earlier replay; a person who sees both sees releases that cost twice the budget\n"
    assert streamproc("replay", study, panel, "--out", tmp_path).complaint == report
    assert streamproc("replay", study, panel, "--out", tmp_path, "--seed", 1).complaint == ""
    # That one protected nobody.
    assert streamproc("replay", study, panel, "--out", tmp_path).complaint == f"{NOT_CHECKED}\n"


@pytest.mark.parametrize(
    "found",
    ['{"study": "another", "insecure": false}', '{"study": "work"}', '["work"]', "[" * 100_000, "\xff", '{"study": '],
    ids=["another study", "not ours", "no object", "too deep", "no UTF-8", "no JSON"],
)
def test_nothing_is_said_of_a_summary_that_is_not_of_this_study(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path, found: str
) -> None:
    (tmp_path / "summary.json").write_text(found, encoding="latin-1")
    ended = streamproc("replay", study, panel, "--out", tmp_path)
    assert (ended.code, ended.complaint) == (0, f"{NOT_CHECKED}\n")


def test_repeating_writes_every_answer_beside_the_truth_for_its_owner_only(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path
) -> None:
    ended = streamproc("replay", study, panel, "--out", tmp_path, "--repeat", 3, "--seed", 11)
    assert (ended.code, ended.complaint) == (0, "")
    assert "private" in ended.out

    path = tmp_path / "errors.csv"
    assert path.stat().st_mode & 0o777 == 0o600
    comment, _, rest = path.read_text().partition("\n")
    assert comment.startswith("#")
    assert "private" in comment.lower()
    rows = list(csv.DictReader(rest.splitlines()))
    assert list(rows[0]) == ["run", "release", "period", "query", "truth", "estimate", "stderr", "low", "high"]
    asked = [("pairs", t, "bin") for t in (1, 2, 3, 4) for _ in range(3 ** min(t, K))]
    asked += [("out", t, f"atleast:{b}") for t in (1, 2, 3, 4) for b in range(1, t + 1)]
    seen = [(row["release"], int(row["period"]), row["query"].split(":")[0]) for row in rows]
    assert [row["run"] for row in rows] == [run for run in "012" for _ in asked]
    assert seen == 3 * [(release, period, query.split(":")[0]) for release, period, query in asked]

    people = [[symbol or history(person)[0] for symbol in history(person)] for person in range(PEOPLE)]
    for row in rows:
        period, (kind, label) = int(row["period"]), row["query"].split(":")
        counted = bins_by_hand(people, period) if kind == "bin" else at_least_by_hand(people, period, "out,ill")
        assert float(row["truth"]) == counted.get(label, 0) / PEOPLE
        assert float(row["low"]) <= float(row["estimate"]) <= float(row["high"])


def test_spells_and_patterns_are_counted_beside_the_truth(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path
) -> None:
    spells = spell_table("spells", 2, event=["out,ill"], weights="rule")
    returned = pattern_table("returned", "<out,ill><in>", weights="rule")
    study.write_text(
        study_toml(spells, returned, name="work", alphabet=ALPHABET, horizon=T, population={"size": PEOPLE}, rho=0.5)
    )
    assert streamproc("replay", study, panel, "--out", tmp_path, "--repeat", 2, "--seed", 11).code == 0

    def in_spell(row: list[str], event: str, length: int) -> bool:
        return len(row) >= length and set(row[-length:]) == {event}

    def has_returned(row: list[str]) -> bool:
        return ("out,ill", "in") in itertools.pairwise(row)

    report = summary(tmp_path)["releases"]
    for name in ("spells", "returned"):
        rows = [row[1:] for row in table(tmp_path / f"{name}.csv")[1:]]
        assert [period["period"] for period in report[name]["periods"]] == [1, 2, 3, 4]
        for period in report[name]["periods"]:
            seen, t = [row[: period["period"]] for row in rows], period["period"]
            lengths = {str(length): sum(in_spell(row, "1", length) for row in seen) for length in range(1, min(t, 2) + 1)}
            assert period["bins"] == (lengths if name == "spells" else {"matched": sum(map(has_returned, seen))})
    people = [[symbol or history(person)[0] for symbol in history(person)] for person in range(PEOPLE)]
    answers = list(csv.DictReader((tmp_path / "errors.csv").read_text().splitlines()[1:]))
    assert {row["query"] for row in answers} == {"spell:1", "spell:2", "matched"}
    for answer in answers:
        seen, (kind, _, length) = [row[: int(answer["period"])] for row in people], answer["query"].partition(":")
        holds = [has_returned(row) if kind == "matched" else in_spell(row, "out,ill", int(length)) for row in seen]
        assert float(answer["truth"]) == sum(holds) / PEOPLE
        assert float(answer["low"]) <= float(answer["estimate"]) <= float(answer["high"])


def test_the_files_of_a_repeated_run_are_those_of_run_0(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path
) -> None:
    streamproc("replay", study, panel, "--out", tmp_path / "once", "--seed", 11)
    streamproc("replay", study, panel, "--out", tmp_path / "often", "--seed", 11, "--repeat", 3)

    for name in ("pairs.csv", "out.csv", "summary.json"):
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "often" / name).read_bytes()
    report = summary(tmp_path / "often")["releases"]["pairs"]
    _, *lines = (tmp_path / "often" / "errors.csv").read_text().splitlines()
    for row in csv.DictReader(lines):
        if (row["run"], row["release"], row["period"]) == ("0", "pairs", "4"):
            count = report["periods"][-1]["bins"][row["query"].removeprefix("bin:")]
            assert float(row["estimate"]) == (count - report["n_pad"]) / PEOPLE
