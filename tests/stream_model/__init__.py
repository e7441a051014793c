"""A study on a simulated broker for tests of single roles, with faults, random reports and a reference model."""
