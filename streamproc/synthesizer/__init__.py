"""The synthesizer: one process that turns tallies into released columns, and never draws twice."""
