"""Where a simulated file system can be made to fail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from tests.simulated_filesystem.filesystem import SimulatedFileSystem

Step: TypeAlias = Literal[
    "create", "write", "sync_file", "rename", "sync_folder", "make_folder", "read", "names",
    "status", "set_mode", "remove", "remove_folder", "sweep", "lock",
]  # fmt: skip
"""The steps of a `FileSystem`; `write` is one to a file that `create_temporary` opened."""

CHANGES: tuple[Step, ...] = (
    "create", "write", "sync_file", "rename", "sync_folder", "make_folder",
    "set_mode", "remove", "remove_folder", "sweep", "lock",
)  # fmt: skip
"""Steps that have an effect."""


class FileFaults:
    """Asked around every step of one process; this one lets everything pass.

    A subclass may raise an OSError, or end the process with `kill`, or the machine with `power_cut`.
    """

    def before(self, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        """Nothing has happened yet."""

    def inside(self, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        """A part of what is written is there; only in a `write`."""

    def after(self, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        """The effect is there, the process has not heard of it."""
