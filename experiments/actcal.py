"""The real panel `actcal`: bimonthly questions and running counts of months without work, by both measures."""

from __future__ import annotations

from experiments import comparison, subjects
from experiments.actcal_data import actcal
from experiments.report import Settings


def run(settings: Settings) -> None:
    """`actcal.csv`, `actcal.png`."""
    comparison.report(settings, subjects.activity(actcal(settings)), "actcal")
