"""What the site registry takes for a restart of a stream, and which files it leaves as they are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamproc.errors import Refused
from streamproc.protocol.registry_format import encode_header
from streamproc.service.registration import _entry, composition_of, register_replay
from streamproc.storage.site_registry import Registration, SiteRegistry
from streamproc.study import WindowRelease
from tests.stream_model.report_sequences import small_study

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STUDY = small_study(WindowRelease("w", 1), rho=0.5)
OTHER = replace(STUDY, name="other")
SOME, OTHERS = ([f"{name}{number}" for number in range(50)] for name in "ab")


@pytest.fixture
def registry(tmp_path: Path) -> SiteRegistry:
    """A site registry that is not there yet."""
    return SiteRegistry(tmp_path / "registry")


def replay(registry: SiteRegistry, people: list[str]) -> Registration:
    return register_replay(registry, OTHER, people, NOW, insecure=False, again=False)


def stream(registry: SiteRegistry, people: list[str] | None, *, insecure: bool = False, again: bool = False) -> Registration:
    entry = _entry(STUDY, "stream", NOW, insecure=insecure)
    return registry.register(entry, people, control_key=bytes(32), again=again)


def lines(registry: SiteRegistry) -> int:
    return len(registry.path.read_bytes().splitlines())


def test_a_stream_that_starts_with_another_roster_is_checked_and_entered(registry: SiteRegistry) -> None:
    replay(registry, OTHERS)
    assert not stream(registry, SOME).restarted
    with pytest.raises(Refused, match="replay of other on 2026-01-01"):
        stream(registry, OTHERS)
    assert not stream(registry, OTHERS, again=True).restarted
    assert composition_of(registry, OTHER)[0].rho == 1.0
    for people in (SOME, OTHERS):
        assert stream(registry, people).restarted
    assert lines(registry) == 4


def test_a_stream_that_starts_with_a_seed_after_a_start_without_one_is_checked_and_entered(registry: SiteRegistry) -> None:
    assert not stream(registry, SOME).restarted
    with pytest.raises(Refused, match="add up without a bound"):
        stream(registry, SOME, insecure=True)
    stream(registry, SOME, insecure=True, again=True)
    assert composition_of(registry, STUDY)[0].rho is None
    assert lines(registry) == 3


def test_a_stream_whose_people_are_unknown_is_restarted(registry: SiteRegistry) -> None:
    assert not stream(registry, None).restarted
    assert stream(registry, None).restarted
    with pytest.raises(Refused):
        stream(registry, SOME)


@pytest.mark.parametrize("content", [b"the-operator-token-without-a-line-end", b"a token\n", b"{}", bytes(8)])
def test_a_file_that_is_no_registry_is_left_as_it_is(registry: SiteRegistry, content: bytes) -> None:
    registry.path.write_bytes(content)
    registry.path.chmod(0o600)
    with pytest.raises(Refused, match="registry: line 1: .*; let STREAMPROC_REGISTRY name another file, or put back"):
        replay(registry, SOME)
    with pytest.raises(Refused, match="line 1"):
        registry.read()
    assert registry.path.read_bytes() == content


@pytest.mark.parametrize("length", [0, 1, 40])
def test_an_empty_file_and_the_beginning_of_a_first_line_become_a_registry(registry: SiteRegistry, length: int) -> None:
    registry.path.write_bytes(encode_header(bytes(range(32)))[:length])
    registry.path.chmod(0o600)
    assert replay(registry, SOME).created
    assert lines(registry) == 2
