"""Who asks for JSON is a program: nothing is said to people beside it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from streamproc.privacy.types import Period
from tests.cli.conftest import Command, Ended


def test_status_of_a_study_that_has_not_begun(streamproc: Command, small_study: Path) -> None:
    ended = streamproc("status", small_study, "--json")
    assert (ended.code, json.loads(ended.out)["released"], ended.complaint) == (0, 0, "")
    assert streamproc("status", small_study).complaint == "embedded:small: holds no ledger of small yet\n"


def test_watch_while_it_waits(streamproc: Command, small_study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing_yet(
        *asked: object, waits: Callable[[Mapping[str, Period]], None] | None, **named: object
    ) -> AsyncIterator[object]:
        if waits is not None:
            waits({"pairs": Period(2)})
        columns: tuple[object, ...] = ()
        for column in columns:
            yield column

    monkeypatch.setattr("streamproc.cli.commands.watch.subscribe", nothing_yet)
    assert streamproc("watch", small_study, "--json") == Ended(0, "", "")
    assert streamproc("watch", small_study).complaint == "embedded:small: waiting for period 2 of pairs; Ctrl-C ends\n"
