"""Run the command line in this process, as a script would meet it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from streamproc.cli import app


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    complaint: str


Command = Callable[..., Ended]


@pytest.fixture
def streamproc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`streamproc ARGUMENTS...`: its exit code, standard output and standard error."""

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["streamproc", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return Ended(code or 0, *capsys.readouterr())

    return run
