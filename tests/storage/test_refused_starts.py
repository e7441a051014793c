"""State folders that no role may go on with: exit 3, one line, and nothing is written anywhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from streamproc.protocol.state_file import MAGIC, STATE_VERSION, seal, unseal
from tests.storage.conftest import Mount
from tests.stream.conftest import NewPlace
from tests.stream.places import Place, random_symbols

FILES = {"synthesize": ("synthesizer.state", "synthesizer.settled"), "gather": ("gather-0.state",)}
"""What each role reads of the state folder."""

FINGERPRINT = slice(len(MAGIC) + 2, len(MAGIC) + 2 + 32)


@pytest.fixture(scope="module")
def waiting(shared_place: NewPlace) -> Place:
    """Two of three periods are released. The third is closed and tallied, so that a role that starts finds work."""
    place = shared_place("embedded", horizon=3, partitions=1, people=3_000)
    panel = place.write_panel(random_symbols("01", 3_000, 3, seed=41))
    roles = place.start("run")
    place.do("send", panel, "--through", 2, "--close")
    roles.says("period released period=2")
    assert roles.stop().code == 0
    place.do("send", panel, "--period", 3, "--close")
    elsewhere = place.start("gather", "--state", place.folder / "elsewhere")
    elsewhere.says("tallied partition=0 period=3")
    assert elsewhere.stop().code == 0
    return place


@pytest.fixture
def place(waiting: Place, tmp_path: Path) -> Place:
    """A copy of it, to be spoilt."""
    copy = Place(tmp_path / "copy", waiting.url, waiting.parameters, waiting.programs)
    shutil.copytree(waiting.folder, copy.folder)
    return copy


def everything(place: Place) -> dict[str, object]:
    """Every record of every topic, committed or not, and every file of the state folder with its permissions."""
    topics: dict[str, object] = {topic: place.records(topic, committed=False) for topic in place.all_topics()}
    files = {str(path): (path.read_bytes(), path.stat().st_mode, path.stat().st_uid) for path in place.state.iterdir()}
    return topics | files


def check_refused(place: Place, role: str, why: str) -> None:
    before = everything(place)
    ended = place.start(role).end()
    assert (ended.code, ended.out) == (3, ""), ended.complaint
    connected, *steps, line = ended.complaint.splitlines()
    assert f"study={place.parameters.name} connected " in connected
    assert [step for step in steps if " partition " not in step] == []
    assert line.startswith(("streamproc: state ", "streamproc: cannot "))
    assert why in line
    assert everything(place) == before


def check_goes_on(place: Place, role: str) -> None:
    """The role does the work that is waiting."""
    before = everything(place)
    if role == "synthesize":
        place.start(role).done()
        assert place.status()["released"] == 3
    else:
        gatherer = place.start(role)
        gatherer.says("tallied partition=0 period=3")
        assert gatherer.stop().code == 0
        assert len(place.values(place.topics.tallies)) > len(before[place.topics.tallies])  # type: ignore[arg-type]


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
        f"version {STATE_VERSION + 1} is unknown; this program knows 1 to {STATE_VERSION}",
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
def test_a_file_that_is_not_what_was_written_is_refused(place: Place, role: str, file: str, spoilt: str) -> None:
    spoil, why = SPOILT[spoilt]
    path = place.state / file
    path.write_bytes(spoil(path.read_bytes()))

    check_refused(place, role, f"state file {file}: state: {why}")


def test_no_gatherer_works_beside_a_synthesizer_that_is_refused(place: Place) -> None:
    path = place.state / "synthesizer.state"
    path.write_bytes(flipped(path.read_bytes()))

    check_refused(place, "run", "state file synthesizer.state: state: damaged")


@pytest.mark.parametrize("role", FILES)
def test_what_is_not_spoilt_goes_on(place: Place, role: str) -> None:
    check_goes_on(place, role)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away; simulated in test_state_folder.py")
@pytest.mark.parametrize("role", FILES)
@pytest.mark.parametrize("whose", ["folder", "file"])
def test_a_folder_or_file_of_somebody_else_is_refused(place: Place, role: str, whose: str) -> None:
    path = place.state if whose == "folder" else place.state / FILES[role][0]
    os.chown(path, 12345, 12345)

    check_refused(place, role, "belongs to user 12345, but this process runs as user 0. Run it as the owner")


@pytest.mark.parametrize("role", FILES)
def test_a_read_only_folder_is_refused(place: Place, role: str, make_read_only: Callable[[Path], None]) -> None:
    make_read_only(place.state)

    reason = "Read-only file system" if os.geteuid() == 0 else "Permission denied"
    check_refused(place, role, f"{place.state}: {reason}. Fix this and restart.")


@pytest.mark.parametrize("role", FILES)
def test_a_full_disk_is_refused(place: Place, role: str, small_disk: Mount) -> None:
    small_disk(place.state, 0)

    check_refused(place, role, f"cannot use state folder {place.state}: No space left on device. Fix this and restart.")


def test_a_draw_for_which_there_is_no_room_never_leaves(place: Place, small_disk: Mount) -> None:
    small_disk(place.state, 2)
    before = everything(place)

    ended = place.start("synthesize").end()

    assert ended.code == 3
    complaint = ended.complaint.splitlines()[-1]
    assert "cannot write state file" in complaint
    assert "synthesizer.state: No space left on device. Fix this and restart." in complaint
    assert everything(place) == before


def test_a_gatherer_without_room_for_its_checkpoint_goes_on_when_there_is(place: Place, small_disk: Mount) -> None:
    small_disk(place.state, 2)
    before = everything(place)

    ended = place.start("gather").end()

    assert ended.code == 3
    assert "gather-0.state: No space left on device" in ended.complaint.splitlines()[-1]
    after = everything(place)
    tallies = place.topics.tallies
    assert {name: found for name, found in after.items() if before[name] != found}.keys() == {tallies}
    assert set(place.values(tallies)) == {record.value for record in before[tallies]}  # type: ignore[attr-defined]
