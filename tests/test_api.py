"""`import streamproc` is all a statistician needs, and costs nothing until it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import streamproc

STUDY = """
[study]
name = "poverty"
alphabet = ["0", "1"]
horizon = 4

[privacy]
rho = 0.5

[[release]]
name = "quarterly"
kind = "window"
k = 3

[[release]]
name = "ever"
kind = "cumulative"
"""


def modules_after(code: str) -> set[str]:
    """Which modules a fresh interpreter has loaded after running `code`."""
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
    tree = ast.parse(Path(streamproc.__file__).read_text())
    typed = {
        (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert {(home, name) for home, names in streamproc._HOMES.items() for name in names} == typed
    assert all(getattr(streamproc, name) is not None for name in streamproc.__all__)
    assert set(streamproc.__all__) <= set(dir(streamproc))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'read_minds'"):
        getattr(streamproc, "read_minds")  # noqa: B009  the type checker knows that there is none


def test_a_statistician_gets_from_files_to_answers_and_back(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    people = "".join(f"person-{row},{row % 2},,1,{row % 3 % 2}\n" for row in range(60))
    (tmp_path / "people.csv").write_text("individual,1,2,3,4\n" + people)

    study = streamproc.read_study(tmp_path / "study.toml")
    assert study == streamproc.parse_study(STUDY)
    histories = streamproc.read_people(tmp_path / "people.csv", study)
    noise = streamproc.SeededEntropy(1)
    contracts = streamproc.make_contracts(study, histories.size, noise)
    tallies = streamproc.tallies_of(study, histories.filled(study))
    replayed = streamproc.replay_study(study, contracts, tallies, noise)

    questions: dict[str, streamproc.Query] = {
        "quarterly": streamproc.count_of(["1"], at_least=2, of=3),
        "ever": streamproc.AtLeast(2),
    }
    for name, question in questions.items():
        streamproc.save_panel(replayed.panels[name], tmp_path / f"{name}.parquet")
        answer = streamproc.load_panel(tmp_path / f"{name}.parquet").fraction(question)
        assert answer == replayed.panels[name].fraction(question)
        assert answer.low <= answer.value <= answer.high
        assert replayed.panels[name].contract.insecure
