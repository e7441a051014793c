"""A poverty panel: the paper's four quarterly questions and running counts of poor months, by both measures."""

from __future__ import annotations

from experiments import comparison, panels, subjects
from experiments.report import Settings


def run(settings: Settings) -> None:
    """`poverty.csv`, `poverty.png`: the experiment on the simulated panel."""
    comparison.report(settings, subjects.poverty(panels.poverty()), "Simulated poverty panel")
