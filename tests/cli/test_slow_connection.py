"""A command that waits for a broker prints after two seconds what it is trying."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from streamproc.cli import role_server as serving
from streamproc.errors import LogUnavailable
from streamproc.log.kafka import KafkaLog, KafkaSettings
from streamproc.log.kafka import log as kafka_log
from streamproc.log.kafka.admin import AdminConnection
from streamproc.service.logging_setup import set_up_logs
from streamproc.testing import in_virtual_time
from tests.stream.programs import call
from tests.studies import StudyParameters

NOBODY = "kafka://127.0.0.1:1"


def answers_after(seconds: float) -> Callable[[AdminConnection], asyncio.Future[None]]:
    async def start(questions: AdminConnection) -> None:
        await asyncio.sleep(seconds)
        if seconds >= questions.timeout:
            raise LogUnavailable("no answer")

    return start  # type: ignore[return-value]


@pytest.mark.parametrize(("seconds", "messages"), [(1.9, []), (3.0, [2.0]), (30.0, [2.0])])
def test_it_is_said_once_after_two_seconds_and_not_to_who_is_connected_by_then(
    monkeypatch: pytest.MonkeyPatch, seconds: float, messages: list[float]
) -> None:
    monkeypatch.setattr(AdminConnection, "start", answers_after(seconds))

    async def scenario() -> list[float]:
        loop, said = asyncio.get_running_loop(), list[float]()
        begun = loop.time()
        log = KafkaLog(KafkaSettings(("127.0.0.1:1",)), on_slow=lambda: said.append(loop.time() - begun))
        if seconds < 30:
            async with log:
                await asyncio.sleep(60.0)
        else:
            with pytest.raises(LogUnavailable):
                await log.__aenter__()
            await asyncio.sleep(60.0)
        return said

    assert in_virtual_time(scenario()) == pytest.approx(messages)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(StudyParameters("slow").text(NOBODY))
    return path


@pytest.mark.parametrize("command", [["status"], ["init"], ["close", "--period", "1"], ["watch"]], ids=" ".join)
def test_a_command_says_what_it_is_connecting_to_and_when_it_gives_up(
    monkeypatch: pytest.MonkeyPatch, study: Path, command: list[str]
) -> None:
    monkeypatch.setattr(kafka_log, "SLOW_CONNECTION_S", 0.0)
    name, *arguments = command
    ended = call(name, study, *arguments, "--timeout", 0.2)
    assert (ended.code, ended.out) == (5, "")
    said, complaint = ended.complaint.splitlines()
    assert said == f"connecting to {NOBODY}, giving up after 0.2 s"
    assert complaint.startswith("streamproc: ")


def test_a_role_says_so_in_one_log_line_however_often_it_tries(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("slow", as_json=False)
    say = serving._log_connecting_once(NOBODY)
    say()
    say()
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(f"study=slow connecting broker={NOBODY}")
