"""The study: what it is, how it is read from text, and what people reported in it. Pure: no files, no clock."""

from streamproc.study.broker import Broker
from streamproc.study.budget import Privacy
from streamproc.study.histories import MISSING, Histories
from streamproc.study.labels import bin_label, bin_labels
from streamproc.study.parse import parse_study
from streamproc.study.population import Missing, Population
from streamproc.study.release import CumulativeRelease, Release, WindowRelease
from streamproc.study.schedule import Schedule
from streamproc.study.values import Study

__all__ = [
    "MISSING",
    "Broker",
    "CumulativeRelease",
    "Histories",
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
