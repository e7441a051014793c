"""A whole study over histories that are already there: no stream, no files."""

from streamproc.offline.replay import ReplayResult, replay_study, tallies_of

__all__ = ["ReplayResult", "replay_study", "tallies_of"]
