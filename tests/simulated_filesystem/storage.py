"""The content of a simulated disk: what programs see, and what survives a power cut."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeAlias

SECTOR = 512
"""Size in bytes of the unit that a disk writes atomically."""


@dataclass(eq=False)
class StoredFile:
    """A file, whatever its names."""

    owner: int
    mode: int
    content: bytes = b""
    """What programs read."""
    kept: bytes = b""
    """What survives a power cut: the content at the last sync."""

    def cut(self, random: Random) -> None:
        """Simulate a power cut: each sector that was not synced is new, old or zeros, and the end may be missing."""
        if self.content != self.kept:
            outcome = random.randrange(4)
            if outcome == 0:
                self.content = self.kept
            elif outcome == 1:
                self.content = self.content[: random.randint(0, len(self.content))]
            elif outcome == 2:
                self.content = b"".join(self._sectors(random))
        self.kept = self.content

    def _sectors(self, random: Random) -> Iterator[bytes]:
        old = self.kept.ljust(len(self.content), b"\0")
        for start in range(0, len(self.content), SECTOR):
            part = slice(start, start + SECTOR)
            new = self.content[part]
            yield random.choice((new, old[part], bytes(len(new))))


@dataclass(eq=False)
class StoredFolder:
    """Names of files and folders."""

    owner: int
    mode: int
    entries: dict[str, Node] = field(default_factory=dict)
    """What programs see."""
    kept: dict[str, Node] = field(default_factory=dict)
    """What the disk holds for certain."""
    pending: list[Change] = field(default_factory=list)
    """Changes since the last sync. Each is atomic, and survives a power cut independently of the others."""

    def change(self, change: Change) -> None:
        """Add, replace and remove (None) names, all at once."""
        _apply(change, self.entries)
        self.pending.append(change)

    def sync(self) -> None:
        """Make what programs see survive a power cut."""
        self.kept, self.pending = dict(self.entries), []

    def cut(self, random: Random) -> None:
        """Simulate a power cut for this folder and everything in it."""
        for change in self.pending:
            if random.random() < 0.5:
                _apply(change, self.kept)
        self.entries, self.pending = dict(self.kept), []
        for node in self.entries.values():
            node.cut(random)


Node: TypeAlias = StoredFile | StoredFolder
Change: TypeAlias = dict[str, Node | None]


def _apply(change: Change, entries: dict[str, Node]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def copied(node: Node, known: dict[Node, Node] | None = None) -> Node:
    """Return a deep copy, including what is not synced."""
    known = {} if known is None else known
    if node not in known:
        if isinstance(node, StoredFile):
            known[node] = StoredFile(node.owner, node.mode, node.content, node.kept)
        else:
            copy = known[node] = StoredFolder(node.owner, node.mode)
            copy.entries = {name: copied(each, known) for name, each in node.entries.items()}
            copy.kept = {name: copied(each, known) for name, each in node.kept.items()}
            copy.pending = [
                {name: None if each is None else copied(each, known) for name, each in change.items()}
                for change in node.pending
            ]
    return known[node]


class Storage:
    """A tree of files."""

    def __init__(self, root: StoredFolder) -> None:
        self.root = root

    def node(self, path: Path) -> Node:
        """Return the file or folder at a path. Raises OSError."""
        node: Node = self.root
        for part in _parts(path):
            if not isinstance(node, StoredFolder):
                raise failure(errno.ENOTDIR)
            if part not in node.entries:
                raise failure(errno.ENOENT)
            node = node.entries[part]
        return node

    def file(self, path: Path) -> StoredFile:
        """The file of this name."""
        node = self.node(path)
        if not isinstance(node, StoredFile):
            raise failure(errno.EISDIR)
        return node

    def folder(self, path: Path) -> StoredFolder:
        """The folder of this name."""
        node = self.node(path)
        if not isinstance(node, StoredFolder):
            raise failure(errno.ENOTDIR)
        return node

    @property
    def used(self) -> int:
        """Bytes in all files that have a name."""
        return _size(self.root)


def failure(number: int) -> OSError:
    """Return the OSError that the operating system would raise."""
    return OSError(number, os.strerror(number))


def _size(node: Node) -> int:
    if isinstance(node, StoredFile):
        return len(node.content)
    return sum(_size(each) for each in node.entries.values())


def _parts(path: Path) -> tuple[str, ...]:
    return path.parts[1:] if path.anchor else path.parts
