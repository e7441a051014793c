"""A log and a machine's files in memory for tests and simulation: deterministic, in virtual time if the clock is, and they
fail when told to.
"""

from streamproc.testing.simulated.broker import SimulatedBroker
from streamproc.testing.simulated.faults import Faults
from streamproc.testing.simulated.file_faults import FileFaults, Killed
from streamproc.testing.simulated.file_system import SimulatedFileSystem, SimulatedMachine
from streamproc.testing.simulated.log import SimulatedLog

__all__ = ["Faults", "FileFaults", "Killed", "SimulatedBroker", "SimulatedFileSystem", "SimulatedLog", "SimulatedMachine"]
