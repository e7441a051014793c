"""A variable named `STREAMPROC_*` that no part of the program reads is refused, in every command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamproc.cli.main import streamproc as group
from streamproc.storage.environment import KNOWN
from tests.cli.conftest import Command

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"STREAMPROC_[A-Z_]+\b")
COMMANDS = group.list_commands(None)  # type: ignore[arg-type]


def arguments_of(command: str, folder: Path) -> list[str]:
    """The fewest arguments that the command parses."""
    more = {
        "replay": ["panel.csv", "--out", str(folder)],
        "send": ["panel.csv"],
        "close": ["--period", "1"],
        "pull": ["--out", str(folder)],
        "page": ["--public", "127.0.0.1:0"],
    }
    return [] if command == "demo" else [str(folder / "study.toml"), *more.get(command, [])]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("STREAMPROC_BROKR", "STREAMPROC_BROKER"),
        ("STREAMPROC_STATES", "STREAMPROC_STATE"),
        ("STREAMPROC_KAFKA_SECURITY_PROTOCOL", "STREAMPROC_KAFKA_SECURITY"),
        ("STREAMPROC_KAFKA_PASSWORD", "STREAMPROC_KAFKA_PASSWORD_FILE"),
        ("STREAMPROC_OPERATOR_TOKEN", "STREAMPROC_OPERATOR_TOKEN_FILE"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_nearest_name(
    streamproc: Command, small_study: Path, monkeypatch: pytest.MonkeyPatch, name: str, nearest: str
) -> None:
    monkeypatch.setenv(name, "a secret value")

    ended = streamproc("status", small_study)

    assert (ended.code, ended.out) == (2, "")
    assert ended.complaint == (
        f"streamproc: environment variable {name}: no such setting; did you mean {nearest}? Unset it or correct its name\n"
    )


def test_a_name_that_resembles_none_is_refused_with_all_names(
    streamproc: Command, small_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMPROC_XYZ", "1")

    ended = streamproc("status", small_study)

    assert ended.code == 2
    assert "STREAMPROC_XYZ: no such setting; there are STREAMPROC_BROKER, STREAMPROC_STATE, " in ended.complaint
    assert len(ended.complaint.splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_it_and_shows_its_help(
    streamproc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("STREAMPROC_BROKR", "kafka://nowhere:1")

    refused, helped = streamproc(command, *arguments_of(command, tmp_path)), streamproc(command, "--help")

    assert refused.code == 2
    assert "STREAMPROC_BROKR" in refused.complaint
    assert (helped.code, helped.complaint) == (0, "")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_are_shown_whatever_the_environment(
    streamproc: Command, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setenv("STREAMPROC_BROKR", "kafka://nowhere:1")

    assert streamproc(option).code == 0


def test_what_kubernetes_sets_for_a_service_is_accepted(
    streamproc: Command, small_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for service in ("STREAMPROC", "STREAMPROC_PAGE"):
        for rest in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_9100_TCP", "PORT_9100_TCP_ADDR"):
            monkeypatch.setenv(f"{service}_{rest}", "10.0.0.1")

    assert streamproc("status", small_study).code == 0


def test_a_port_without_its_service_is_refused(
    streamproc: Command, small_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMPROC_PUBLIC_PORT", "9100")

    assert streamproc("status", small_study).code == 2


def test_the_variable_of_shell_completion_is_none_of_ours() -> None:
    environ = {**os.environ, "_STREAMPROC_COMPLETE": "bash_source"}
    ended = subprocess.run([sys.executable, "-m", "streamproc"], env=environ, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "_STREAMPROC_COMPLETE=bash_complete" in ended.stdout


def test_the_documentation_lists_every_name_once() -> None:
    document = (ROOT / "docs" / "operations.md").read_text()
    section = document.partition("\n## Environment variables\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]

    assert sorted(name for row in rows for name in NAME.findall(row)) == sorted(KNOWN)


@pytest.mark.parametrize("file", ["Dockerfile", "docker-compose.yml", "deploy"])
def test_what_is_deployed_sets_known_names_only(file: str) -> None:
    path = ROOT / file
    files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
    texts = [each.read_text(errors="replace") for each in files if "wheelhouse" not in each.parts]

    assert {name for text in texts for name in NAME.findall(text)} <= set(KNOWN)
