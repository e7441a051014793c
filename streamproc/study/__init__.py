"""The study: what it is, and how it is read from text. This package opens no file and reads no clock."""

from streamproc.study.releases import CumulativeRelease, PatternRelease, Release, SpellRelease, WindowRelease
from streamproc.study.schedule import Schedule
from streamproc.study.study import Broker, Missing, Population, Privacy, Question, Study, bin_label, bin_labels
from streamproc.study.toml import parse_study

__all__ = [
    "Broker",
    "CumulativeRelease",
    "Missing",
    "PatternRelease",
    "Population",
    "Privacy",
    "Question",
    "Release",
    "Schedule",
    "SpellRelease",
    "Study",
    "WindowRelease",
    "bin_label",
    "bin_labels",
    "parse_study",
]
