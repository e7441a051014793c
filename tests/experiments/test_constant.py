"""Everybody reports 1."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from experiments import constant, panels
from experiments.report import Settings
from experiments.trials import Trial
from streamproc.releases.window import WindowContract
from streamproc.study import WindowRelease
from streamproc.study.releases import Measure


def contract(measure: Measure = "flow", people: int = 25_000) -> WindowContract:
    release = WindowRelease("window", constant.K, measure)
    made = Trial.of(release, "01", panels.constant(people, constant.HORIZON, 1), constant.RHO).contract
    assert isinstance(made, WindowContract)
    return made


@pytest.fixture(scope="module")
def ran(settings: Settings) -> Settings:
    constant.run(settings, people=400)
    return settings


def test_every_width_measure_and_reading_has_a_line_per_period(ran: Settings) -> None:
    with (ran.out / "constant.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 2 * 2 * (10 + 10 + 9)
    assert (ran.out / "constant.png").read_bytes().startswith(b"\x89PNG")
    for line in lines:
        assert float(line["low"]) <= float(line["median"]) <= float(line["high"])
        assert (line["bound_low"] == "") == (line["width"] == "4")


def test_the_refusal_is_printed_with_its_reason(ran: Settings, printed: Callable[[], str]) -> None:
    assert "Width 4 is refused" in printed()
    assert "looks back over 4 periods, but release window was measured over windows of k = 3" in printed()


def test_debiased_answers_are_centred_and_the_naive_reading_of_a_wider_window_is_not(settings: Settings) -> None:
    """Noise is seeded. Over 9 correlated periods and 20 runs the centre is known to about a quarter of a standard error."""
    symbols = panels.constant(25_000, constant.HORIZON, 1)
    trial = Trial.of(WindowRelease("window", constant.K), "01", symbols, constant.RHO)
    read = trial.repeat(constant.all_ones, 20, "")
    errors = np.nanmean(read - 1.0, axis=(0, 3))
    pad = contract().n_pad / 25_000

    assert np.all(np.abs(errors[1, :2]) < 0.2 * pad)
    assert errors[1, 2] == pytest.approx(-pad / 2, rel=0.3)
    assert np.all(errors[0] < -4 * pad)


@pytest.mark.parametrize("measure", ["flow", "paper"])
@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("debiased", [True, False])
def test_the_bound_is_reached_by_no_panel_whose_bins_are_off_by_at_most_n_pad(
    measure: Measure, width: int, debiased: bool
) -> None:
    """All corners of what may happen: every bin off by `-n_pad`, 0 or `n_pad`, subject to the known total."""
    made = contract(measure)
    n, pad = made.n, made.n_pad
    corners = np.stack(np.meshgrid(*[[-pad, 0, pad]] * 8), axis=-1).reshape(-1, 8)
    if measure == "flow":
        corners = corners[corners.sum(axis=1) == 0]
    counts = corners + pad
    counts[:, 7] += n
    yes = counts[:, -(2 ** (3 - width)) :].sum(axis=1)
    shares = (yes - 2 ** (3 - width) * pad) / n if debiased else yes / counts.sum(axis=1)

    edges = constant.bound(made, width, debiased)

    assert edges is not None
    assert edges == pytest.approx((shares.min() - 1, shares.max() - 1), abs=1e-12)


def test_a_width_above_k_has_no_bound() -> None:
    assert constant.bound(contract(), 4, debiased=True) is None


def test_runs_that_leave_the_bound_are_counted() -> None:
    errors = constant._Errors("flow", 3, "debiased", np.array([[0.0, 0.2], [0.0, 0.0]]), (-0.1, 0.1))

    assert errors.line()[-1] == "50.0%"
    assert replace(errors, bound=None).line()[-2:] == ("none: refused", "")
