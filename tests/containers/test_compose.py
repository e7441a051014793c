"""`docker-compose.yml`, brought up with images that are made without a registry: a study runs, survives, and verifies."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.containers.engine import ROOT, STREAMPROC
from tests.stream.programs import PATIENCE
from tests.studies import StudyParameters

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

HORIZON = 6
NO_COMPOSE = "no docker compose: apt-get install docker-compose"
STUDY = "/etc/streamproc/study/study.toml"
SETTINGS = ROOT / "deploy" / "airgap" / "env.example"


class Project:
    """What compose brings up, under a name of its own, its ports chosen by the engine."""

    def __init__(self, program: list[str], study_folder: Path, folder: Path = ROOT, **settings: str) -> None:
        own = {"STUDY_FOLDER": str(study_folder), "PERIOD_SECONDS": "1", "PUBLIC_PORT": "", "PROMETHEUS_PORT": ""}
        name = {"COMPOSE_PROJECT_NAME": f"streamproc-test-{uuid.uuid4().hex[:8]}", "COMPOSE_HTTP_TIMEOUT": "600"}
        self._program = [*program, "--env-file", str(SETTINGS)]
        self._folder, self._environ = folder, {**os.environ, **own, **name, **settings}

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._program, *arguments],
            cwd=self._folder, env=self._environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def do(self, *arguments: str) -> str:
        """`docker compose ARGUMENTS...` to its good end; what it printed."""
        ended = self.call(*arguments)
        assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}{self.call('logs').stdout}"
        return ended.stdout

    def ask(self, service: str, port: int, path: str) -> str:
        """What a published listener answers; nothing if it does not."""
        address = self.do("port", service, str(port)).strip()
        assert address.startswith("127.0.0.1:")
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def released(self) -> int:
        metrics = self.ask("page", 9100, "/metrics")
        found = re.search(r"^streamproc_periods_released\{[^}]*\} (\S+)", metrics, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def wait(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 3 * PATIENCE
        while not until():
            assert time.monotonic() < deadline, self.do("logs")
            time.sleep(0.5)


def programs() -> list[list[str]]:
    """Of versions 2 and 1.29, those that are there."""
    return [
        program
        for program in (["docker", "compose"], ["docker-compose"])
        if shutil.which(program[0])
        and subprocess.run([*program, "version"], capture_output=True, check=False).returncode == 0
    ]


@pytest.fixture(params=programs() or [[]], ids=" ".join)
def project(request: pytest.FixtureRequest, images: None, tmp_path: Path) -> Iterator[Project]:
    if not request.param:
        pytest.skip(NO_COMPOSE)
    tmp_path.chmod(0o755)
    (tmp_path / "study.toml").write_text(StudyParameters("composed", horizon=HORIZON).text("kafka://kafka:9092"))
    project = Project(request.param, tmp_path)
    yield project
    project.do("down", "--volumes")


@pytest.mark.parametrize("program", programs() or [[]], ids=" ".join)
def test_an_image_that_is_not_there_is_built_before_anything_comes_up(
    program: list[str], images: None, tmp_path: Path
) -> None:
    """By what every service waits for: with a small Dockerfile in place of ours, which would need a network."""
    if not program:
        pytest.skip(NO_COMPOSE)
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    (tmp_path / "Dockerfile").write_text(f"FROM {STREAMPROC}\nLABEL of=tests\n")
    image = f"streamproc-test-{uuid.uuid4().hex[:8]}"
    project = Project(program, tmp_path / "deploy" / "compose", tmp_path, ROLE_IMAGE=image, DOCKER_BUILDKIT="0")
    try:
        project.do("up", "--detach", "gatherer-1")
    finally:
        project.do("down", "--volumes")
        subprocess.run(["docker", "image", "rm", image], check=True, capture_output=True)


def test_a_study_comes_up_is_taken_down_comes_up_again_and_ends_verified(project: Project) -> None:
    project.do("up", "--detach")
    project.wait(lambda: project.released() >= 2)
    project.do("down")

    project.do("up", "--detach")
    project.wait(lambda: project.released() == HORIZON)

    # The second population had periods left to send, and did not start from period 1.
    sent = re.findall(r"reports of period (\d+)", project.do("logs", "population"))
    assert sent and int(sent[0]) >= 3
    assert f"{HORIZON} periods, {2 * HORIZON} columns verified" in project.do("run", "--rm", "streamproc", "verify", STUDY)
    status = json.loads(project.do("run", "--rm", "streamproc", "status", STUDY, "--json"))
    assert status["releases"]["ever"]["n_star"] == StudyParameters("composed").people
    # Roles stay when a study is over, so that what they show can still be looked at: by Prometheus, not by everybody.
    project.wait(lambda: targets(project) == EXPECTED_TARGETS)
    assert project.call("port", "synthesizer", "9101").stdout.strip() in ("", ":0")


EXPECTED_TARGETS = [
    ("streamproc-operator", "gatherer", "up"),
    ("streamproc-operator", "gatherer", "up"),
    ("streamproc-operator", "synthesizer", "up"),
    ("streamproc-public", "page", "up"),
]


def targets(project: Project) -> list[tuple[str, str, str]]:
    """What Prometheus scrapes: job, role and health of each."""
    answer = project.ask("prometheus", 9090, "/api/v1/targets")
    found = json.loads(answer)["data"]["activeTargets"] if answer else []
    return sorted((target["labels"]["job"], target["labels"]["role"], target["health"]) for target in found)
