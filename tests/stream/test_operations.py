"""The drills of docs/operations.md, run as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.stream.conftest import BROKERS, DeployStudy
from tests.stream.deployed_study import DeployedStudy, random_symbols
from tests.stream.programs import PATIENCE, ROOT, Program
from tests.stream.public_records import check_published_once

DOCUMENT = (ROOT / "docs" / "operations.md").read_text()
DRILLS = dict(re.findall(r"<!-- drill: ([a-z ]+) -->\n```sh\n(.*?)```", DOCUMENT, re.DOTALL))


Perform = Callable[..., None]
"""`perform(place, drill, NAME=path, ...)`: run the commands; what they leave in the background ends with the test."""


@pytest.fixture
def perform() -> Iterator[Perform]:
    groups: list[int] = []

    def run(deployed: DeployedStudy, drill: str, **names: Path) -> None:
        groups.append(_run(deployed, drill, names))

    yield run
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _run(deployed: DeployedStudy, drill: str, names: Mapping[str, Path]) -> int:
    """To its good end; answers with its process group."""
    programs = Path(sys.executable).parent
    environ = os.environ | deployed.environ | {"STUDY": str(deployed.file), "PATH": f"{programs}:{os.environ['PATH']}"}
    script = DRILLS[drill]
    with (deployed.folder / f"{drill}.log").open("wb") as log:
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            env=environ | {name: str(path) for name, path in names.items()},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    code = shell.wait(PATIENCE)
    assert code == 0, (deployed.folder / f"{drill}.log").read_text()
    return shell.pid


def started(deployed: DeployedStudy) -> tuple[Path, Program, Program]:
    """A study of four periods, two of which are released: its panel, gatherer and synthesizer."""
    panel = deployed.write_panel(random_symbols("01", deployed.parameters.people, deployed.parameters.horizon, seed=3))
    deployed.do("init")
    gatherer = deployed.start("gather", "--state", deployed.folder / "gatherer")
    synthesizer = deployed.start("synthesize")
    deployed.do("send", panel, "--through", 2, "--close")
    synthesizer.says("period released period=2")
    return panel, gatherer, synthesizer


def finish(deployed: DeployedStudy, panel: Path) -> None:
    """Send and close the remaining periods, which the running processes release."""
    for period in range(3, deployed.parameters.horizon + 1):
        deployed.do("send", panel, "--period", period)
        deployed.do("close", "--period", period, "--wait")
    check_published_once(deployed)
    deployed.do("verify")


@pytest.mark.parametrize("broker", BROKERS)
def test_a_lost_disk_is_restored(deploy_study: DeployStudy, perform: Perform, broker: str) -> None:
    deployed = deploy_study(broker)
    panel, gatherer, synthesizer = started(deployed)
    synthesizer.kill()
    shutil.rmtree(deployed.state)

    perform(deployed, "lost disk")

    finish(deployed, panel)
    gatherer.done()


def test_a_damaged_state_is_moved_away_and_restored_as_the_refusals_say(deploy_study: DeployStudy, perform: Perform) -> None:
    deployed = deploy_study("embedded", horizon=3)
    panel, gatherer, synthesizer = started(deployed)
    synthesizer.kill()
    (deployed.state / "synthesizer.state").write_bytes(b"damaged")
    refused = deployed.call("restore")
    assert refused.code == 3
    assert "holds a state already; if a synthesizer refuses it" in refused.complaint
    assert "move the folder away, keep it, and restore again" in refused.complaint

    perform(deployed, "old state", STATE=deployed.state)

    finish(deployed, panel)
    gatherer.done()


def test_a_lost_checkpoint_is_counted_again(deploy_study: DeployStudy, perform: Perform) -> None:
    deployed = deploy_study("embedded")
    panel, gatherer, synthesizer = started(deployed)
    gatherer.kill()

    perform(deployed, "lost checkpoint", GATHERER_STATE=deployed.folder / "gatherer")

    finish(deployed, panel)
    synthesizer.done()


def test_an_embedded_study_can_be_moved(deploy_study: DeployStudy, perform: Perform) -> None:
    deployed = deploy_study("embedded")
    panel = deployed.write_panel(random_symbols("01", deployed.parameters.people, 4, seed=3))
    roles = deployed.start("run")
    deployed.do("send", panel, "--through", 2, "--close")
    roles.says("period released period=2")
    assert roles.stop().code == 0

    perform(deployed, "move", LOG=deployed.folder / "log", STATE=deployed.state)

    finish(deployed, panel)


def test_a_study_that_is_over_is_purged(deploy_study: DeployStudy, perform: Perform) -> None:
    deployed = deploy_study("embedded")
    panel, gatherer, synthesizer = started(deployed)
    finish(deployed, panel)
    gatherer.done()
    synthesizer.done()

    perform(deployed, "purge")

    assert deployed.topics.reports not in deployed.all_topics()


@pytest.mark.kafka
def test_gatherers_come_and_go_during_a_study(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("kafka")
    panel, first, synthesizer = started(deployed)
    others = [deployed.start("gather", "--state", deployed.folder / f"gatherer-{number}") for number in range(2)]
    for other in others:
        other.says("tallied")  # it has no checkpoint, so it counts a partition it is given from the start
    deployed.do("send", panel, "--period", 3, "--close")
    synthesizer.says("period released period=3")
    assert first.stop().code == 0
    others[0].kill()

    deployed.do("send", panel, "--period", 4, "--close")

    synthesizer.done()
    others[1].done()
    check_published_once(deployed)
    deployed.do("verify")


def test_every_drill_is_performed_here() -> None:
    assert set(DRILLS) == {"lost disk", "old state", "lost checkpoint", "move", "purge"}
