"""A plan as a figure: the half-widths of intervals and the budget spent, by period."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from streamproc.cli.formatting import format_delta, format_epsilon, format_people, format_rounded_up
from streamproc.errors import InvalidInput
from streamproc.planning import QueryPlan, ReleasePlan, StudyPlan
from streamproc.storage.filesystem import atomic_write, display_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito, which colour-blind people can tell apart."""

_MAX_MARKED_PERIODS = 40
"""Maximum number of periods for which every point has a marker."""


def check_plot_path(path: Path) -> None:
    """Raise InvalidInput if the suffix is unknown, Matplotlib is missing or the file cannot be written.

    The check comes before the plan is computed, which may take minutes.
    """
    if path.suffix.lower() not in FORMATS:
        raise InvalidInput(f"--plot: got {path.name}, expected a name that ends in {', '.join(FORMATS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InvalidInput("--plot needs matplotlib, which is not installed: pip install streamproc[plot]") from None
    if path.is_dir():
        raise _unwritable(path, "it is a folder")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _unwritable(path, error.strerror) from None


def _unwritable(path: Path, why: str | None) -> InvalidInput:
    return InvalidInput(f"--plot: {display_path(path)} cannot be written: {why}")


def write_plot(plan: StudyPlan, path: Path) -> None:
    """Draw `plan` into a PNG, SVG or PDF file, atomically. Raises InvalidInput if the file cannot be written."""
    import matplotlib

    # A symbol may contain a dollar sign, which is not mathematics here, or a letter that the font lacks, which is harmless.
    with matplotlib.rc_context({"text.parse_math": False}), warnings.catch_warnings(action="ignore"):
        figure = _figure(plan)
        try:
            with atomic_write(path) as file:
                figure.savefig(file, format=path.suffix.lower().removeprefix("."))
        except OSError as error:
            raise _unwritable(path, error.strerror) from None


def _figure(plan: StudyPlan) -> Figure:
    # A Figure of its own draws without a display; pyplot would try to open one.
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    panels = len(plan.releases) + 1
    rows = -(-panels // 2)
    layout = ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.12)
    figure = Figure(figsize=(12, 4.8 * rows + 0.6), dpi=150, layout=layout)
    figure.suptitle(_title(plan), fontsize=13)
    grid = figure.add_gridspec(rows, 2)
    for place, release in enumerate(plan.releases):
        _draw_errors(figure.add_subplot(grid[place // 2, place % 2]), release, plan)
    _draw_spending(figure.add_subplot(grid[-1, :] if panels % 2 else grid[-1, 1]), plan)
    return figure


def _title(plan: StudyPlan) -> str:
    total = plan.total
    return (
        f"{plan.study.name}: {_format_n(plan)}, rho {format_rounded_up(total.rho)}, epsilon "
        f"{format_epsilon(total.epsilon)} at delta {format_delta(total.delta)}, {plan.adjacency.value}"
        + "".join(
            f"\nthe same noise under replace-one: rho {format_rounded_up(spent.rho)}, "
            f"epsilon {format_epsilon(spent.epsilon)}"
            for spent in plan.replace_one[-1:]
        )
    )


def _format_n(plan: StudyPlan) -> str:
    if plan.n is None:
        return "open study"
    return format_people(plan.n) + (" present" if plan.study.is_open else "")


def _draw_errors(axes: Axes, release: ReleasePlan, plan: StudyPlan) -> None:
    """Draw half-widths in percentage points; in people for an open study, whose numbers of people are no shares."""
    lines = _distinct_curves(release.queries)
    horizon = max(query.last.period for query in release.queries)
    for place, (colour, (label, query)) in enumerate(zip(_colours(len(lines)), lines, strict=True)):
        periods = [error.period for error in query.errors]
        points = [error.half_points for error in query.errors]
        widths = [error.half_people for error in query.errors] if plan.study.is_open else cast(list[float], points)
        marker = "o" if len(periods) <= _MAX_MARKED_PERIODS else ""
        # Each line is thinner than the one below it, so that lines which coincide are all visible.
        width = 3.6 - 2.4 * place / max(len(lines) - 1, 1)
        axes.plot(periods, widths, color=colour, marker=marker, markersize=width + 2.5, linewidth=width, label=label)
    _label_axes(axes, f"{release.release.name}: half-width of a 95% interval", horizon)
    axes.set_ylabel("people" if plan.study.is_open else "percentage points of n")
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.05)
    _add_legend(axes)


def _distinct_curves(queries: Sequence[QueryPlan]) -> list[tuple[str, QueryPlan]]:
    """Return one (label, query) for each distinct curve; the label names all queries that have this curve."""
    lines: dict[tuple[tuple[int, str], ...], list[QueryPlan]] = {}
    for query in queries:
        curve = tuple((error.period, f"{error.half_people:.9g}") for error in query.errors)
        lines.setdefault(curve, []).append(query)
    return [("\n".join(query.label for query in same), same[0]) for same in lines.values()]


def _draw_spending(axes: Axes, plan: StudyPlan) -> None:
    lines = [(release.release.name, release.spending) for release in plan.releases]
    for colour, (name, spending) in zip(_colours(len(lines)), lines, strict=True):
        _draw_total(axes, name, [(0, 0.0), *((spent.period, spent.rho) for spent in spending)], colour, 1.6)
    if len(lines) > 1:
        _draw_total(axes, "study", [(0, 0.0), *((spent.period, spent.rho) for spent in plan.spending)], "#222222", 2.4)
    if plan.replace_one:
        replace_one = [(0, 0.0), *((spent.period, spent.rho) for spent in plan.replace_one)]
        _draw_total(axes, "study, replace-one", replace_one, "#b00020", 2.4)
    axes.axhline(
        plan.budget, color="#888888", linewidth=1, linestyle="--", label=f"budget, {format_rounded_up(plan.budget)}"
    )
    _label_axes(axes, f"Budget spent ({plan.adjacency.value})", plan.total.period)
    axes.set_ylabel("rho, running total")
    axes.set_ylim(0, max(plan.budget, *(spent.rho for spent in (plan.total, *plan.replace_one))) * 1.08)
    _add_legend(axes)


def _draw_total(axes: Axes, name: str, points: Sequence[tuple[int, float]], colour: str, width: float) -> None:
    """Draw a running total: in steps if every period is known, because it is constant between two periods."""
    periods, totals = zip(*points, strict=True)
    every = len(points) == periods[-1] + 1
    style = "steps-post" if every else "default"
    axes.plot(periods, totals, color=colour, linewidth=width, drawstyle=style, marker="" if every else "o", label=name)


def _add_legend(axes: Axes) -> None:
    """Put the legend below the axes, where it covers no line."""
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(0, -0.13), ncols=2)


def _label_axes(axes: Axes, title: str, horizon: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("period")
    axes.set_xlim(0, horizon * 1.03)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def _colours(number: int) -> list[str]:
    return [_COLOURS[place % len(_COLOURS)] for place in range(number)]
