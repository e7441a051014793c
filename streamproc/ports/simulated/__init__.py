"""A log in memory for tests and simulation: deterministic, in virtual time if the clock is, and it fails when told to."""

from streamproc.ports.simulated.broker import SimulatedBroker
from streamproc.ports.simulated.faults import Faults
from streamproc.ports.simulated.log import SimulatedLog

__all__ = ["Faults", "SimulatedBroker", "SimulatedLog"]
