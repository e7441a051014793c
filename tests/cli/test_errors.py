"""Whatever goes wrong, a person reads one line, a script reads an exit code, and standard output stays empty."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamproc.cli.commands import replay as replay_module
from tests.bad_input import BAD_PANELS, BAD_STUDIES, GOOD_STUDY, PANEL_STUDY, SECRETS
from tests.cli.conftest import Command, Ended


def complains(ended: Ended, code: int = 2) -> str:
    """What it says, if that is one line on standard error and nothing else."""
    assert ended.code == code
    assert ended.out == ""
    assert ended.complaint.startswith("streamproc: ")
    assert ended.complaint.endswith("\n")
    assert len(ended.complaint.splitlines()) == 1
    return ended.complaint


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(PANEL_STUDY)
    return path


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    path = tmp_path / "panel.csv"
    path.write_text("individual,1,2,3\na,0,1,0\nb,1,1,0\n")
    return path


@pytest.mark.parametrize("command", ["plan", "replay"])
@pytest.mark.parametrize(("text", "key"), [row[1:] for row in BAD_STUDIES], ids=[row[0] for row in BAD_STUDIES])
def test_a_bad_study(streamproc: Command, tmp_path: Path, text: str, key: str, command: str) -> None:
    path = tmp_path / "study.toml"
    path.write_text(text)
    out = tmp_path / "out"
    more = (tmp_path / "none.csv", "--out", out) if command == "replay" else ()

    said = complains(streamproc(command, path, *more))

    assert key in said
    assert not out.exists()


@pytest.mark.parametrize(("name", "content", "where"), [row[1:] for row in BAD_PANELS], ids=[row[0] for row in BAD_PANELS])
def test_a_bad_panel(streamproc: Command, study: Path, tmp_path: Path, name: str, content: bytes, where: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    said = complains(streamproc("replay", study, path, "--out", tmp_path / "out"))

    assert where in said
    assert not any(secret in said for secret in SECRETS)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing command: try 'streamproc --help'"),
        (["nosuch"], "No such command 'nosuch': try 'streamproc --help'"),
        (["--nosuch"], "No such option '--nosuch': try 'streamproc --help'"),
        (["replay"], "Missing argument 'STUDY': try 'streamproc replay --help'"),
        (["replay", "S"], "Missing argument 'PANEL': try 'streamproc replay --help'"),
        (["replay", "S", "P"], "Missing option '--out': try 'streamproc replay --help'"),
        (["replay", "S", "P", "Q", "--out", "O"], "Got unexpected extra argument (Q): try 'streamproc replay --help'"),
        (["replay", "S", "P", "--out", "O", "--nosuch"], "No such option '--nosuch'"),
        (["replay", "S", "P", "--out", "O", "--repeat", "0"], "'--repeat': 0 is not in the range"),
        (["replay", "S", "P", "--out", "O", "--repeat", "-1"], "'--repeat': -1 is not in the range"),
        (["replay", "S", "P", "--out", "O", "--repeat", "many"], "'--repeat': 'many' is not"),
        (["replay", "S", "P", "--out", "O", "--seed", "-1"], "'--seed': -1 is not in the range"),
        (["replay", "S", "P", "--out", "O", "--seed", "1.5"], "'--seed': '1.5' is not"),
        (["replay", "S", "P", "--out"], "Option '--out' requires an argument"),
        (["replay", "no.toml", "P", "--out", "O"], "no.toml: cannot be read"),
        (["plan"], "Missing argument 'STUDY': try 'streamproc plan --help'"),
    ],
)
def test_a_command_used_wrongly_says_where_to_look(streamproc: Command, arguments: list[str], says: str) -> None:
    assert says in complains(streamproc(*arguments))


@pytest.mark.parametrize("place", ["panel.csv", "panel.csv/in"])
def test_a_folder_that_cannot_be_written_to(streamproc: Command, study: Path, panel: Path, place: str) -> None:
    assert "expected a folder to write to" in complains(streamproc("replay", study, panel, "--out", panel.parent / place))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(streamproc: Command, study: Path, panel: Path, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    said = complains(streamproc("replay", study, panel, "--out", tmp_path / "closed"))
    assert "expected a folder to write to: Permission denied" in said


def test_an_input_is_never_replaced_by_a_result(streamproc: Command, study: Path, panel: Path) -> None:
    pairs = panel.rename(panel.with_name("pairs.csv"))
    before = pairs.read_bytes()
    assert "is an input" in complains(streamproc("replay", study, pairs, "--out", pairs.parent))
    assert pairs.read_bytes() == before


def test_a_release_that_cannot_be_written(streamproc: Command, study: Path, panel: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "pairs.csv" / "in the way").mkdir(parents=True)
    said = complains(streamproc("replay", study, panel, "--out", tmp_path / "out", "--again"))
    assert "pairs.csv: cannot be written: Is a directory" in said


def test_help_is_not_an_error(streamproc: Command) -> None:
    for arguments in (["--help"], ["-h"], ["replay", "--help"], ["--version"]):
        ended = streamproc(*arguments)
        assert (ended.code, ended.complaint) == (0, "")
        assert "streamproc" in ended.out


def broken(*arguments: object) -> None:
    raise RuntimeError("person-7 said 1")


def test_a_bug_is_one_line_that_quotes_nobody(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STREAMPROC_DEBUG", raising=False)
    monkeypatch.setattr(replay_module, "tallies_of", broken)
    said = complains(streamproc("replay", study, panel, "--out", tmp_path / "out"), code=1)

    assert "this is a bug (RuntimeError in streamproc/cli/commands/replay.py, line " in said
    assert "STREAMPROC_DEBUG=1" in said
    assert "person-7" not in said


def test_a_bug_shows_its_traceback_to_who_asks_for_it_but_still_quotes_nobody(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMPROC_DEBUG", "1")
    monkeypatch.setattr(replay_module, "tallies_of", broken)
    ended = streamproc("replay", study, panel, "--out", tmp_path / "out")

    assert ended.code == 1
    first, *frames, kind, line = ended.complaint.splitlines()
    assert first == "Traceback (most recent call last):"
    assert any(frame.endswith("in broken") for frame in frames)
    assert kind.startswith("RuntimeError: (left out")
    assert line.startswith("streamproc: this is a bug (RuntimeError in streamproc/cli/commands/replay.py, line ")
    # It stands in the code that is shown, not in what the exception says.
    assert ended.complaint.count("person-7") == 1


@pytest.mark.parametrize(
    ("error", "says"), [(MemoryError(), "not enough memory"), (OSError(28, "No space left"), "No space")]
)
def test_a_machine_at_its_limit_is_not_called_a_bug(
    streamproc: Command, study: Path, panel: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    def fails(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(replay_module, "tallies_of", fails)
    said = complains(streamproc("replay", study, panel, "--out", panel.parent / "out"), code=1)
    assert says in said
    assert "bug" not in said


def test_a_reader_that_goes_away_is_no_error(study: Path, panel: Path, tmp_path: Path) -> None:
    study.write_text(GOOD_STUDY.replace("= 12", "= 3"))
    command = [
        sys.executable,
        "-m",
        "streamproc",
        "replay",
        str(study),
        str(panel),
        "--out",
        str(tmp_path / "out"),
        "--again",
        "--json",
    ]
    with _nobody_reads() as pipe:
        ended = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, check=False)

    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["plan", "STUDY"], ["plan", "STUDY", "--json"]])
def test_a_pipe_that_is_closed_ends_everything_that_prints(study: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "streamproc", *(str(study) if part == "STUDY" else part for part in arguments)]
    with _nobody_reads() as pipe:
        ended = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, check=False)

    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


@contextmanager
def _nobody_reads() -> Iterator[int]:
    read, write = os.pipe()
    os.close(read)
    try:
        yield write
    finally:
        os.close(write)


def test_standard_output_that_is_full_or_closed_is_no_bug(study: Path) -> None:
    command = f"{sys.executable} -m streamproc plan {study} --json"
    full = subprocess.run(f"{command} > /dev/full", shell=True, capture_output=True, text=True, check=False)
    closed = subprocess.run(f"{command} >&-", shell=True, capture_output=True, text=True, check=False)

    assert (full.returncode, full.stderr) == (1, "streamproc: the system refused: No space left on device\n")
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.parametrize(
    ("number", "code", "says"), [(signal.SIGINT, 130, "streamproc: interrupted"), (signal.SIGTERM, 143, "")]
)
def test_an_interrupted_run_leaves_neither_files_nor_tracebacks(
    study: Path, panel: Path, tmp_path: Path, number: int, code: int, says: str
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "streamproc", "replay", str(study), str(panel), "--out", str(out), "--again"]
    command += ["--repeat", "20000"]
    # In a session of its own: as from a terminal, the signal reaches every process of the command, and only those.
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while not any(file.stat().st_size > 10_000 for file in out.glob(".errors.csv.*")):
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.05)
    os.killpg(started.pid, number)
    _, complaint = started.communicate(timeout=60)

    assert started.returncode == code
    assert complaint.strip() == says
    assert list(out.iterdir()) == []


SIGNAL_WHILE_IMPORTING = """
import os, sys
from streamproc.__main__ import main
class SignalSender:
    def find_spec(self, name, path, target=None):
        if name == MODULE:
            os.kill(os.getpid(), NUMBER)
sys.meta_path.insert(0, SignalSender())
main()
"""


@pytest.mark.parametrize("module", ["click", "streamproc.service.deployment"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", ["run", "gather", "synthesize", "watch", "demo", "page", "verify"])
def test_a_signal_during_imports_ends_a_command_as_it_would_later(
    study: Path, command: str, number: signal.Signals, module: str
) -> None:
    program = f"MODULE, NUMBER = {module!r}, {number.value}\n{SIGNAL_WHILE_IMPORTING}"
    given = {"demo": [], "page": [str(study), "--public=127.0.0.1:0"]}.get(command, [str(study)])
    ended = subprocess.run([sys.executable, "-c", program, command, *given], capture_output=True, text=True, check=False)
    says = "streamproc: interrupted" if ended.returncode == 130 and module != "click" else ""
    assert (ended.returncode, ended.stdout) == (128 + number if command == "verify" else 0, "")
    assert ended.stderr.strip() == says
