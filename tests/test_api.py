"""`import streamproc` is all that a statistician needs, and loads nothing until it is used."""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import streamproc as sp
from streamproc.errors import StudyNotOver
from streamproc.study.fingerprint import public_values

ROOT = Path(__file__).parents[1]
STUDY = """
[study]
name = "poverty"
alphabet = ["0", "1"]
horizon = 12

[privacy]
rho = 0.5

[[release]]
name = "quarterly"
kind = "window"
k = 3

[[release]]
name = "months-poor"
kind = "cumulative"
"""
PEOPLE = 200


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of an analyst: `poverty.toml` and `people.csv`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poverty.toml").write_text(STUDY)
    rows = [",".join([f"person-{row}", *(str(int((row + t) % 7 < 2)) for t in range(12))]) for row in range(PEOPLE)]
    (tmp_path / "people.csv").write_text(f"individual,{','.join(map(str, range(1, 13)))}\n" + "\n".join(rows) + "\n")
    return tmp_path


@pytest.fixture
def study(folder: Path) -> sp.Study:
    return sp.Study.load(folder / "poverty.toml")


@pytest.fixture
def result(folder: Path, study: sp.Study) -> sp.Result:
    return sp.replay(study, sp.read_people(folder / "people.csv", study), seed=7)


def modules_after(code: str) -> set[str]:
    """Which top-level modules a fresh interpreter has loaded after running `code`."""
    shown = f"{code}\nimport sys\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in ran.stdout.splitlines()[-1].split()}


def test_importing_the_package_loads_no_other() -> None:
    assert not modules_after("import streamproc") & {"numpy", "opendp", "pandas", "pyarrow", "matplotlib", "rich", "click"}


def test_the_whole_interface_loads_nothing_heavier_than_numpy() -> None:
    loaded = modules_after("from streamproc import *")

    assert "numpy" in loaded
    assert not loaded & {"opendp", "pandas", "pyarrow", "matplotlib", "rich", "click", "aiokafka", "aiohttp", "scipy"}


