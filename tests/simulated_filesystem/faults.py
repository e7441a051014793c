"""Hooks to inject faults into a simulated file system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from tests.simulated_filesystem.filesystem import SimulatedFileSystem

Step: TypeAlias = Literal[
    "create", "write", "sync_file", "rename", "sync_folder", "make_folder", "read", "names",
    "status", "set_mode", "remove", "remove_folder", "sweep", "lock",
]  # fmt: skip
"""The steps of a `FileSystem`; `write` is a write to a file that `create_temporary` opened."""

CHANGES: tuple[Step, ...] = (
    "create", "write", "sync_file", "rename", "sync_folder", "make_folder",
    "set_mode", "remove", "remove_folder", "sweep", "lock",
)  # fmt: skip
"""Steps that have an effect."""


class FileFaults:
    """Hooks around every step of one process. This class injects no fault.

    A subclass may raise an OSError, or end the process with `kill`, or the machine with `power_cut`.
    """

    def before(self, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        """Called before the step has an effect."""

    def inside(self, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        """Called in a `write` when part of the data is written."""

    def after(self, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        """Called after the step had its effect and before the process gets the result."""
