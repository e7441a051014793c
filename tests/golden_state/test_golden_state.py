"""State folders of every version there ever was can be gone on with, to the bytes that were bound to come out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamproc.files.study_files import read_roster, read_study
from streamproc.gatherer.logic import PartitionContext as GatheringPlace
from streamproc.gatherer.worker import Gatherer, GathererPorts
from streamproc.protocol.control import Key, decode_control
from streamproc.protocol.state_file import STATE_VERSION
from streamproc.storage.clock import SystemClock
from streamproc.synthesizer.checkpoint import (
    PUBLISHED_MARK_FILE,
    STATE_FILE,
    mark_published,
    read_checkpoint,
    write_checkpoint,
)
from streamproc.testing import SimulatedBroker, SimulatedLog
from tests.forged import rechained
from tests.golden_state.recorded_study import (
    HERE,
    SEED,
    STUDIES,
    Records,
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

GOLDEN = [folder for version in versions() for folder in sorted(version.iterdir())]
TODAY = HERE / f"v{STATE_VERSION}"


def test_every_version_has_its_golden_state() -> None:
    assert [version.name for version in versions()] == [f"v{number}" for number in range(1, STATE_VERSION + 1)]
    assert {folder.name for folder in GOLDEN} == {parameters.name for parameters in STUDIES}


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_study_goes_on_from_a_golden_state_to_the_bytes_that_were_bound_to_come(
    golden: Path, tmp_path: Path, programs: Programs
) -> None:
    deployed = set_up(golden, tmp_path, programs)
    assert deployed.status()["released"] == 2

    deployed.start("run", "--until-done", "--seed", SEED).done()

    assert without_salt(deployed, records(deployed, public_topics(deployed))) == without_salt(deployed, released(golden))


def without_salt(deployed: DeployedStudy, found: Records) -> Records:
    """The ledger with period records that have no salt: those of versions 1 and 2 were written without."""
    values = [bytes.fromhex(value) for [*_, value] in found[deployed.topics.ledger][0] if value is not None]
    plain = rechained(values, lambda record: replace(record, salt=None))
    return {**found, deployed.topics.ledger: [[(None, value.hex()) for value in plain]]}


@pytest.mark.parametrize("parameters", STUDIES, ids=lambda parameters: parameters.name)
def test_what_is_written_today_has_the_layout_of_its_version(parameters: object) -> None:
    """A file that is read and written again is the same to the byte; a new layout needs a new version."""
    folder = TODAY / parameters.name  # type: ignore[attr-defined]
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
