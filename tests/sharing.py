"""How test processes share the work: files whole, and folders whole whose tests share costly servers."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

FOLDERS = ("tests/containers/", "tests/status_page/", "tests/security/")
"""In each all tests use the same containers, browser or broker. In two processes there would be two of them."""


class SharedServers(LoadFileScheduling):  # type: ignore[misc]
    """Gives a process a file at a time, or one of those folders."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in FOLDERS if nodeid.startswith(folder)), str(super()._split_scope(nodeid)))


def longest_first(items: list[pytest.Item]) -> None:
    """So that no process is left alone with what takes long: folders with servers, then files with some, then the rest."""
    served = {item.path for item in items if any(map(item.get_closest_marker, ("kafka", "browser", "prometheus")))}

    def rank(item: pytest.Item) -> int:
        for place, folder in enumerate(FOLDERS):
            if item.nodeid.startswith(folder):
                return place
        return len(FOLDERS) + (item.path not in served)

    items.sort(key=rank)