def test_every_public_name_is_where_the_types_say_it_is() -> None:
    tree = ast.parse(Path(sp.__file__).read_text())
    typed = {
        (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert {(home, name) for home, names in sp._HOMES.items() for name in names} == typed
    assert all(getattr(sp, name) is not None for name in sp.__all__)
    assert set(sp.__all__) <= set(dir(sp))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'read_minds'"):
        getattr(sp, "read_minds")  # noqa: B009  the type checker knows that there is none


def test_the_version_is_that_of_the_package() -> None:
    stated = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert stated is not None
    assert sp.__version__ == stated.group(1)


@pytest.mark.parametrize("name", [name for name in sp.__all__ if name != "__version__"])
def test_help_of_a_public_name_shows_an_example_that_runs(name: str, folder: Path, result: sp.Result) -> None:
    result.save("public")
    study = sp.Study.load("poverty.toml")
    given: dict[str, Any] = {"sp": sp, "asyncio": asyncio, "study": study, "result": result}
    given["people"] = sp.read_people("people.csv", study)
    public = getattr(sp, name)
    examples = [
        test for test in doctest.DocTestFinder(recurse=False).find(public, name, globs=given, module=False) if test.examples
    ]
    methods = [member for _, member in inspect.getmembers(public, inspect.isroutine) if ">>>" in (member.__doc__ or "")]
    for method in methods if inspect.isclass(public) else []:
        examples += doctest.DocTestFinder(recurse=False).find(method, method.__qualname__, globs=dict(given), module=False)

    assert examples, f"the docstring of {name} has no example"
    shown: list[str] = []
    for example in examples:
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=shown.append, clear_globs=False)
    assert not shown, "".join(shown)


def test_a_study_in_code_is_the_study_in_a_file(study: sp.Study) -> None:
    releases = [sp.Window("quarterly", k=3), sp.Cumulative("months-poor")]
    in_code = sp.Study(name="poverty", alphabet=["0", "1"], horizon=12, rho=0.5, releases=releases)

    assert in_code == study
    assert hash(in_code) == hash(study)
    assert in_code != sp.Study(name="poverty", alphabet=["0", "1"], horizon=12, rho=0.25, releases=releases)


def test_a_study_in_code_refuses_two_budgets_and_an_unknown_adjacency() -> None:
    base: dict[str, Any] = {"name": "s", "alphabet": ["0", "1"], "horizon": 3, "releases": [sp.Window("w", k=2)]}

    with pytest.raises(sp.InvalidInput, match="rho"):
        sp.Study(**base, rho=0.5, epsilon=1.0)
    with pytest.raises(sp.InvalidInput, match="one budget"):
        sp.Study(**base, rho=0.5, privacy=sp.Study(**base, rho=0.5).privacy)
    with pytest.raises(sp.InvalidInput, match="one budget"):
        sp.Study(**base, adjacency="zero-out", privacy=sp.Study(**base, rho=0.5).privacy)
    with pytest.raises(sp.InvalidInput, match="replace-one"):
        sp.Study(**base, rho=0.5, adjacency="add-two")


def test_a_plan_as_a_table_has_the_values_of_the_command(study: sp.Study, folder: Path) -> None:
    frame = sp.plan(study, n=1000).to_frame()

    assert isinstance(frame, pd.DataFrame)
    assert set(frame["release"]) == {"quarterly", "months-poor"}
    assert (frame["stderr_points"] > 0).all()
    assert sp.plan(study).to_dict()["n"] == 10_000


def test_panels_of_a_saved_result_answer_as_before(result: sp.Result, folder: Path) -> None:
    result.save("public")

    written = {path.name for path in (folder / "public").iterdir()}
    assert written == {"quarterly.csv", "quarterly.parquet", "months-poor.csv", "months-poor.parquet", "summary.json"}
    loaded = sp.load("public")
    for name, query in {"quarterly": sp.count_of("1", at_least=2, of=3), "months-poor": sp.at_least(2)}.items():
        assert loaded[name].fraction(query) == result[name].fraction(query)
        assert loaded[name].contract.insecure


def test_equal_seeds_give_equal_panels_and_fresh_noise_does_not(study: sp.Study, folder: Path, result: sp.Result) -> None:
    people = sp.read_people("people.csv", study)
    again, secure = sp.replay(study, people, seed=7), sp.replay(study, people)

    assert all((again[name].columns[t] == result[name].columns[t]).all() for name in result for t in range(12))
    assert not secure["quarterly"].contract.insecure
    assert not secure.summary["insecure"]


def test_a_roster_beside_the_study_file_is_found_from_anywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (folder / "poverty.toml").write_text(STUDY + '\n[population]\nroster = "roster.txt"\n')
    (folder / "roster.txt").write_text("".join(f"person-{row}\n" for row in range(PEOPLE + 10)))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))

    study = sp.Study.load(folder / "poverty.toml")

    assert sp.read_people(folder / "people.csv", study).size == PEOPLE + 10
    assert sp.plan(study).to_dict()["n"] == PEOPLE + 10


