"""Everybody reports 1, always: how far is "the last `w` reports are all 1", whose truth is 1, from the truth?

Supported widths are those up to `k`. For a wider window the release refuses; what its synthetic rows would say if they were
read all the same is shown beside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from experiments import panels
from experiments.figures import DASHED, FLOW, PAPER, Band, draw_bands, legend, new_figure, save
from experiments.report import Settings, percent
from experiments.trials import Trial
from streamproc.errors import UnsupportedQuery
from streamproc.offline import ReplayResult
from streamproc.panel import Panel, count_of
from streamproc.privacy.types import FloatArray
from streamproc.releases.window import WindowContract
from streamproc.study import WindowRelease
from streamproc.study.releases import Measure

PEOPLE, HORIZON, K, RHO, BETA = 25_000, 12, 3, 0.005, 0.05
WIDTHS = (2, 3, 4)
MEASURES: dict[Measure, str] = {"paper": PAPER, "flow": FLOW}
DEBIASED = {"debiased": 1, "not debiased": 0}


def run(settings: Settings, people: int = PEOPLE) -> None:
    """`constant.csv`, `constant.png`, and the refusal in words."""
    symbols = panels.constant(people, HORIZON, 1)
    bands: list[_Errors] = []
    for measure in MEASURES:
        trial = Trial.of(WindowRelease("window", K, measure, BETA), "01", symbols, RHO)
        shares = trial.repeat(all_ones, settings.runs, f"everybody reports 1: {measure}")
        assert isinstance(trial.contract, WindowContract)
        bands.extend(_bands(trial.contract, measure, shares))
    header = ("measure", "width", "reading", "period", "median", "low", "high", "bound_low", "bound_high")
    settings.csv("constant.csv", header, (row for band in bands for row in band.rows()))
    columns = ("width", "measure", "reading", "median", "2.5%", "97.5%", "bound", "runs outside")
    ordered = sorted(bands, key=lambda band: (WIDTHS.index(band.width), band.reading))
    note = f"Error in % of people at period {HORIZON}; runs outside: those that leave the bound in any period."
    settings.show(f"Everybody reports 1 (n={people}, k={K}, rho={RHO})", columns, [b.line() for b in ordered], note)
    settings.console.print(f"Width 4 is refused: {refusal()}\n", soft_wrap=True, highlight=False)
    _draw(settings, bands, people)


def all_ones(run: int, replayed: ReplayResult) -> FloatArray:
    """What the panel says of "the last `w` are all 1": (not debiased or debiased, widths, periods k..T)."""
    (panel,) = replayed.panels.values()
    nothing = (np.nan, np.nan)
    read = [[reading(panel, w, t) if w <= t else nothing for t in range(K, HORIZON + 1)] for w in WIDTHS]
    return np.array(read).transpose(2, 0, 1)


def reading(panel: Panel, width: int, period: int) -> tuple[float, float]:
    """The share of synthetic rows; and the debiased answer or, where there is none, what would look like one.

    A pattern of `width` symbols gets `q^(k-width)` bins' worth of padding if `width <= k`; the naive reading goes on so.
    """
    contract = panel.contract
    assert isinstance(contract, WindowContract)
    rows = int(np.all(panel.columns[period - width : period], axis=0).sum())
    if width <= contract.mechanism.k:
        debiased = panel.fraction(count_of("1", at_least=width, of=width), period).value
    else:
        debiased = (rows - contract.n_pad * 2.0 ** (contract.mechanism.k - width)) / contract.n
    return rows / panel.rows, debiased


def refusal() -> str:
    """What `Panel.fraction` says to a window of 4 on a release of k = 3."""
    trial = Trial.of(WindowRelease("window", K), "01", panels.constant(100, HORIZON, 1), RHO)
    columns = (np.ones(100, dtype=np.uint8),) * HORIZON
    try:
        Panel(trial.contract, columns, None).fraction(count_of("1", at_least=4, of=4))
    except UnsupportedQuery as reason:
        return str(reason)
    raise AssertionError("a window wider than k was answered")


def bound(contract: WindowContract, width: int, debiased: bool) -> tuple[float, float] | None:
    """Lowest and highest error of "the last `width` are all 1" while no bin is off by more than `n_pad` people.

    That holds at all periods with probability at least `1 - 2 beta`: `n_pad` is a union bound for either tail. The question
    sums `c = q^(k-width)` bins. Without debiasing, there are between 0 and `2 (m-c) n_pad` rows that say no, and between `n`
    and `n + 2 c n_pad` that say yes; by flow their sum is known.
    """
    mechanism, n, pad = contract.mechanism, contract.n, contract.n_pad
    if width > mechanism.k:
        return None
    yes = mechanism.q ** (mechanism.k - width)
    if debiased:
        return -yes * pad / n, yes * pad / n
    no = mechanism.bins - yes
    if contract.measure == "paper":
        return n / (n + 2 * no * pad) - 1, 0.0
    rows = contract.expected_rows
    return max(n, rows - 2 * no * pad) / rows - 1, min(n + 2 * yes * pad, rows) / rows - 1


@dataclass(frozen=True)
class _Errors:
    """The errors of one way to read one release, over all repetitions: (runs, periods from where there is an answer)."""

    measure: Measure
    width: int
    reading: str
    errors: FloatArray
    bound: tuple[float, float] | None

    @property
    def band(self) -> Band:
        low, median, high = np.percentile(self.errors, [2.5, 50, 97.5], axis=0)
        return Band(MEASURES[self.measure], range(max(K, self.width), HORIZON + 1), median, low, high, self.bound)

    def rows(self) -> Iterator[tuple[str | int | float, ...]]:
        band = self.band
        edges = band.bound or ("", "")
        for period, *numbers in zip(band.periods, band.median, band.low, band.high, strict=True):
            yield self.measure, self.width, self.reading, period, *map(float, numbers), *edges

    def line(self) -> tuple[str, ...]:
        band = self.band
        numbers = [percent(series[-1]) for series in (band.median, band.low, band.high)]
        if self.bound is None:
            return str(self.width), self.measure, self.reading, *numbers, "none: refused", ""
        low, high = self.bound
        outside = ((self.errors < low) | (self.errors > high)).any(axis=1).mean()
        edges = f"{percent(low)} to {percent(high)}"
        return str(self.width), self.measure, self.reading, *numbers, edges, f"{100 * outside:.1f}%"


def _bands(contract: WindowContract, measure: Measure, shares: FloatArray) -> Iterator[_Errors]:
    for reading_name, which in DEBIASED.items():
        for place, width in enumerate(WIDTHS):
            errors = shares[:, which, place, max(width - K, 0) :] - 1.0
            yield _Errors(measure, width, reading_name, errors, bound(contract, width, debiased=which == 1))


def _draw(settings: Settings, bands: list[_Errors], people: int) -> None:
    title = f"Error of “the last w reports are all 1” when everybody reports 1 (n = {people}, k = {K}, rho = {RHO})"
    figure, grid = new_figure(10, 5.6, len(DEBIASED), len(WIDTHS), title)
    for place, axes in enumerate(grid):
        reading_name, width = list(DEBIASED)[place // len(WIDTHS)], WIDTHS[place % len(WIDTHS)]
        chosen = [band for band in bands if (band.reading, band.width) == (reading_name, width)]
        draw_bands(axes, [band.band for band in chosen])
        supported = "" if width <= K else ", refused: naive reading"
        axes.set_title(f"w = {width}{supported}", loc="left")
        axes.set_ylabel(f"{reading_name}, % of people" if place % len(WIDTHS) == 0 else "")
        axes.set_xlabel("period" if place >= len(WIDTHS) else "")
        axes.set_xticks(range(K, HORIZON + 1, 3))
    legend(figure, {"paper": PAPER, "flow": FLOW}, "bound", DASHED)
    caption = (
        f"Median and 2.5 to 97.5 percentiles of {settings.runs} repetitions, replace-one. Bound: n_pad is the union bound "
        f"over all bins and periods (beta = {BETA}), so with probability at least 1 - 2 beta = {1 - 2 * BETA:.2f} no bin is "
        "ever off by more than n_pad people; a question about c bins is then off by at most c n_pad. A width above k has no "
        "bound: which padding its rows carry depends on what was released before, so it cannot be subtracted."
    )
    save(figure, settings.out / "constant.png", caption)
