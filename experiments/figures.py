"""How figures look: bands over time, and densities beside the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from streamproc.privacy.types import FloatArray

PAPER, FLOW = "#d55e00", "#0072b2"
"""Distinct for colour-blind readers too."""

DASHED = (0, (4, 3))

_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "legend.frameon": False,
}
mpl.rcParams.update(_STYLE)


@dataclass(frozen=True)
class Band:
    """Median and central 95% over time, with the bound it should stay in."""

    colour: str
    periods: Sequence[int]
    median: FloatArray
    low: FloatArray
    high: FloatArray
    bound: tuple[float, float] | None


@dataclass(frozen=True)
class Densities:
    """One question: for each series, (repetitions, places) answers; and the truth at each place."""

    title: str
    places: Sequence[str]
    answers: Mapping[str, FloatArray]
    truth: FloatArray


def new_figure(width: float, height: float, rows: int, columns: int, title: str) -> tuple[Figure, list[Axes]]:
    """An empty grid, without a window system; below the title there is a line for `legend`."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    figure.suptitle(f"{title}\n", x=0.01, ha="left", fontsize=11, fontweight="bold", linespacing=1.9)
    return figure, list(axes.flat)


def draw_bands(axes: Axes, bands: Sequence[Band]) -> None:
    """Bands in percentage points."""
    axes.axhline(0, color="#555555", linewidth=0.8)
    for band in bands:
        axes.fill_between(band.periods, 100 * band.low, 100 * band.high, color=band.colour, alpha=0.22, linewidth=0)
        axes.plot(band.periods, 100 * band.median, color=band.colour, linewidth=1.6, marker="o", markersize=3)
        for edge in band.bound or ():
            axes.axhline(100 * edge, color=band.colour, linewidth=1, linestyle=DASHED)


def draw_densities(axes: Axes, question: Densities, colours: Sequence[str]) -> None:
    """Violins in percent, one for each series side by side at each place, and a black bar where the truth is."""
    width = 0.84 / len(question.answers)
    places = np.arange(len(question.places))
    for series, (answers, colour) in enumerate(zip(question.answers.values(), colours, strict=True)):
        offset = (series - (len(question.answers) - 1) / 2) * width
        varied = [place for place in places if np.ptp(answers[:, place]) > 0]
        if varied:
            drawn: Any = axes.violinplot(
                [100 * answers[:, place] for place in varied],
                positions=[place + offset for place in varied],
                widths=0.95 * width,
                showextrema=False,
                points=200,
            )
            for body in drawn["bodies"]:
                body.set(facecolor=colour, edgecolor="none", alpha=0.9)
    axes.hlines(100 * question.truth, places - 0.47, places + 0.47, color="black", linewidth=1.3)
    axes.set_xticks(places, question.places)
    axes.set_title(question.title, loc="left")
    axes.set_ylabel("% of people")


def legend(figure: Figure, series: Mapping[str, str], line: str, style: Any = "-") -> None:
    """What each colour is, by name, and what the line is."""
    handles: list[Patch | Line2D] = [Patch(color=colour, label=name) for name, colour in series.items()]
    handles.append(Line2D([], [], color="black", linewidth=1.3, linestyle=style, label=line))
    below_title = (0.0, 1 - 0.24 / figure.get_figheight())
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=below_title, ncols=len(handles), borderaxespad=0.3)


def save(figure: Figure, path: Path, caption: str) -> None:
    """As PNG, with its caption below."""
    path.parent.mkdir(parents=True, exist_ok=True)
    characters = int(figure.get_figwidth() * 15.5)
    figure.supxlabel(fill(caption, characters), x=0.01, ha="left", fontsize=8, color="#333333")
    figure.savefig(path, dpi=100, pil_kwargs={"optimize": True})
