"""A small world to run a study in: virtual time, disks in memory, a simulated broker, faults, and what must come out."""