def test_a_replay_is_registered_once_for_the_same_people(
    study: sp.Study, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMPROC_REGISTRY", str(folder / "registry"))
    people = sp.read_people("people.csv", study)
    sp.replay(study, people)

    with pytest.raises(sp.Refused, match="again"):
        sp.replay(study, people)
    sp.replay(study, people, again=True)


def test_a_folder_without_panels_is_refused_with_what_to_do(folder: Path) -> None:
    with pytest.raises(sp.InvalidInput, match="pull --parquet"):
        sp.load(folder)


@pytest.fixture
def pulled(folder: Path, study: sp.Study, result: sp.Result) -> Path:
    """What `pull` writes: CSV files, and measurements in `ledger.json`."""
    result.save("public")
    for path in (folder / "public").glob("*.parquet"):
        path.unlink()
    periods = [
        {"releases": {name: {"measurements": _flat(panel, period)} for name, panel in result.items()}}
        for period in range(12)
    ]
    ledger = {
        "study": public_values(study),
        "fingerprint": "00" * 32,
        "n": PEOPLE,
        "insecure": True,
        "contracts": {name: panel.contract.to_dict() for name, panel in result.items()},
        "periods": periods,
    }
    (folder / "public" / "ledger.json").write_text(json.dumps(ledger))
    return folder / "public"


def _flat(panel: sp.Panel, period: int) -> list[int]:
    assert panel.measurements is not None
    return [int(number) for rows in panel.measurements[period] for number in rows.ravel()]


def test_a_pull_without_parquet_files_answers_with_the_study(pulled: Path, study: sp.Study, result: sp.Result) -> None:
    loaded = sp.load(pulled, study)

    query = sp.count_of("1", at_least=2, of=3)
    assert loaded["quarterly"].fraction(query) == result["quarterly"].fraction(query)
    assert loaded["months-poor"].fraction(sp.at_least(2)) == result["months-poor"].fraction(sp.at_least(2))


def test_a_pull_is_refused_with_another_study_or_before_the_first_release(pulled: Path, study: sp.Study) -> None:
    louder = sp.Study(name="poverty", alphabet=["0", "1"], horizon=12, rho=5.0, releases=study.releases)
    with pytest.raises(sp.InvalidInput, match="these differ: privacy"):
        sp.load(pulled, louder)
    (pulled / "ledger.json").write_text('{"study": null, "periods": []}')
    with pytest.raises(sp.InvalidInput, match="nothing is released yet"):
        sp.load(pulled, study)


def test_a_panel_made_from_a_table_can_be_saved(result: sp.Result, folder: Path) -> None:
    panel = sp.Panel.from_arrow(result["quarterly"].to_arrow())
    panel.save("copy.parquet")

    assert sp.Panel.load("copy.parquet").bins() == panel.bins() == result["quarterly"].bins()
    assert sp.Panel.from_pandas(panel.to_pandas(), panel.contract).bins() == panel.bins()


def test_whole_numbers_of_numpy_are_whole_numbers(study: sp.Study) -> None:
    assert sp.plan(study, n=int_of_numpy(500)).n == 500


def int_of_numpy(value: int) -> Any:
    return np.int64(value)


def test_a_result_does_not_overwrite_a_pull(pulled: Path, result: sp.Result) -> None:
    with pytest.raises(sp.InvalidInput, match="choose another folder"):
        result.save(pulled)


def test_a_misspelt_release_is_a_key_error_that_names_the_others(result: sp.Result) -> None:
    with pytest.raises(sp.InvalidInput, match=r"^release: got 'quaterly', allowed: quarterly, months-poor$"):
        result["quaterly"]
    assert "quaterly" not in result
    assert result.get("quaterly") is None


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda untyped, study: untyped.plan("poverty.toml"), "expected a Study, got str"),
        (lambda untyped, study: untyped.plan(study, n=0), "n: got 0"),
        (lambda untyped, study: untyped.read_people("people.csv", "poverty.toml"), "expected a Study"),
        (lambda untyped, study: untyped.replay(study, "people.csv"), "expected People, got str"),
        (lambda untyped, study: untyped.replay(study, untyped.read_people("people.csv", study), seed=-1), "seed"),
        (lambda untyped, study: untyped.replay(study, untyped.read_people("people.csv", study), seed="a"), "seed"),
        (lambda untyped, study: untyped.Study("s", ["0", "1"], 3, sp.Window("w", k=2), rho=1.0), "a list of releases"),
        (lambda untyped, study: untyped.Study("s", [0, 1], 3, [sp.Window("w", k=2)], rho=1.0), "study.alphabet"),
        (
            lambda untyped, study: untyped.Study("s", ["0", "1"], 3, [sp.Window("w", k=2)], rho=1.0, population="many"),
            "population.size",
        ),
        (lambda untyped, study: untyped.load("nowhere"), "is not a folder"),
    ],
)
def test_arguments_of_another_type_are_refused_in_one_line(
    folder: Path, study: sp.Study, call: Callable[[Any, sp.Study], object], reason: str
) -> None:
    with pytest.raises(sp.InvalidInput, match=reason):
        call(sp, study)


def test_a_plan_prints_its_cost_on_one_line(study: sp.Study) -> None:
    assert re.fullmatch(r"StudyPlan\(study='poverty', n=10000, .*rho 0\.5.*\)", repr(sp.plan(study)))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "[" * 100_000,
        lambda text: text.replace("measurements", "measured"),
        lambda text: text.replace('"n": 200', '"n": "many"'),
        lambda text: text.replace('"n": 200, ', ""),
        lambda text: re.sub(r'"measurements": \[', '"measurements": [1' + "0" * 30 + ", ", text),
        lambda text: re.sub(r'"measurements": \[', '"measurements": [1, ', text),
        lambda text: "\udcff",
    ],
)
def test_a_damaged_ledger_of_a_pull_is_refused_in_one_line(
    pulled: Path, study: sp.Study, damage: Callable[[str], str]
) -> None:
    ledger = pulled / "ledger.json"
    ledger.write_text(damage(ledger.read_text()), errors="surrogateescape")

    with pytest.raises(sp.InvalidInput) as refused:
        sp.load(pulled, study)
    assert "\n" not in str(refused.value)


def readme_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


