"""Replays of the same people add up: with a site registry the second is refused, without one a line warns."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from streamproc.files.study_files import read_study
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.protocol.registry_format import Entry
from streamproc.service.registration import NOT_CHECKED, _entry
from streamproc.storage.clock import SystemClock
from streamproc.storage.site_registry import SiteRegistry
from tests.cli.conftest import Command
from tests.stream.programs import Programs
from tests.studies import study_toml, window_table


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteRegistry:
    """A site registry that is not there yet."""
    path = tmp_path / "registry"
    monkeypatch.setenv("STREAMPROC_REGISTRY", str(path))
    return SiteRegistry(path)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path / "study.toml")


def write_study(path: Path, name: str = "work", rho: float = 0.25) -> Path:
    path.write_text(study_toml(window_table("pairs", 2), name=name, rho=rho, broker={"url": "embedded:log"}))
    return path


def write_panel(path: Path, first: int = 0, last: int = 40) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["individual", 1, 2, 3])
        writer.writerows([f"person-{row}", row % 2, row // 2 % 2, 1] for row in range(first, last))
    return path


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    return write_panel(tmp_path / "panel.csv")


def entries(registry: SiteRegistry) -> tuple[Entry, ...]:
    found = registry.read()
    assert found is not None
    return found.entries


def test_a_second_replay_of_the_same_people_is_refused(
    streamproc: Command, registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path
) -> None:
    first = streamproc("replay", study, panel, "--out", tmp_path / "one")
    assert (first.code, first.complaint) == (0, f"created the site registry {registry.path}\n")
    assert registry.path.stat().st_mode & 0o777 == 0o600

    before, today = registry.path.read_bytes(), entries(registry)[0].time[:10]
    second = streamproc("replay", study, panel, "--out", tmp_path / "two")
    assert (second.code, second.complaint) == (
        3,
        f"streamproc: registry {registry.path}: this study or some of its people are in it already "
        f"(replay of work on {today}); the costs would add up to rho 0.5 (replace-one); --again accepts that\n",
    )
    assert not list((tmp_path / "two").iterdir())
    assert registry.path.read_bytes() == before


def test_again_accepts_it_and_shows_the_sum(
    streamproc: Command, registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path
) -> None:
    streamproc("replay", study, panel, "--out", tmp_path / "one")
    second = streamproc("replay", study, panel, "--out", tmp_path / "two", "--again")
    assert second.code == 0
    assert second.complaint.startswith("registry: 2 releases of the same people cost rho 0.5 (replace-one), epsilon ")
    assert [entry.again for entry in entries(registry)] == [False, True]

    found = json.loads(streamproc("status", study, "--json").out)["registry"]
    assert found == {
        "releases": 2,
        "adjacency": "replace-one",
        "rho": 0.5,
        "epsilon": epsilon_of_rho(0.5, 1e-6),
        "seeded": 0,
        "unknown": 0,
    }
    assert "registry: 2 releases of the same people cost rho 0.5 (replace-one), epsilon" in streamproc("status", study).out


def test_the_same_people_in_another_study_are_refused(
    streamproc: Command, registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path
) -> None:
    streamproc("replay", study, panel, "--out", tmp_path / "one")
    other, overlapping = write_study(tmp_path / "other.toml", "home", 0.5), write_panel(tmp_path / "some.csv", 39, 80)
    refused = streamproc("replay", other, overlapping, "--out", tmp_path / "two")
    assert (refused.code, "rho 0.75" in refused.complaint, "replay of work" in refused.complaint) == (3, True, True)
    strangers = write_panel(tmp_path / "strangers.csv", 40, 80)
    assert streamproc("replay", other, strangers, "--out", tmp_path / "two").code == 0


def test_under_zero_out_and_replace_one_the_replace_one_costs_add_up(
    streamproc: Command, registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path
) -> None:
    zero_out = write_study(tmp_path / "zero.toml", "zero")
    zero_out.write_text(zero_out.read_text().replace("rho = 0.25", 'rho = 0.25\nadjacency = "zero-out"'))
    streamproc("replay", zero_out, panel, "--out", tmp_path / "one")
    planned = json.loads(streamproc("plan", zero_out, "--json").out)["rho_replace_one"]
    alone = json.loads(streamproc("status", zero_out, "--json").out)["registry"]
    assert (alone["adjacency"], alone["rho"], alone["rho_replace_one"]) == ("zero-out", 0.25, planned)

    streamproc("replay", study, panel, "--out", tmp_path / "two", "--again")
    mixed = json.loads(streamproc("status", study, "--json").out)["registry"]
    assert (mixed["adjacency"], mixed["rho"]) == ("replace-one", pytest.approx(0.25 + planned))
    assert "rho_replace_one" not in mixed


def test_a_seeded_replay_is_registered_and_leaves_no_bound(
    streamproc: Command, registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path
) -> None:
    streamproc("replay", study, panel, "--out", tmp_path / "one", "--seed", 1)
    refused = streamproc("replay", study, panel, "--out", tmp_path / "two")
    assert refused.code == 3
    assert "add up without a bound" in refused.complaint
    streamproc("replay", study, panel, "--out", tmp_path / "two", "--again")
    found = json.loads(streamproc("status", study, "--json").out)["registry"]
    assert (found["releases"], found["rho"], found["epsilon"], found["seeded"]) == (2, None, None, 1)
    assert "without a bound, since 1 came from a seed" in streamproc("status", study).out


def test_repetitions_are_private_and_count_once(
    streamproc: Command, registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path
) -> None:
    assert streamproc("replay", study, panel, "--out", tmp_path / "one", "--repeat", 3).code == 0
    assert len(entries(registry)) == 1


def test_a_replay_says_how_many_streams_have_people_that_the_registry_cannot_recognise(
    streamproc: Command, registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path
) -> None:
    warning = "registry: 1 stream without a roster, whose people it cannot recognise, may add to the cost\n"
    elsewhere = read_study(write_study(tmp_path / "home.toml", "home"))
    registry.register(_entry(elsewhere, "stream", SystemClock().now(), insecure=False), None, again=False)
    assert streamproc("replay", study, panel, "--out", tmp_path / "one").complaint == warning
    again = streamproc("replay", study, panel, "--out", tmp_path / "two", "--again").complaint
    assert again.startswith("registry: 2 releases of the same people") and again.endswith(warning)
    assert warning in streamproc("status", study).out

    own = streamproc(
        "replay", tmp_path / "home.toml", write_panel(tmp_path / "strangers.csv", 40, 80), "--again", "--out", tmp_path
    )
    assert (own.code, "without a roster" in own.complaint) == (0, False)


def test_a_replay_is_registered_before_any_noise_is_drawn(
    streamproc: Command, registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> None:
        assert len(entries(registry)) == 1
        raise MemoryError

    monkeypatch.setattr("streamproc.cli.commands.replay.replay_study", fails)
    assert streamproc("replay", study, panel, "--out", tmp_path / "one").code == 1
    assert len(entries(registry)) == 1


def test_plan_and_status_register_nothing(
    streamproc: Command, registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path
) -> None:
    streamproc("plan", study)
    assert json.loads(streamproc("status", study, "--json").out)["registry"]["releases"] == 0
    assert "registry: holds nothing of this study" in streamproc("status", study).out
    assert not registry.path.exists()


def test_an_append_that_a_crash_cut_short_is_taken_off(
    streamproc: Command, registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path
) -> None:
    """The writing process was killed before it drew anything."""
    streamproc("replay", study, panel, "--out", tmp_path / "one")
    whole = registry.path.read_bytes()
    registry.path.write_bytes(whole + b'{"time":"2026-01-01T00:00:00Z","wh')
    strangers = write_panel(tmp_path / "strangers.csv", 40, 80)
    assert streamproc("replay", study, strangers, "--out", tmp_path / "two").code == 0
    assert registry.path.read_bytes().startswith(whole + b'{"time":')
    assert len(entries(registry)) == 2

    registry.path.write_bytes(b'{"registry":1,"ke')
    assert streamproc("replay", study, panel, "--out", tmp_path / "three").code == 0
    assert len(entries(registry)) == 1


def test_a_last_line_that_lacks_only_its_end_counts(
    streamproc: Command, registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path
) -> None:
    streamproc("replay", study, panel, "--out", tmp_path / "one")
    registry.path.write_bytes(registry.path.read_bytes()[:-1])
    assert streamproc("replay", study, panel, "--out", tmp_path / "two").code == 3
    assert streamproc("replay", study, panel, "--out", tmp_path / "two", "--again").code == 0
    assert len(entries(registry)) == 2


def test_a_damaged_line_is_refused_by_its_number_and_nothing_is_released(
    streamproc: Command, registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path
) -> None:
    streamproc("replay", study, panel, "--out", tmp_path / "one")
    lines = registry.path.read_bytes().splitlines(keepends=True)
    registry.path.write_bytes(lines[0] + b"person-1\n" + lines[1])
    for command in (("replay", study, panel, "--out", tmp_path / "two", "--again"), ("status", study)):
        ended = streamproc(*command)
        assert (ended.code, ended.complaint) == (
            3,
            f"streamproc: registry {registry.path}: line 2: is not a JSON object; put back a copy of the file in which all "
            "lines are whole\n",
        )
    assert not list((tmp_path / "two").iterdir())


def test_a_registry_that_cannot_be_used_is_the_users_mistake(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMPROC_REGISTRY", str(tmp_path / "no" / "such" / "file"))
    ended = streamproc("replay", study, panel, "--out", tmp_path / "one")
    assert (ended.code, "STREAMPROC_REGISTRY: " in ended.complaint) == (2, True)
    assert "No such file or directory" in ended.complaint


def test_of_two_processes_at_once_one_is_refused(registry: SiteRegistry, study: Path, panel: Path, tmp_path: Path) -> None:
    with Programs(tmp_path) as programs:
        ended = [programs.start("replay", study, panel, "--out", tmp_path / f"out-{place}") for place in range(2)]
        assert sorted(program.end().code for program in ended) == [0, 3]
    assert len(entries(registry)) == 1


def test_without_a_registry_the_line_comes_before_any_noise_is_drawn(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr("streamproc.cli.commands.replay.replay_study", fails)
    ended = streamproc("replay", study, panel, "--out", tmp_path / "one")
    assert (ended.code, ended.complaint.splitlines()[0]) == (1, NOT_CHECKED)


def test_without_a_registry_a_line_says_what_nobody_checks(
    streamproc: Command, study: Path, panel: Path, tmp_path: Path
) -> None:
    assert streamproc("replay", study, panel, "--out", tmp_path / "one").complaint == f"{NOT_CHECKED}\n"
    assert streamproc("replay", study, panel, "--out", tmp_path / "two", "--again").complaint == ""
    assert streamproc("replay", study, panel, "--out", tmp_path / "three", "--seed", 1).complaint == ""
    assert "registry" not in json.loads(streamproc("status", study, "--json").out)
