"""Runs a whole study over complete histories, without a stream. This package opens no file."""

from streamproc.offline.replay import ReplayResult, replay_study, tallies_of

__all__ = ["ReplayResult", "replay_study", "tallies_of"]