async def test_a_stream_takes_reports_and_shows_each_column(
    folder: Path, study: sp.Study, capsys: pytest.CaptureFixture[str]
) -> None:
    """The roles run as a process of their own, as `streamproc run` starts them."""
    people = sp.read_people("people.csv", study)
    assert people.ids is not None
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "streamproc", "run", "poverty.toml", "--broker", "embedded:log"]
    roles = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with sp.connect(study, broker="embedded:log") as stream:
            for period in range(1, study.last_period + 1):
                symbols = [study.alphabet[symbol] for symbol in people.symbols[:, period - 1]]
                await stream.report_all(people.ids, period=period, symbols=symbols)
                await stream.close_period(period)
            seen = [panel async for panel in stream.subscribe("quarterly")]
        # The lines of the README that follow a stream, in a thread because they start an event loop.
        follow = readme_blocks("python")[1].replace("sp.connect(study)", 'sp.connect(study, broker="embedded:log")')
        names = {"sp": sp, "study": study, "q": sp.count_of("1", at_least=2, of=3)}
        await asyncio.to_thread(exec, follow, names)
    finally:
        if roles.returncode is None:
            roles.terminate()
        await roles.wait()

    assert [panel.period for panel in seen] == list(range(1, 13))
    assert [int(line.split()[0]) for line in capsys.readouterr().out.splitlines()] == list(range(3, 13))
    assert seen[-1].contract.n == PEOPLE
    assert 0 <= seen[-1].fraction(sp.exactly("0")).value <= 1


async def test_a_period_closes_after_the_ones_before_it(study: sp.Study) -> None:
    async with sp.connect(study, broker="embedded:log") as stream:
        await stream.report("person-1", period=1, symbol="1")
        with pytest.raises(sp.InvalidInput, match="period"):
            await stream.close_period(2)
        with pytest.raises(sp.InvalidInput):
            await stream.report("person-1", period=1, symbol="never-declared")
        with pytest.raises(sp.InvalidInput, match="allowed: a whole number from 1 to 12"):
            await stream.close_period(0)
        with pytest.raises(sp.InvalidInput, match="expected one symbol each"):
            await stream.report_all(["person-1", "person-2"], period=1, symbols=["0"])
        untyped: Any = stream
        with pytest.raises(sp.InvalidInput, match="a report has an id"):
            await untyped.report(17, period=1, symbol="0")
        with pytest.raises(sp.InvalidInput, match="a report has an id"):
            await untyped.report_all(["person-1"], period="1", symbols=["0"])


def test_errors_of_a_role_are_errors_of_the_interface() -> None:
    assert issubclass(StudyNotOver, sp.Refused)
    assert issubclass(sp.Refused, sp.StreamprocError)


def test_an_installed_package_answers_with_the_lines_of_the_readme(folder: Path) -> None:
    """`pip install .` into an empty environment brings all that the README's program needs.

    The versions are those of the lock.
    """
    readme = (ROOT / "README.md").read_text().partition("## Six lines to an answer")[2]
    demo = re.findall(r"`streamproc (demo [^`]+)`", readme)[0].split()
    study, program = re.findall(r"```(?:toml|python)\n(.*?)```", readme, re.S)[:2]
    (folder / "poverty.toml").write_text(study)
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    subprocess.run([sys.executable, "-m", "venv", "environment"], check=True, env=environment)
    python = folder / "environment" / "bin" / "python"
    locked = re.findall(r"^[\w.-]+==[^\\\n]+", (ROOT / "requirements.lock").read_text(), re.M)
    (folder / "constraints.txt").write_text("\n".join(locked))

    subprocess.run([python, "-m", "pip", "install", "-q", "-c", "constraints.txt", ROOT], check=True, env=environment)
    subprocess.run([python, "-m", "streamproc", *demo], check=True, env=environment, stdout=subprocess.DEVNULL)
    shutil.copy(folder / "demo" / "panel.csv", folder / "people.csv")
    ran = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False, env=environment)

    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(r"-?\d+\.\d% \(-?\d+\.\d% to -?\d+\.\d%\)\n", ran.stdout)


async def test_an_open_study_ends_with_the_period_that_is_closed_as_its_last(folder: Path) -> None:
    population = sp.Population(initial="0", open=True, tenure=4)
    study = sp.Study(name="app", alphabet=["0", "1"], releases=[sp.Window("recent", k=2)], rho=2, population=population)
    async with sp.connect(study, broker="embedded:log") as stream:
        await stream.report("id-1", period=1, symbol="0")
        await stream.close_period(1)
        await stream.report("id-2", period=2, symbol="1")
        await stream.close_period(2, last=True)
        with pytest.raises(sp.InvalidInput, match="the study ended with period 2"):
            await stream.close_period(3)
