"""The demo ends by itself, shows answers beside the truth, leaves a study that holds, and what it says to type works."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from streamproc.cli import main as app
from streamproc.cli.declarations import DEMO_PEOPLE
from streamproc.cli.demo.progress import ASCII, AnswerVsTruth
from streamproc.cli.demo.screen import Month, Screen, month_line
from streamproc.cli.demo.simulated_study import MONTHS, simulate_reports, study_text
from streamproc.cli.formatting import INSECURE
from streamproc.offline.people import MISSING
from streamproc.panel import Answer
from streamproc.privacy.types import Period, Rho
from streamproc.service.registration import NOT_CHECKED
from streamproc.study import parse_study
from tests.cli.conftest import Command

SEED = 7

STREAMPROC = [sys.executable, "-m", "streamproc"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(folder: Path) -> str:
    """What a seeded demo printed; its exit code was 0 and it complained of nothing."""
    out, complaint = io.StringIO(), io.StringIO()
    log = logging.getLogger("streamproc")
    before = log.handlers[:], log.level, log.propagate
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(complaint):
        patched.setattr(sys, "argv", ["streamproc", "demo", "--out", str(folder), "--seed", str(SEED)])
        for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
            patched.delenv(name, raising=False)
        with pytest.raises(SystemExit) as ended:
            app.main()
    log.handlers[:], log.level, log.propagate = before
    assert (ended.value.code or 0, complaint.getvalue()) == (0, "")
    return out.getvalue()


def test_every_month_has_a_line_and_the_whole_budget_is_spent_at_the_end(shown: str) -> None:
    lines = [line.split() for line in shown.splitlines() if line.endswith("%")]
    assert [line[0] for line in lines] == [str(month) for month in range(1, MONTHS + 1)]
    left = [int(line[-1].rstrip("%")) for line in lines]
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0
    text = " ".join(shown.split())
    assert "The year cost rho 0.01 of 0.01: epsilon 0.622 at delta 1e-6 (replace-one)." in text
    assert "The noise comes from a seed" in text


def test_nearly_all_intervals_hold_the_truth(shown: str) -> None:
    """The noise is seeded; of other seeds about one in 20 would miss more than 3 of these 20 answers."""
    answers = [
        [float(figure) for figure in found]
        for line in shown.splitlines()
        if line.endswith("%")
        for found in re.findall(r"([\d.]+) +(-?[\d.]+) +([\d.]+)-([\d.]+)", line)
    ]
    assert len(answers) == 2 * (MONTHS - 2)
    held = sum(low <= truth <= high for truth, _, low, high in answers)
    assert held >= 17
    text = " ".join(shown.split())
    assert f"{held} of {len(answers)} intervals hold the truth. Each does with a chance of 95%" in text
    assert "One run may have fewer" in text


def test_in_a_pipe_it_is_plain_text_of_80_columns(shown: str) -> None:
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert max(len(line) for line in shown.partition("Try next")[0].splitlines()) <= 80


def test_it_leaves_a_study_that_is_released_to_the_end(shown: str, folder: Path, streamproc: Command) -> None:
    found = json.loads(streamproc("status", folder / "study.toml", "--json").out)
    assert (found["released"], found["watermark"], found["insecure"]) == (MONTHS, MONTHS, True)
    assert found["rho_spent"] == pytest.approx(0.01, abs=1e-12)
    assert {path.name for path in folder.iterdir()} >= {"study.toml", "panel.csv", "log", "poverty.state"}


def test_it_streamed_what_a_replay_of_its_panel_releases(
    shown: str, folder: Path, tmp_path: Path, streamproc: Command
) -> None:
    study = folder / "study.toml"
    assert streamproc("pull", study, "--out", tmp_path / "streamed").code == 0
    replayed = streamproc("replay", study, folder / "panel.csv", "--out", tmp_path / "replayed", "--seed", SEED)
    assert replayed.code == 0
    for name in ("quarterly.csv", "months-poor.csv"):
        assert (tmp_path / "streamed" / name).read_bytes() == (tmp_path / "replayed" / name).read_bytes()


def test_the_commands_it_suggests_work(shown: str, streamproc: Command) -> None:
    commands = [shlex.split(line) for line in shown.splitlines() if line.startswith("  ") and "streamproc " in line]
    arguments = [command[command.index(next(c for c in command if c.endswith("streamproc"))) + 1 :] for command in commands]
    assert [words[0] for words in arguments] == ["status", "verify", "watch", "pull", "plan", "replay"]
    for words in arguments:
        if "--repeat" in words:
            words[words.index("--repeat") + 1] = "2"
        ended = streamproc(*words)
        seeded = words[0] in ("verify", "watch", "pull")  # those that tell people on standard error
        unchecked = f"{NOT_CHECKED}\n" if words[0] == "replay" else ""
        assert (ended.code, ended.complaint) == (0, f"{INSECURE}\n" if seeded else unchecked)
    program = commands[0][: -len(arguments[0])]
    version = subprocess.run([*program, "--version"], capture_output=True, text=True, check=False)
    assert version.returncode == 0


def test_a_folder_with_an_earlier_demo_is_refused_and_left_as_it_is(shown: str, folder: Path, streamproc: Command) -> None:
    before = (folder / "study.toml").stat().st_mtime_ns
    ended = streamproc("demo", "--people", 10, "--out", folder)
    assert (ended.code, ended.out) == (2, "")
    assert ended.complaint.count("\n") == 1
    assert "study.toml" in ended.complaint
    assert (folder / "study.toml").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "arguments",
    [["--people", "0"], ["--people", "-5"], ["--people", "many"], ["--people", "1000001"], ["--serve", "--public", "here"]],
)
def test_a_bad_option_is_one_line(arguments: list[str], tmp_path: Path, streamproc: Command) -> None:
    ended = streamproc("demo", "--out", tmp_path / "demo", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.complaint.count("\n") == 1
    assert not (tmp_path / "demo").exists()


@contextmanager
def started(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A demo. If the test fails while it runs, the failure shows how the demo ended and its standard error."""
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [*STREAMPROC, "demo", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)
    with process:
        try:
            yield process
        except BaseException as error:
            process.kill()
            _, complaint = process.communicate()
            error.add_note(f"the demo ended with {process.returncode}; its standard error:\n{complaint}")
            raise
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], wanted: str) -> str:
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if re.search(wanted, line):
            return seen
    process.wait()
    raise AssertionError(f"{wanted!r} did not come after:\n{seen}")


