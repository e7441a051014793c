"""State folders that no role may go on with: exit 3, one line, and nothing is written anywhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from streamproc.protocol.state_file import MAGIC, STATE_VERSION, seal, unseal
from tests.storage.conftest import Mount
from tests.stream.conftest import DeployStudy
from tests.stream.deployed_study import DeployedStudy, random_symbols

FILES = {"synthesize": ("synthesizer.state", "synthesizer.settled"), "gather": ("gather-0.state",)}
"""What each role reads of the state folder."""

FINGERPRINT = slice(len(MAGIC) + 2, len(MAGIC) + 2 + 32)


@pytest.fixture(scope="module")
def waiting(shared_study: DeployStudy) -> DeployedStudy:
    """Two of three periods are released. The third is closed and tallied, so that a role that starts finds work."""
    deployed = shared_study("embedded", horizon=3, partitions=1, people=3_000)
    panel = deployed.write_panel(random_symbols("01", 3_000, 3, seed=41))
    roles = deployed.start("run")
    deployed.do("send", panel, "--through", 2, "--close")
    roles.says("period released period=2")
    assert roles.stop().code == 0
    deployed.do("send", panel, "--period", 3, "--close")
    elsewhere = deployed.start("gather", "--state", deployed.folder / "elsewhere")
    elsewhere.says("tallied partition=0 period=3")
    assert elsewhere.stop().code == 0
    return deployed


@pytest.fixture
def deployed(waiting: DeployedStudy, tmp_path: Path) -> DeployedStudy:
    """A copy of it, to be spoilt."""
    copy = DeployedStudy(tmp_path / "copy", waiting.url, waiting.parameters, waiting.programs)
    shutil.copytree(waiting.folder, copy.folder)
    return copy


def everything(deployed: DeployedStudy) -> dict[str, object]:
    """Every record of every topic, committed or not, and every file of the state folder with its permissions."""
    topics: dict[str, object] = {topic: deployed.records(topic, committed=False) for topic in deployed.all_topics()}
    files = {str(path): (path.read_bytes(), path.stat().st_mode, path.stat().st_uid) for path in deployed.state.iterdir()}
    return topics | files


def check_refused(deployed: DeployedStudy, role: str, why: str) -> None:
    before = everything(deployed)
    ended = deployed.start(role).end()
    assert (ended.code, ended.out) == (3, ""), ended.complaint
    connected, *steps, line = ended.complaint.splitlines()
    assert f"study={deployed.parameters.name} connected " in connected
    assert [step for step in steps if " partition " not in step] == []
    assert line.startswith(("streamproc: state ", "streamproc: cannot "))
    assert why in line
    assert everything(deployed) == before


def check_goes_on(deployed: DeployedStudy, role: str) -> None:
    """The role does the work that is waiting."""
    before = everything(deployed)
    if role == "synthesize":
        deployed.start(role).done()
        assert deployed.status()["released"] == 3
    else:
        gatherer = deployed.start(role)
        gatherer.says("tallied partition=0 period=3")
        assert gatherer.stop().code == 0
        assert len(deployed.values(deployed.topics.tallies)) > len(before[deployed.topics.tallies])  # type: ignore[arg-type]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]


def of_version(number: int, content: bytes) -> bytes:
    return content[: len(MAGIC)] + number.to_bytes(2) + content[len(MAGIC) + 2 :]


def of_another_study(content: bytes) -> bytes:
    return seal(bytes(32), bytes(unseal(content, content[FINGERPRINT])))


SPOILT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a flipped bit": (flipped, "damaged (its checksum does not match)"),
    "the first half": (lambda content: content[: len(content) // 2], "damaged (its checksum does not match)"),
    "nothing": (lambda content: b"", "not a state file"),
    "a newer version": (
        lambda content: of_version(STATE_VERSION + 1, content),
        f"version {STATE_VERSION + 1} is unknown; this program knows {STATE_VERSION}",
    ),
    "another study's": (of_another_study, "belongs to another study"),
}


ALIKE = [("synthesizer.settled", spoilt) for spoilt in ("the first half", "nothing", "a newer version")]
"""Left to the longer run: these are found as in the other files."""

CASES = [(role, file, spoilt) for role, files in FILES.items() for file in files for spoilt in SPOILT]


@pytest.mark.parametrize(
    ("role", "file", "spoilt"),
    [pytest.param(*case, marks=pytest.mark.slow if case[1:] in ALIKE else ()) for case in CASES],
)
def test_a_file_that_is_not_what_was_written_is_refused(deployed: DeployedStudy, role: str, file: str, spoilt: str) -> None:
    spoil, why = SPOILT[spoilt]
    path = deployed.state / file
    path.write_bytes(spoil(path.read_bytes()))

    check_refused(deployed, role, f"state file {file}: state: {why}")


def test_no_gatherer_works_beside_a_synthesizer_that_is_refused(deployed: DeployedStudy) -> None:
    path = deployed.state / "synthesizer.state"
    path.write_bytes(flipped(path.read_bytes()))

    check_refused(deployed, "run", "state file synthesizer.state: state: damaged")


@pytest.mark.parametrize("role", FILES)
def test_what_is_not_spoilt_goes_on(deployed: DeployedStudy, role: str) -> None:
    check_goes_on(deployed, role)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away; simulated in test_state_folder.py")
@pytest.mark.parametrize("role", FILES)
@pytest.mark.parametrize("whose", ["folder", "file"])
def test_a_folder_or_file_of_somebody_else_is_refused(deployed: DeployedStudy, role: str, whose: str) -> None:
    path = deployed.state if whose == "folder" else deployed.state / FILES[role][0]
    os.chown(path, 12345, 12345)

    check_refused(deployed, role, "belongs to user 12345, but this process runs as user 0. Run it as the owner")


@pytest.mark.parametrize("role", FILES)
def test_a_read_only_folder_is_refused(deployed: DeployedStudy, role: str, make_read_only: Callable[[Path], None]) -> None:
    make_read_only(deployed.state)

    reason = "Read-only file system" if os.geteuid() == 0 else "Permission denied"
    check_refused(deployed, role, f"{deployed.state}: {reason}. Fix this and restart.")


@pytest.mark.parametrize("role", FILES)
def test_a_full_disk_is_refused(deployed: DeployedStudy, role: str, small_disk: Mount) -> None:
    small_disk(deployed.state, 0)

    check_refused(
        deployed, role, f"cannot use state folder {deployed.state}: No space left on device. Fix this and restart."
    )


def test_a_draw_for_which_there_is_no_room_never_leaves(deployed: DeployedStudy, small_disk: Mount) -> None:
    small_disk(deployed.state, 2)
    before = everything(deployed)

    ended = deployed.start("synthesize").end()

    assert ended.code == 3
    complaint = ended.complaint.splitlines()[-1]
    assert "cannot write state file" in complaint
    assert "synthesizer.state: No space left on device. Fix this and restart." in complaint
    assert everything(deployed) == before


def test_a_gatherer_without_room_for_its_checkpoint_goes_on_when_there_is(
    deployed: DeployedStudy, small_disk: Mount
) -> None:
    small_disk(deployed.state, 2)
    before = everything(deployed)

    ended = deployed.start("gather").end()

    assert ended.code == 3
    assert "gather-0.state: No space left on device" in ended.complaint.splitlines()[-1]
    after = everything(deployed)
    tallies = deployed.topics.tallies
    assert {name: found for name, found in after.items() if before[name] != found}.keys() == {tallies}
    assert set(deployed.values(tallies)) == {record.value for record in before[tallies]}  # type: ignore[attr-defined]
