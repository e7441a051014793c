"""A part of a plan for people: what each other way of measuring a release would give at the same budget."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from streamproc.cli.figures import number_shown
from streamproc.cli.tables import titled_table
from streamproc.planning import CounterAlternative, MeasureAlternative, ReleasePlan
from streamproc.privacy.adjacency import Adjacency


def alternatives_table(release: ReleasePlan, adjacency: Adjacency) -> Table:
    """Each measure, or each counter and allocation, beside the one chosen."""
    title = f"{release.release.name}: the ways on offer at the same budget ({adjacency.value})"
    measures = [way for way in release.alternatives if isinstance(way, MeasureAlternative)]
    counters = [way for way in release.alternatives if isinstance(way, CounterAlternative)]
    return _measures(title, measures) if measures else _counters(title, counters)


def _measures(title: str, ways: Sequence[MeasureAlternative]) -> Table:
    table = titled_table(title)
    _add_headings(table, ["measure"], ["noise sd of a bin\npeople", "variance\nto chosen", "n_pad\nper bin", "n*"])
    for way in ways:
        cells = [
            way.measure,
            number_shown(way.bin_stderr_people),
            f"{way.variance_ratio:.2f}",
            f"{way.n_pad:,}",
            f"{way.rows:,}",
        ]
        _add_way(table, cells, chosen=way.chosen)
    return table


def _counters(title: str, ways: Sequence[CounterAlternative]) -> Table:
    table = titled_table(title)
    numbers = ["worst std error\npeople", "RMS std error\npeople", "RMS\nto chosen"]
    _add_headings(table, ["counter", "allocation"], numbers)
    for way in ways:
        errors = [number_shown(way.worst_stderr_people), number_shown(way.rms_stderr_people), f"{way.rms_ratio:.2f}"]
        _add_way(table, [way.counter, way.allocation, *errors], chosen=way.chosen)
    table.caption = "Before clamping; over all weights b = 1..T and all periods."
    return table


def _add_headings(table: Table, words: Sequence[str], numbers: Sequence[str]) -> None:
    for heading in words:
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")


def _add_way(table: Table, cells: Sequence[str], *, chosen: bool) -> None:
    table.add_row(*cells, "chosen" if chosen else "", style="bold" if chosen else "")
