"""Servers of tests get ports that nobody else is given."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import free_ports as module
from tests.free_ports import free_ports

ROOT = Path(__file__).parents[1]


def test_free_ports_are_different_free_and_not_the_systems_to_give() -> None:
    first, last = map(int, module.RANGE.read_text().split())
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert not any(first <= port <= last for port in ports)
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_a_port_that_somebody_has_is_not_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (port, other) = free_ports(2)
    monkeypatch.setattr(module, "CLAIMS", tmp_path / "nobody's yet")
    monkeypatch.setattr(module, "SystemRandom", lambda: _Ordered([port, other]))
    with socket.create_server(("127.0.0.1", port)):
        assert free_ports(1) == [other]


def test_a_port_that_was_given_is_not_given_again_here_or_in_another_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Though nobody listens on it yet, or for a while."""
    (port,) = free_ports(1)
    monkeypatch.setattr(module, "SystemRandom", lambda: _Ordered([port]))
    assert free_ports(1) != [port]
    assert not _given_elsewhere(port, module.CLAIMS.parent)
    assert _given_elsewhere(port, tmp_path)  # to a process that does not know of the claim


def _given_elsewhere(port: int, temporary: Path) -> bool:
    asked = f"from tests import free_ports as f; f.LEAST = f.MOST = {port}; print({port} in f.free_ports(1))"
    environ = os.environ | {"TMPDIR": str(temporary)}
    program = [sys.executable, "-c", asked]
    answer = subprocess.run(program, check=True, capture_output=True, text=True, cwd=ROOT, env=environ, timeout=60)
    return answer.stdout == "True\n"


class _Ordered:
    def __init__(self, ports: list[int]) -> None:
        self._ports = ports

    def sample(self, named: list[int], count: int) -> list[int]:
        return self._ports


def test_where_the_system_gives_all_ports_one_of_those_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", 65_536)
    assert free_ports(1)[0] > 0
