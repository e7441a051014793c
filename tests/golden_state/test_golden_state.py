"""Studies go on from state folders of this version to the bytes that were bound to come out; those of 0.1 are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamproc.errors import StateFileUnusable
from streamproc.files.study_files import read_roster, read_study
from streamproc.gatherer.logic import PartitionContext as GatheringPlace
from streamproc.gatherer.worker import Gatherer, GathererPorts
from streamproc.protocol.control import Key, decode_control
from streamproc.protocol.state_file import STATE_VERSION
from streamproc.releases.contracts import KINDS
from streamproc.storage.clock import SystemClock
from streamproc.synthesizer.checkpoint import (
    PUBLISHED_MARK_FILE,
    STATE_FILE,
    local_state,
    mark_published,
    read_checkpoint,
    write_checkpoint,
)
from streamproc.testing import SimulatedBroker, SimulatedLog
from tests.golden_state.recorded_study import (
    HERE,
    SEED,
    STUDIES,
    public_topics,
    records,
    released,
    set_up,
    versions,
)
from tests.stream.deployed_study import DeployedStudy
from tests.stream.programs import Programs
from tests.stream_model.memory_folder import MemoryStateFolder
from tests.stream_model.simulated_study import RecordingObserver
from tests.studies import StudyParameters

EVERY = [folder for version in versions() for folder in sorted(version.iterdir())]
TODAY = HERE / f"v{STATE_VERSION}"
OF_VERSION_0_1 = [folder for folder in EVERY if folder.parent.name in ("v1", "v2", "v3")]
GOLDEN = [folder for folder in EVERY if folder not in OF_VERSION_0_1]


def golden_id(folder: Path) -> str:
    return f"{folder.parent.name}-{folder.name}"


def test_every_version_has_its_golden_state() -> None:
    assert [version.name for version in versions()] == [f"v{number}" for number in range(1, STATE_VERSION + 1)]
    names = sorted(parameters.name for parameters in STUDIES)
    assert [golden_id(folder) for folder in EVERY] == [f"{version.name}-{name}" for version in versions() for name in names]


@pytest.mark.parametrize("parameters", STUDIES, ids=lambda parameters: parameters.name)
def test_every_kind_of_release_is_in_the_golden_state_of_today(parameters: StudyParameters) -> None:
    study = read_study(TODAY / parameters.name / "study.toml")
    assert {(release.kind, release.measure) for release in study.releases} == set(KINDS)


REFUSED_COMMANDS: dict[str, tuple[object, ...]] = {
    "status": (),
    "verify": (),
    "watch": (),
    "pull": ("--out", "public"),
    "close": ("--period", 3),
    "gather": (),
    "synthesize": ("--seed", SEED),
    "run": ("--until-done", "--seed", SEED),
}


@pytest.mark.parametrize("golden", OF_VERSION_0_1, ids=golden_id)
def test_a_study_begun_with_version_0_1_is_refused_in_one_line_and_left_as_it_is(
    golden: Path, tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    deployed = set_up(golden, tmp_path, programs)
    before, topics = state_files(deployed), sorted(deployed.all_topics())
    written = records(deployed, topics)
    line = f"streamproc: study {golden.name}: it was begun with version 0.1 of streamproc; finish it with version 0.1"

    for command, arguments in REFUSED_COMMANDS.items():
        ended = deployed.call(command, *arguments)
        assert (command, ended.code, ended.complaint.splitlines()[-1]) == (command, 3, line)
        assert [said for said in ended.complaint.splitlines() if said.startswith("streamproc:")] == [line]
    assert state_files(deployed) == before
    assert records(deployed, topics) == written

    shutil.rmtree(deployed.state)
    ended = deployed.call("restore")
    assert (ended.code, ended.complaint) == (3, f"{line}\n")
    assert records(deployed, topics) == written


def state_files(deployed: DeployedStudy) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in deployed.state.iterdir() if path.suffix != ".lock"}


@pytest.mark.parametrize("golden", OF_VERSION_0_1, ids=golden_id)
def test_a_state_file_of_version_0_1_names_the_version_that_goes_on_with_it(golden: Path) -> None:
    """Also if the ledger is that of a study of today, and the folder was put there by mistake."""
    files = MemoryStateFolder({path.name: path.read_bytes() for path in (golden / "state").iterdir()})
    stored = read_checkpoint(MemoryStateFolder(today_files()), today_files()[STATE_FILE][6:38])
    study = read_study(TODAY / "first" / "study.toml")
    ports = GathererPorts(SimulatedLog(SimulatedBroker(SystemClock())), files, SystemClock())
    gatherers = [Gatherer(study, partition, None, ports, RecordingObserver()) for partition in (0, 1)]
    attempts: dict[str, Callable[[], object]] = {
        STATE_FILE: lambda: read_checkpoint(files, bytes(32)),
        PUBLISHED_MARK_FILE: lambda: local_state(files, bytes(32), stored),
        "gather-0.state": lambda: gatherers[0]._resume(GatheringPlace(study, 0, bytes(32)), bytes(32)),
        "gather-1.state": lambda: gatherers[1]._resume(GatheringPlace(study, 1, bytes(32)), bytes(32)),
    }
    assert attempts.keys() == files.files.keys()
    for name, attempt in attempts.items():
        with pytest.raises(StateFileUnusable) as refused:
            attempt()
        reason = "a study that was begun with version 0.1 of streamproc is finished with version 0.1"
        assert str(refused.value) == f"state file {name}: {reason}"


def today_files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (TODAY / "first" / "state").iterdir()}


@pytest.mark.parametrize("golden", GOLDEN, ids=golden_id)
def test_a_study_goes_on_from_a_golden_state_to_the_bytes_that_were_bound_to_come(
    golden: Path, tmp_path: Path, programs: Programs
) -> None:
    deployed = set_up(golden, tmp_path, programs)
    assert deployed.status()["released"] == 2

    deployed.start("run", "--until-done", "--seed", SEED).done()

    assert records(deployed, public_topics(deployed)) == released(golden)


@pytest.mark.parametrize("parameters", STUDIES, ids=lambda parameters: parameters.name)
def test_what_is_written_today_has_the_layout_of_its_version(parameters: StudyParameters) -> None:
    """A file that is read and written again is the same to the byte; a new layout needs a new version."""
    folder = TODAY / parameters.name
    files = {path.name: path.read_bytes() for path in (folder / "state").iterdir()}
    study = read_study(folder / "study.toml")
    roster = None if study.population.roster is None else read_roster(folder / study.population.roster)
    mark = files[STATE_FILE][6:38]
    again = MemoryStateFolder()

    stored = read_checkpoint(MemoryStateFolder(files), mark)
    assert stored is not None
    write_checkpoint(again, mark, stored)
    mark_published(again, mark, stored.pending)
    log = SimulatedLog(SimulatedBroker(SystemClock()))
    for partition in range(study.broker.partitions):
        deployed = GatheringPlace(study, partition, key_of(folder), roster)
        reader = Gatherer(
            study, partition, roster, GathererPorts(log, MemoryStateFolder(files), SystemClock()), RecordingObserver()
        )
        writer = Gatherer(study, partition, roster, GathererPorts(log, again, SystemClock()), RecordingObserver())
        gathering, position, topic, rejects = reader._resume(deployed, mark)
        assert topic is not None
        writer._save(deployed, mark, gathering, position, topic, SimpleNamespace(position=rejects))

    assert again.files.keys() == files.keys() == {STATE_FILE, PUBLISHED_MARK_FILE, "gather-0.state", "gather-1.state"}
    assert again.files == files


def key_of(folder: Path) -> bytes:
    """The study's, which is in its control topic."""
    control = json.loads((folder / "topics.json").read_text())[f"{folder.name}.control"][0]
    key = decode_control(bytes.fromhex(control[0][1]))
    assert isinstance(key, Key)
    return key.key
