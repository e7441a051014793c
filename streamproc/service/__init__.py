"""The parts of a deployment that need processes, a network or a clock: roles, commands of the steward, HTTP servers."""
