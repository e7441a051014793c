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

from tests.stream.conftest import BROKERS, NewPlace
from tests.stream.places import Place, random_symbols
from tests.stream.programs import PATIENCE, ROOT, Program
from tests.stream.seen import check_seen_once

DOCUMENT = (ROOT / "docs" / "operations.md").read_text()
DRILLS = dict(re.findall(r"<!-- drill: ([a-z ]+) -->\n```sh\n(.*?)```", DOCUMENT, re.DOTALL))


Perform = Callable[..., None]
"""`perform(place, drill, NAME=path, ...)`: run the commands; what they leave in the background ends with the test."""


@pytest.fixture
def perform() -> Iterator[Perform]:
    groups: list[int] = []

    def run(place: Place, drill: str, **names: Path) -> None:
        groups.append(_run(place, drill, names))

    yield run
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _run(place: Place, drill: str, names: Mapping[str, Path]) -> int:
    """To its good end; answers with its process group."""
    programs = Path(sys.executable).parent
    environ = os.environ | place.environ | {"STUDY": str(place.file), "PATH": f"{programs}:{os.environ['PATH']}"}
    script = DRILLS[drill]
    with (place.folder / f"{drill}.log").open("wb") as log:
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            env=environ | {name: str(path) for name, path in names.items()},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    code = shell.wait(PATIENCE)
    assert code == 0, (place.folder / f"{drill}.log").read_text()
    return shell.pid


def started(place: Place) -> tuple[Path, Program, Program]:
    """A study of four periods, two of which are released: its panel, gatherer and synthesizer."""
    panel = place.write_panel(random_symbols("01", place.parameters.people, place.parameters.horizon, seed=3))
    place.do("init")
    gatherer = place.start("gather", "--state", place.folder / "gatherer")
    synthesizer = place.start("synthesize")
    place.do("send", panel, "--through", 2, "--close")
    synthesizer.says("period released period=2")
    return panel, gatherer, synthesizer


def finish(place: Place, panel: Path) -> None:
    """Send the rest; whoever the drill started releases it."""
    for period in range(3, place.parameters.horizon + 1):
        place.do("send", panel, "--period", period)
        place.do("close", "--period", period, "--wait")
    check_seen_once(place)
    place.do("verify")


@pytest.mark.parametrize("broker", BROKERS)
def test_a_lost_disk_is_restored(new_place: NewPlace, perform: Perform, broker: str) -> None:
    place = new_place(broker)
    panel, gatherer, synthesizer = started(place)
    synthesizer.kill()
    shutil.rmtree(place.state)

    perform(place, "lost disk")

    finish(place, panel)
    gatherer.done()


def test_a_damaged_state_is_moved_away_and_restored_as_the_refusals_say(new_place: NewPlace, perform: Perform) -> None:
    place = new_place("embedded", horizon=3)
    panel, gatherer, synthesizer = started(place)
    synthesizer.kill()
    (place.state / "synthesizer.state").write_bytes(b"damaged")
    refused = place.call("restore")
    assert refused.code == 3
    assert "holds a state already; if a synthesizer refuses it" in refused.complaint
    assert "move the folder away, keep it, and restore again" in refused.complaint

    perform(place, "old state", STATE=place.state)

    finish(place, panel)
    gatherer.done()


def test_a_lost_checkpoint_is_counted_again(new_place: NewPlace, perform: Perform) -> None:
    place = new_place("embedded")
    panel, gatherer, synthesizer = started(place)
    gatherer.kill()

    perform(place, "lost checkpoint", GATHERER_STATE=place.folder / "gatherer")

    finish(place, panel)
    synthesizer.done()


def test_an_embedded_study_can_be_moved(new_place: NewPlace, perform: Perform) -> None:
    place = new_place("embedded")
    panel = place.write_panel(random_symbols("01", place.parameters.people, 4, seed=3))
    roles = place.start("run")
    place.do("send", panel, "--through", 2, "--close")
    roles.says("period released period=2")
    assert roles.stop().code == 0

    perform(place, "move", LOG=place.folder / "log", STATE=place.state)

    finish(place, panel)


def test_a_study_that_is_over_is_purged(new_place: NewPlace, perform: Perform) -> None:
    place = new_place("embedded")
    panel, gatherer, synthesizer = started(place)
    finish(place, panel)
    gatherer.done()
    synthesizer.done()

    perform(place, "purge")

    assert place.topics.reports not in place.all_topics()


@pytest.mark.kafka
def test_gatherers_come_and_go_during_a_study(new_place: NewPlace) -> None:
    place = new_place("kafka")
    panel, first, synthesizer = started(place)
    others = [place.start("gather", "--state", place.folder / f"gatherer-{number}") for number in range(2)]
    for other in others:
        other.says("tallied")  # it has no checkpoint, so it counts a partition it is given from the start
    place.do("send", panel, "--period", 3, "--close")
    synthesizer.says("period released period=3")
    assert first.stop().code == 0
    others[0].kill()

    place.do("send", panel, "--period", 4, "--close")

    synthesizer.done()
    others[1].done()
    check_seen_once(place)
    place.do("verify")


def test_every_drill_is_performed_here() -> None:
    assert set(DRILLS) == {"lost disk", "old state", "lost checkpoint", "move", "purge"}
