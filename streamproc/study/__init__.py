"""The study: what it is, and how it is read from text. This package opens no file and reads no clock."""

from streamproc.study.releases import CumulativeRelease, Release, WindowRelease
from streamproc.study.schedule import Schedule
from streamproc.study.study import Broker, Missing, Population, Privacy, Study, bin_label, bin_labels
from streamproc.study.toml import parse_study

__all__ = [
    "Broker",
    "CumulativeRelease",
    "Missing",
    "Population",
    "Privacy",
    "Release",
    "Schedule",
    "Study",
    "WindowRelease",
    "bin_label",
    "bin_labels",
    "parse_study",
]
