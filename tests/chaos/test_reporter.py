"""The reporter of chaos does not wait for a client that has given up."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.chaos import reporter
from tests.free_ports import free_ports


def test_a_reporter_to_which_nothing_comes_back_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "messages").write_text("0 0 6b 76\n")
    arguments = [
        f"127.0.0.1:{free_ports(1)[0]}",
        "t.reports",
        str(tmp_path / "messages"),
        str(tmp_path / "acknowledged"),
        "100",
    ]
    begun: list[list[str]] = []

    def execv(program: str, command: list[str]) -> None:
        begun.append(command)
        raise SystemExit

    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(sys, "argv", ["reporter", *arguments])
    monkeypatch.setattr(reporter, "STALLED", 0.1)
    with pytest.raises(SystemExit):
        reporter.main(*arguments)
    assert begun == [[sys.executable, "-m", "tests.chaos.reporter", *arguments]]
