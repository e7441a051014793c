"""The synthesizer: one actor that turns tallies into released columns, and never draws twice."""
