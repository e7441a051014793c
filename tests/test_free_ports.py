"""Servers of tests get ports that nobody else is given."""

from __future__ import annotations

import socket

import pytest

from tests import free_ports as module
from tests.free_ports import free_ports


def test_free_ports_are_different_free_and_not_the_systems_to_give() -> None:
    first, last = map(int, module.RANGE.read_text().split())
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert not any(first <= port <= last for port in ports)
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_a_port_that_somebody_has_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    (port, other) = free_ports(2)
    monkeypatch.setattr(module, "SystemRandom", lambda: _Ordered([port, other]))
    with socket.create_server(("127.0.0.1", port)):
        assert free_ports(1) == [other]


class _Ordered:
    def __init__(self, ports: list[int]) -> None:
        self._ports = ports

    def sample(self, named: list[int], count: int) -> list[int]:
        return self._ports


def test_where_the_system_gives_all_ports_one_of_those_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", 65_536)
    assert free_ports(1)[0] > 0
