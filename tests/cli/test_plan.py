"""`streamproc plan`, as a steward and a script meet it: exit codes, standard output and JSON."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamproc.cli.plan.tables import _error_cells
from streamproc.planning import ExpectedError, QueryPlan
from streamproc.privacy.types import Period


def numbers_after(heading: str, lines: list[str]) -> list[float]:
    """The numbers of a row. Weights are tuned in floating point, so the last digits differ between machines."""
    [row] = [line.removeprefix(heading) for line in lines if re.fullmatch(rf"{heading}[ 0-9.]+", line)]
    return [float(number) for number in row.split()]


def test_the_output_starts_with_what_is_promised(plan: Any) -> None:
    code, out, complaint = plan()

    promise = " ".join(out.split("\n\n")[0].split())
    assert (code, complaint) == (0, "")
    assert promise.startswith(
        "Replacing any one person's whole history by any other (replace-one) changes the distribution of everything this "
        "study releases by at most rho = 0.005 (zCDP), which is epsilon = 0.43 at delta = 1e-6."
    )


def test_a_zero_out_study_promises_less_and_says_so(plan: Any) -> None:
    _, out, _ = plan(change=("rho = 0.005", 'rho = 0.005\nadjacency = "zero-out"'))

    said = " ".join(out.split())
    assert said.startswith("Taking any one person's whole history out of every count (zero-out)")
    assert (
        "by any other (replace-one) changes the distribution of everything this study releases by at most rho = 0.008639"
        in said
    )
    assert "The same noise under replace-one instead of zero-out" in out
    assert "WARNING zero-out takes a person out of every count: no input of this program is such a neighbour" in said


def test_a_zero_out_plan_shows_the_replace_one_figure_beside_every_cost(plan: Any) -> None:
    change = ("rho = 0.005", 'rho = 0.005\nadjacency = "zero-out"')
    lines = [" ".join(line.split()) for line in plan(change=change)[1].splitlines()]
    assert "quarterly window, k=3 0.0025 0.298 0.006139 29.9 118 24,318 24.3 kB" in lines
    assert "quarterly: rho, replace-one 0.0002163 0.001044 0.002776 0.00449 0.006139" in lines
    expected = [0.0004311, 0.001625, 0.003977, 0.006331, 0.008639]
    assert numbers_after("study: rho, replace-one", lines) == pytest.approx(expected, rel=1e-3)

    found = json.loads(plan("--json", change=change)[1])
    for costs in (found, *found["releases"].values()):
        assert costs["rho_replace_one"] == costs["other_adjacency"]["rho"] > costs["rho"]
        assert costs["epsilon_replace_one"] == costs["other_adjacency"]["epsilon"] > costs["epsilon"]
        assert costs["periods"][-1]["rho_spent_replace_one"] == costs["rho_replace_one"]
        assert all(period["rho_spent_replace_one"] >= period["rho_spent"] for period in costs["periods"])
    assert [warning["code"] for warning in found["warnings"]] == ["zero_out"]


def test_a_zero_out_plan_of_counts_alone_says_which_replacement_it_covers(plan: Any) -> None:
    change = (
        'rho = 0.005\n\n[[release]]\nname = "quarterly"\nkind = "window"\nk = 3\n',
        'rho = 0.005\nadjacency = "zero-out"\n',
    )
    (warning,) = json.loads(plan("--json", change=change)[1])["warnings"]
    assert "covers only the replacement of a history by one without any event" in warning["message"]


def test_a_replace_one_plan_has_no_second_figure(plan: Any) -> None:
    assert "replace_one" not in plan("--json")[1]


def test_the_tables_show_what_a_steward_needs(plan: Any) -> None:
    _, out, _ = plan()
    lines = [" ".join(line.split()) for line in out.splitlines()]

    assert "quarterly window, k=3 0.0025 0.298 46.4 181 24,822 24.8 kB" in lines
    assert "months-poor cumulative 0.0025 0.298 48.2 0 23,374 23.4 kB" in lines
    assert lines.count("flow 0.5 1 B/row") == 2
    assert "one bin, such as 000 3 46.4 90.9 0.389 90.9 0.389" in lines  # its error is the same from the first period on
    assert "last symbol is '1' 1 78.5 154 0.658 154 0.658" in lines  # it can be asked before a whole window is there
    assert "'1' at least once 1 48.2 94.6 0.405 94.4 0.404 139" in lines
    assert numbers_after("study: rho", lines) == pytest.approx([0.000296, 0.001078, 0.002393, 0.00373, 0.005], rel=1e-3)
    assert "paper 63.2 1.86 246 25,342" in lines
    assert "flow tuned: largest 48.2 48.2 1.00 chosen" in lines
    assert {"flow rule 53.9 49 1.25", "any limit 47.5 - 0.97"} < set(lines)
    assert any(line.startswith("paper tree 452 151 87.") for line in lines)


def test_every_table_of_numbers_names_the_adjacency(plan: Any) -> None:
    _, out, _ = plan()
    blocks = [block for block in out.split("\n\n") if "───" in block]

    assert len(blocks) == 7
    assert all("replace-one" in block for block in blocks)


def test_a_pipe_gets_at_most_100_columns_and_no_colours(plan_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "streamproc", "plan", "study.toml"],
        cwd=plan_folder,
        capture_output=True,
        text=True,
        check=True,
    )

    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "\x1b" not in done.stdout
    assert "…" not in done.stdout
    assert done.stderr == ""


def test_symbols_that_look_like_markup_are_shown_as_they_are(plan: Any) -> None:
    code, out, _ = plan(change=('["0", "1"]', '["[red]", "$_[/b]:smile:"]'))

    assert code == 0
    assert "'$_[/b]:smile:'" in out


def test_warnings_come_before_the_tables(plan: Any) -> None:
    _, out, _ = plan(change=("size = 23374", "size = 500"))

    assert "WARNING quarterly: padding outweighs people" in " ".join(out.split())
    assert "WARNING months-poor: wide intervals" in " ".join(out.split())
    assert out.index("WARNING") < out.index("Releases:")


def test_no_warning_where_none_is_due(plan: Any) -> None:
    assert "WARNING" not in plan()[1]


def test_json_is_one_object_and_nothing_else(plan: Any) -> None:
    code, out, complaint = plan("--json")

    assert (code, complaint, out.count("\n")) == (0, "", 1)
    assert set(json.loads(out)) == {
        *("study", "alphabet", "horizon", "n", "adjacency", "budget", "rho", "epsilon", "delta"),
        *("other_adjacency", "periods", "releases", "warnings", "notes"),
    }


SHARED = {
    *("kind", "measure", "share", "rho", "epsilon", "other_adjacency", "noise_people", "variance", "n_pad", "n_star"),
    *("n_star_expected", "periods", "queries", "memory", "alternatives"),
}
ERROR = {"period", "stderr_people", "half_people", "stderr_points", "half_points"}


def test_the_names_in_json_are_stable(plan: Any) -> None:
    document = json.loads(plan("--json", change=("size = 23374", "size = 500"))[1])
    window, cumulative = document["releases"]["quarterly"], document["releases"]["months-poor"]

    assert set(window) == SHARED | {"k", "beta", "bins"}
    assert set(cumulative) == SHARED | {"event", "most"}
    for release in (window, cumulative):
        assert set(release["memory"]) == {"rows", "row_bytes", "column_bytes", "kept_bytes"}
        for query in release["queries"].values():
            assert set(query) == {"label", "worst", "last", "half_people_columns_only", "periods"}
            assert {frozenset(error) for error in (query["worst"], query["last"], *query["periods"])} == {frozenset(ERROR)}
    assert set(window["alternatives"][0]) == {
        *("measure", "chosen", "bin_stderr_people", "n_pad", "rows", "variance_ratio"),
    }
    assert set(cumulative["alternatives"][0]) == {
        *("measure", "weights", "chosen", "worst_stderr_people", "rms_stderr_people", "variance_ratio"),
    }
    for holder in (document, window, cumulative):
        assert set(holder["other_adjacency"]) == {"adjacency", "rho", "epsilon"}
        assert {frozenset(spent) for spent in holder["periods"]} == {frozenset({"period", "rho_spent", "epsilon_spent"})}
    assert {frozenset(remark) for remark in document["warnings"] + document["notes"]} == {
        frozenset({"code", "release", "message"})
    }


def test_json_holds_the_numbers_of_the_plan(plan: Any) -> None:
    document = json.loads(plan("--json")[1])
    window, cumulative = document["releases"]["quarterly"], document["releases"]["months-poor"]
    variance = 5.375 / 0.0025  # docs/privacy.md has it at rho 1, for q = 2, k = 3 and T = 12

    assert (document["n"], document["adjacency"], document["delta"]) == (23_374, "replace-one", 1e-6)
    assert document["epsilon"] == pytest.approx(0.4299414688)
    assert window["variance"] == pytest.approx(variance, rel=1e-6)
    assert window["noise_people"] == pytest.approx(math.sqrt(variance), rel=1e-6)
    assert (window["n_pad"], window["n_star"]) == (181, 23_374 + 8 * 181)
    assert (cumulative["n_pad"], cumulative["n_star"]) == (0, 23_374)
    assert len(cumulative["variance"]) == 12
    assert [spent["period"] for spent in document["periods"]] == list(range(1, 13))
    assert document["periods"][-1]["rho_spent"] == document["rho"] == pytest.approx(0.005, abs=1e-12)


def test_the_people_of_a_paper_window_are_only_expected(plan: Any) -> None:
    release = json.loads(plan("--json", change=("k = 3", 'k = 3\nmeasure = "paper"'))[1])["releases"]["quarterly"]

    assert release["n_star"] is None
    assert release["n_star_expected"] == 23_374 + 8 * release["n_pad"]


def test_a_study_without_a_size_is_planned_for_an_assumed_number_of_people(plan: Any) -> None:
    code, out, complaint = plan("--json", change=("size = 23374", ""))

    document = json.loads(out)
    assert (code, complaint, document["n"]) == (0, "", 10_000)
    assert any("population.size" in note["message"] for note in document["notes"])


def test_without_a_size_the_ids_in_the_roster_are_counted(plan: Any, plan_folder: Path) -> None:
    (plan_folder / "people.txt").write_bytes(b"anna\n\n  \r\nbert\r\ncarl")

    document = json.loads(plan("--json", change=("size = 23374", 'roster = "people.txt"'))[1])

    assert document["n"] == 3


def test_the_roster_is_sought_beside_the_study_file(plan: Any, plan_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (plan_folder / "people.txt").write_text("anna\nbert\n")
    (plan_folder / "elsewhere").mkdir()
    monkeypatch.chdir(plan_folder / "elsewhere")

    with_roster = ("size = 23374", 'roster = "people.txt"')

    assert json.loads(plan("--json", change=with_roster, study="../study.toml")[1])["n"] == 2


def test_a_roster_that_cannot_be_read_leaves_the_size(plan: Any) -> None:
    with_both = ("size = 23374", 'size = 23374\nroster = "absent.txt"')
    assert json.loads(plan("--json", change=with_both)[1])["n"] == 23_374

    code, _, complaint = plan(change=("size = 23374", 'roster = "absent.txt"'))
    assert code == 2
    assert "population.size" in complaint and "absent.txt" in complaint


@pytest.mark.parametrize(
    ("content", "named"), [(b"\n", "no id"), (b"anna\nbert\nanna\n", "line 3"), (b"anna\nc\xffarl\n", "UTF-8")]
)
def test_a_roster_that_a_study_could_not_start_with_is_refused(
    plan: Any, plan_folder: Path, content: bytes, named: str
) -> None:
    (plan_folder / "people.txt").write_bytes(content)

    code, _, complaint = plan(change=("size = 23374", 'roster = "people.txt"'))

    assert code == 2 and "roster" in complaint and named in complaint
    assert "anna" not in complaint


@pytest.mark.parametrize(
    ("arguments", "change", "named"),
    [
        ([], ("k = 3", "k = 13"), "release.quarterly.k"),
        ([], ("rho = 0.005", "rho = 1e-9\ndelta = 2"), "privacy.delta"),
        (["--plot", "plan.bmp"], None, "plan.bmp"),
        (["--plot", "plan"], None, ".png, .svg, .pdf"),
        (["--plot", "nowhere/plan.png"], None, "nowhere/plan.png"),
        (["--colour"], None, "--colour"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(
    plan: Any, arguments: list[str], change: tuple[str, str] | None, named: str
) -> None:
    code, _, complaint = plan(*arguments, change=change)

    assert (code, complaint.count("\n")) == (2, 1)
    assert named in complaint


def test_a_long_study_is_planned_without_comparing_the_papers_counters(plan: Any) -> None:
    code, out, _ = plan(change=("horizon = 12", "horizon = 210"))

    assert code == 0
    assert "--compare" in out
    assert "tree" not in out
    compared = plan("--compare")[1]
    assert "tree" in compared and "--compare" not in compared


def test_tuned_weights_are_compared_on_request(plan: Any) -> None:
    change = ("horizon = 12", "horizon = 6")
    ways = json.loads(plan("--json", "--tune", change=change)[1])["releases"]["months-poor"]["alternatives"]

    assert [way["weights"] for way in ways] == ["rule", "tuned: largest", "tuned: mean", "tree"]
    assert [way["weights"] for way in ways if way["chosen"]] == ["tuned: largest"]
    assert ways[2]["rms_stderr_people"] == min(way["rms_stderr_people"] for way in ways)
    assert ways[1]["worst_stderr_people"] == min(way["worst_stderr_people"] for way in ways)
    assert len(json.loads(plan("--json")[1])["releases"]["months-poor"]["alternatives"]) == 3


def test_spells_and_patterns_are_planned_with_names_of_their_own(plan: Any) -> None:
    spell = 'name = "spells"\nkind = "spell"\nlength = 4\nweights = "rule"\n'
    pattern = 'name = "left"\nkind = "pattern"\npattern = "11+0"\nweights = "rule"\n'
    before = '[[release]]\nname = "quarterly"\n'
    change = (before, f"[[release]]\n{spell}[[release]]\n{pattern}{before}")
    releases = json.loads(plan("--json", change=change)[1])["releases"]

    assert set(releases["spells"]) == SHARED | {"event", "length"}
    assert list(releases["spells"]["queries"]) == ["spell:1", "spell:2", "spell:3", "spell:4"]
    assert len(releases["spells"]["variance"]) == 4
    assert set(releases["left"]) == SHARED | {"pattern", "states"}
    assert list(releases["left"]["queries"]) == ["matched"]
    assert isinstance(releases["left"]["variance"], float)
    assert "has ever matched 11+0" in plan(change=change)[1]


@pytest.mark.slow
def test_a_thousand_periods_can_be_planned(plan: Any) -> None:
    code, out, _ = plan("--json", change=("horizon = 12", "horizon = 1000"))

    document = json.loads(out)
    assert code == 0
    assert len(document["periods"]) == 1000
    assert document["rho"] == pytest.approx(0.005, abs=1e-12)
    assert document["rho"] <= 0.005


def test_the_worst_error_is_shown_as_it_is_at_the_first_period_that_looks_like_it() -> None:
    """Two that look alike as standard errors may not as half-widths."""
    expected = [(1, 9.0, 17.6), (2, 10.04, 19.64), (3, 10.0449, 19.66)]
    errors = tuple(ExpectedError(Period(period), stderr, half, 1000) for period, stderr, half in expected)
    assert _error_cells(QueryPlan("ones", "ones", errors)) == ["2", "10", "19.7", "1.97", "19.7", "1.97"]
