"""A log and a machine's files in memory for tests and simulation: deterministic, in virtual time if the clock is, and they
fail when told to.
"""

from streamproc.ports.simulated.broker import SimulatedBroker
from streamproc.ports.simulated.faults import Faults
from streamproc.ports.simulated.file_faults import FileFaults, Killed
from streamproc.ports.simulated.file_system import SimulatedFileSystem, SimulatedMachine
from streamproc.ports.simulated.log import SimulatedLog

__all__ = ["Faults", "FileFaults", "Killed", "SimulatedBroker", "SimulatedFileSystem", "SimulatedLog", "SimulatedMachine"]
