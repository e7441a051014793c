"""Test doubles for programs that use this package: a log in memory, virtual time, and seeded or silent noise.

Nothing here needs a broker, a network or a wait. A test connects to a `SimulatedBroker`, makes calls fail with a subclass
of `Faults`, and runs in virtual time, so that an hour of back-off passes at once:

    >>> import asyncio
    >>> from streamproc.errors import OutcomeUnknown
    >>> from streamproc.log.port import Offset, TopicSettings
    >>> from streamproc.testing import Faults, ManualClock, SimulatedBroker, SimulatedLog, in_virtual_time
    >>> class FirstAppendTimesOut(Faults):
    ...     failed = False
    ...     async def after(self, connection, call, topic):
    ...         if call == "append" and not self.failed:
    ...             self.failed = True
    ...             raise OutcomeUnknown("append: no answer in time")
    >>> async def append_until_acknowledged():
    ...     log = SimulatedLog(SimulatedBroker(ManualClock()), FirstAppendTimesOut())
    ...     await log.create_topic("reports", TopicSettings(partitions=1))
    ...     try:
    ...         await log.append("reports", 0, b"hello")
    ...     except OutcomeUnknown:
    ...         await asyncio.sleep(3600)
    ...         await log.append("reports", 0, b"hello")
    ...     reader = await log.reader("reports", 0, Offset(0))
    ...     return [record.value for record in await reader.read()]
    >>> in_virtual_time(append_until_acknowledged())
    [b'hello', b'hello']

`SeededEntropy` draws the same noise for the same seed, and `SilentEntropy` draws none. Both mark every release as insecure.
The package itself never imports this module.
"""

from streamproc.storage.entropy import SeededEntropy
from streamproc.testing.entropy import SilentEntropy
from streamproc.testing.simulated_broker import SimulatedBroker
from streamproc.testing.simulated_log import Faults, Killed, SimulatedLog
from streamproc.testing.virtual_time import BEGINNING, ManualClock, VirtualLoop, in_virtual_time

__all__ = [
    "BEGINNING",
    "Faults",
    "Killed",
    "ManualClock",
    "SeededEntropy",
    "SilentEntropy",
    "SimulatedBroker",
    "SimulatedLog",
    "VirtualLoop",
    "in_virtual_time",
]
