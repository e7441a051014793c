"""Flow over the paper, and how often intervals hold: on few people, with seeded noise."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from experiments import coverage, panels, ratios, subjects
from experiments.report import Settings
from experiments.subjects import Subject
from experiments.trials import Symbols
from streamproc.privacy.adjacency import Adjacency
from streamproc.study import Release


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, levels: Symbols) -> list[Subject]:
    """Small panels in place of the two."""
    found = [subjects.poverty(panels.poverty(200)), subjects.activity(levels)]
    monkeypatch.setattr(subjects, "both_panels", lambda settings: found)
    return found


def test_before_clamping_the_ratios_are_those_of_the_formulas(settings: Settings, few: list[Subject]) -> None:
    """The square roots of 5.375 / 10 and 8.4375 / 11, up to rounding, and of 5.810 / 57.33."""
    made = [ratio for subject in few for ratio in ratios.ratios(replace(settings, runs=1), subject)]
    replace_one = [ratio for ratio in made if ratio.adjacency is Adjacency.REPLACE_ONE]

    assert [ratio.expected for ratio in replace_one] == pytest.approx([0.733, 0.318, 0.876, 0.318], abs=0.002)


def test_measured_window_ratios_agree_with_the_formulas(settings: Settings, few: list[Subject]) -> None:
    """Seeded. 40 runs know the ratio to about 3%; padding keeps clamping rare."""
    for ratio in ratios.ratios(replace(settings, runs=40), few[0])[:2]:
        assert ratio.measured.value == pytest.approx(ratio.expected, rel=0.1)
        assert ratio.measured.low < ratio.measured.value < ratio.measured.high


def test_the_ratios_of_all_panels_are_written_with_their_ranges(settings: Settings, few: list[Subject]) -> None:
    ratios.run(settings, constant_people=200)

    with (settings.out / "ratios.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(line["panel"], line["adjacency"]) for line in lines] == [
        (panel, adjacency)
        for panel in ("poverty", "actcal", "constant")
        for adjacency in ("replace-one", "zero-out", "replace-one")
    ]
    assert all(float(line["low"]) < float(line["ratio"]) < float(line["high"]) for line in lines)


def test_coverage_is_written_for_every_kind_and_for_flat_panels(settings: Settings, few: list[Subject]) -> None:
    coverage.run(settings)

    with (settings.out / "coverage.csv").open() as file:
        lines = list(csv.DictReader(file))
    found: dict[str, list[str]] = {}
    for line in lines:
        found.setdefault(line["interval"], []).append(line["panel"])
    real, flat = ["poverty", "actcal"], ["nobody ever, T=12", "a third once, T=12", "a third once, T=30"]
    assert found == {
        **{f"cumulative, {way}": [*real, *flat] for way in coverage.WAYS},
        "window, with the measurements": real,
        f"cumulative, {coverage.DIFFERENCE}": [*real, *flat],
        **{f"{kind}, {coverage.DIFFERENCE}": real for kind in ("window", "spell", "pattern")},
    }
    bins = next(line for line in lines if line["interval"] == "window, with the measurements")
    assert int(bins["intervals"]) == 5 * 10 * 8
    assert 0.8 < float(bins["covered"]) <= 1


def test_a_share_of_intervals_is_averaged_and_its_worst_cell_found() -> None:
    holds = np.array([[True, True], [True, False], [True, True], [True, False]])

    line = coverage.Coverage.of("bins", "panel", holds)

    assert (line.intervals, line.share.value, line.worst) == (8, 0.75, 0.5)


def test_only_periods_that_can_have_b_events_are_counted(settings: Settings) -> None:
    subject = Subject("flat", "01", panels.once(60, 12, 0.5), 1, "1", {}, ())

    *answers, difference = coverage.cumulative_coverage(settings, subject)

    assert {line.intervals for line in answers} == {5 * (12 + 11 + 10 + 7)}
    assert difference.intervals == 5 * 4 * 3


def test_intervals_of_differences_hold_as_often_as_they_say(settings: Settings, few: list[Subject]) -> None:
    """Seeded. 60 runs of 3 to 9 cells, of which those of one run depend on each other: about 3% either way."""
    subject, pairs = few[0], ((6, 7), (11, 12), (6, 12))
    asked: list[tuple[Release, tuple[str, ...]]] = [
        (subject.window(), ('now in ("1")', 'count("1") >= 2 of 3')),
        (subject.cumulative(), ("events >= 1", "events >= 3")),
        (subject.spell(), ("spell >= 1", "spell >= 3", "spell >= 6")),
        (subject.pattern(), ("matched",)),
    ]
    for release, questions in asked:
        (line,) = coverage._of_release(replace(settings, runs=60), subject, release, questions, pairs, ())

        assert 0.88 < line.share.value <= 1
        assert line.share.low <= 0.97
