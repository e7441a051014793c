"""Spells and patterns, and noise beside the least possible: on few people, with seeded noise."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from experiments import kinds, panels, subjects, variances
from experiments.report import Settings
from experiments.trials import Symbols


@pytest.fixture
def written(settings: Settings, levels: Symbols, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """`kinds.csv` of small panels."""
    found = [subjects.poverty(panels.poverty(200)), subjects.activity(levels)]
    monkeypatch.setattr(subjects, "both_panels", lambda settings: found)
    kinds.run(settings)
    with (settings.out / "kinds.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_truths_of_spells_and_patterns_are_those_of_the_panel(written: list[dict[str, str]], levels: Symbols) -> None:
    months = levels == 3
    spells = [months[:, -length:].all(axis=1).mean() for length in (1, 3, 6)]
    ever = [months[:, first : first + 6].all(axis=1) for first in range(7)]
    expected = [*spells, np.any(ever, axis=0).mean()]

    lines = [line for line in written if line["panel"] == "actcal"]

    assert [line["question"] for line in lines] == [
        "in a spell of at least 1 now",
        "in a spell of at least 3 now",
        "in a spell of at least 6 now",
        "ever 6 in a row",
    ]
    assert [float(line["truth"]) for line in lines] == pytest.approx(expected, rel=1e-5)


def test_errors_and_coverage_are_written_for_both_panels(written: list[dict[str, str]]) -> None:
    assert [line["panel"] for line in written] == ["poverty"] * 4 + ["actcal"] * 4
    for line in written:
        assert float(line["rmse"]) > 0
        assert float(line["stderr"]) > 0
        assert 0.5 < float(line["covered"]) <= 1


def test_no_variance_is_below_the_least_possible(settings: Settings) -> None:
    """The bounds have four digits, so a mechanism that reaches its bound may look a little better."""
    cases = tuple(case for case in variances.CASES if case.horizon == 12)
    variances.run(settings, cases)

    with (settings.out / "variances.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {line["release"] for line in lines} == {case.name for case in cases}
    for line in lines:
        assert float(line["largest"]) >= 0.9999 * float(line["least_largest"])
        if line["least_mean"]:
            assert float(line["mean"]) >= 0.9999 * float(line["least_mean"])


def test_windows_by_flow_are_within_two_percent_of_the_least_possible() -> None:
    for case in variances.CASES[:4]:
        largest, _ = variances.variances(case, case.releases["flow"])

        assert largest <= 1.02 * case.least_largest