def test_a_failed_test_shows_the_standard_error_of_the_demo(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as failed, started(tmp_path, "--people", "0") as process:
        read_until(process, "until Ctrl-C")
    (note,) = failed.value.__notes__
    assert note.startswith("the demo ended with 2; its standard error:\nstreamproc: ")
    assert "--people" in note


def test_a_few_people_are_served_from_a_new_folder_until_a_signal(tmp_path: Path) -> None:
    with started(tmp_path, "--people", "200", "--serve") as process:
        seen = read_until(process, "until Ctrl-C")
        (where,) = set(re.findall(r"http://127\.0\.0\.1:\d+/metrics", seen))
        with urllib.request.urlopen(where) as answer:
            assert f'streamproc_periods_released{{study="poverty"}} {MONTHS}.0' in answer.read().decode()
        process.send_signal(signal.SIGTERM)
        _, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (0, "")
    assert "try --people 5000" in seen
    (folder,) = tmp_path.iterdir()
    assert str(folder / "study.toml") in seen


def test_a_signal_half_way_ends_it_cleanly_and_it_says_where_it_was(tmp_path: Path, streamproc: Command) -> None:
    with started(tmp_path, "--people", "3000", "--out", str(tmp_path / "demo")) as process:
        read_until(process, r"^    1 .*%$")
        process.send_signal(signal.SIGINT)
        rest, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (0, "")
    assert f"of {MONTHS} months released. Everything is in {tmp_path / 'demo'}" in rest
    assert "Try next" not in rest
    assert streamproc("verify", tmp_path / "demo" / "study.toml").code == 0


def test_a_terminal_shows_the_month_under_way(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with Screen(parse_study(study_text(100))) as screen:
        screen.begin_month(90)
        screen.add_sent(45)
        screen.add_gathered(30)
        assert "45 of 90 reports sent" in capsys.readouterr().out
        screen.mark_closed()
        screen.add_tally()
        assert "30 gathered ▸ month closed ▸ tallied 1 of 4 ▸ released" in re.sub(r"\x1b\[\d+m", "", capsys.readouterr().out)
        screen.add_month(Month(Period(1), 90, (), Rho(0.005)))
    assert "    1       90 " in capsys.readouterr().out


def test_an_answer_is_shown_within_its_interval_though_noise_put_it_below_zero() -> None:
    answer = Answer("ever", Period(5), value=-0.3, stderr=0.35, low=-0.986, high=0.386, level=0.95)
    month = Month(Period(5), 90, [AnswerVsTruth(0.1, answer)] * 2, Rho(0.005))
    assert month_line(month, 0.5, ASCII).plain.split()[2:5] == ["10.0", "0.0", "0.0-38.6"]


def test_simulated_poverty_is_sticky_and_nobody_misses_the_first_month() -> None:
    symbols = simulate_reports(DEMO_PEOPLE).symbols
    assert symbols.shape == (DEMO_PEOPLE, MONTHS)
    before, after = symbols[:, :-1], symbols[:, 1:]
    reported = (before != MISSING) & (after != MISSING)
    stay, enter = after[reported & (before == 1)].mean(), after[reported & (before == 0)].mean()
    assert float(stay) == pytest.approx(0.85, abs=0.015)
    assert float(enter) == pytest.approx(0.02, abs=0.002)
    assert (symbols[:, 0] != MISSING).all()
    assert round(float((after == MISSING).mean()), 2) == 0.03
