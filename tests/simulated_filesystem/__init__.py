"""A machine's files in memory: processes that are killed at any step, power cuts, full disks, failing disks and backups."""

from tests.simulated_filesystem.faults import FileFaults
from tests.simulated_filesystem.filesystem import SimulatedFileSystem, SimulatedMachine

__all__ = ["FileFaults", "SimulatedFileSystem", "SimulatedMachine"]
