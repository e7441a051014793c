"""A plan as text: a sentence that states the guarantee, then tables at most 100 characters wide."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from streamproc.cli.formatting import (
    add_name_column,
    format_count,
    format_delta,
    format_epsilon,
    format_number,
    format_people,
    format_rounded_up,
    new_table,
    print_table,
    table_console,
)
from streamproc.planning import QueryPlan, ReleasePlan, Spent, StudyPlan, quarters
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Period

_PERIODS_SHOWN = 7
"""If a study has more periods than this, the table of spending shows the ends of its quarters only."""

_OPEN_CHANGES = {
    Adjacency.REPLACE_ONE: "Replacing any one person's whole participation (whether, when and how long they take part, and "
    "what they report) by any other",
    Adjacency.ADD_REMOVE: "Adding or removing any one person, with everything they ever report,",
}
_CHANGES = {
    Adjacency.REPLACE_ONE: "Replacing any one person's whole history by any other",
    Adjacency.ZERO_OUT: "Taking any one person's whole history out of every count",
}


def show_plan(plan: StudyPlan) -> None:
    """Print the plan on standard output, without colours if that is not a terminal."""
    console = table_console()
    console.print(guarantee(plan))
    console.print(f"{plan.study.name}: {_size(plan)}, symbols {_format_alphabet(plan)}.")
    for warning in plan.warnings:
        concerns = "" if warning.release is None else f"{warning.release}: "
        console.print(Text(f"\nWARNING  {concerns}{warning.message}.", style="bold yellow"))
    for table in _tables(plan):
        console.print()
        print_table(console, table)
    console.print()
    for note in plan.notes:
        console.print(f"Note: {note.message}.")


def _size(plan: StudyPlan) -> str:
    horizon = plan.study.horizon
    periods = "no last period" if horizon is None else format_count(horizon, "period")
    if not plan.study.is_open:
        return f"{_format_n(plan)}, {periods}"
    tenure = plan.study.population.tenure or 0
    return f"open study, {_format_n(plan)}, {periods}, each person at most {format_count(tenure, 'period')}"


def _format_n(plan: StudyPlan) -> str:
    if plan.n is None:
        return "any number of people"
    return format_people(plan.n) + (" present" if plan.study.is_open else "")


def _tables(plan: StudyPlan) -> Iterator[Table]:
    yield _release_table(plan)
    yield from map(_open_error_table if plan.study.is_open else _error_table, plan.releases)
    yield _spending_table(plan)
    yield _adjacency_table(plan)
    yield from (alternatives_table(release, plan.adjacency) for release in plan.releases if release.alternatives)


def guarantee(plan: StudyPlan) -> str:
    """Return the guarantee of the whole study in one sentence; a zero-out study has a second one, under replace-one."""
    if plan.study.is_open:
        return _guarantee_under(plan.adjacency, plan.total, _OPEN_CHANGES)
    if plan.replace_one:
        zero_out = _guarantee_under(plan.adjacency, plan.total)
        return f"{zero_out} {_guarantee_under(Adjacency.REPLACE_ONE, plan.replace_one[-1])}"
    return _guarantee_under(plan.adjacency, plan.total)


def _guarantee_under(adjacency: Adjacency, total: Spent, changes: Mapping[Adjacency, str] = _CHANGES) -> str:
    return (
        f"{changes[adjacency]} ({adjacency.value}) changes the distribution of everything this study releases "
        f"by at most rho = {format_rounded_up(total.rho)} (zCDP), which is epsilon = {format_epsilon(total.epsilon)} "
        f"at delta = {format_delta(total.delta)}."
    )


def _release_table(plan: StudyPlan) -> Table:
    table = new_table(f"Releases: budget and noise ({plan.adjacency.value}, delta {format_delta(plan.study.privacy.delta)})")
    add_name_column(table, "release", (release.release.name for release in plan.releases))
    table.add_column("kind", no_wrap=True)
    replace_one = ("replace-one\nrho, epsilon",) if plan.replace_one else ()
    for heading in ("rho,\nshare", "epsilon", *replace_one, "noise sd\npeople", "n_pad\nper bin", "n*", "memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    for release in plan.releases:
        memory = release.memory
        known = release.contract.n_star is not None
        table.add_row(
            release.release.name,
            "\n".join(release.planner.describe()),
            f"{format_rounded_up(release.contract.rho)}\n{float(release.share):.3g}",
            format_epsilon(release.epsilon),
            *(f"{format_rounded_up(spent.rho)}\n{format_epsilon(spent.epsilon)}" for spent in release.replace_one[-1:]),
            format_number(release.noise_people),
            f"{release.contract.n_pad:,}",
            "-" if memory.rows is None else f"{'' if known else '~'}{memory.rows:,}",
            f"{'-' if memory.kept_bytes is None else _format_bytes(memory.kept_bytes)}\n{memory.row_bytes} B/row",
        )
    return table


def _error_table(release: ReleasePlan) -> Table:
    table = new_table(f"{release.release.name}: expected error of a debiased answer, 95% intervals ({_adjacency(release)})")
    columns_only = any(query.half_people_columns_only is not None for query in release.queries)
    add_name_column(table, "question", (query.label for query in release.queries))
    worst = ["worst,\nperiod", "std error\npeople", "95% ±\npeople", "95% ±\n% points"]
    last = ["last, ±\npeople", "last, ±\n% points"]
    for heading in [*worst, *last, *(["columns\nonly, ±"] if columns_only else [])]:
        table.add_column(heading, justify="right", no_wrap=True)
    for query in release.queries:
        table.add_row(query.label, *_error_cells(query))
    if columns_only:
        table.caption = (
            "Before clamping. 'Columns only': half-width in people at the last period, if you do not have the ledger."
        )
    return table


_FIRST_PERIODS = 3
"""Number of first periods of an open study whose errors are shown; the error hardly grows after them."""


def _open_error_table(release: ReleasePlan) -> Table:
    title = f"{release.release.name}: expected error of an estimate, 95% intervals ({_adjacency(release)})"
    table = new_table(title)
    add_name_column(table, "question", (query.label for query in release.queries))
    first = [f"period {period},\n± people" for period in range(1, _FIRST_PERIODS + 1)]
    for heading in [*first, "steady,\nstd error", "steady,\n± people", "steady, ±\n% points"]:
        table.add_column(heading, justify="right", no_wrap=True)
    for query in release.queries:
        last, early = query.last, [error.half_people for error in query.errors[:_FIRST_PERIODS]]
        early += [last.half_people] * (_FIRST_PERIODS - len(early))
        numbers = [*early, last.stderr_people, last.half_people, last.half_points]
        table.add_row(query.label, *map(_format_optional, numbers))
    table.caption = "Before clamping. 'Steady': in all later periods, however long the study runs."
    return table


def _format_optional(value: float | None) -> str:
    return "-" if value is None else format_number(value)


def _error_cells(query: QueryPlan) -> list[str]:
    worst, last, only = query.worst, query.last, query.half_people_columns_only
    largest = format_number(worst.stderr_people)
    # The first of the periods whose errors are the largest after rounding.
    first = next(error.period for error in query.errors if format_number(error.stderr_people) == largest)
    return [
        str(first),
        format_number(worst.stderr_people),
        format_number(worst.half_people),
        _format_optional(worst.half_points),
        format_number(last.half_people),
        _format_optional(last.half_points),
        *([] if only is None else [format_number(only)]),
    ]


def _spending_table(plan: StudyPlan) -> Table:
    table = new_table(f"Spent after a period: {_totals(plan)} ({plan.adjacency.value})")
    rows = list(_spending_rows(plan))
    add_name_column(table, "", (name for name, _ in rows))
    wanted = _periods_shown(plan)
    periods = [spent.period for spent in plan.spending if spent.period in wanted]
    for period in periods:
        for_ever = plan.study.horizon is None and period == plan.total.period
        table.add_column(f"{period} on" if for_ever else str(period), justify="right", no_wrap=True)
    for name, by_period in rows:
        table.add_row(name, *(by_period[period] for period in periods))
    return table


def _totals(plan: StudyPlan) -> str:
    return "the most that one person's participation can cost" if plan.study.is_open else "running totals"


def _periods_shown(plan: StudyPlan) -> Collection[int]:
    """Return the periods of the table of spending; of an open study those of the tenure, the one after it, and the last."""
    last, tenure = plan.total.period, plan.study.population.tenure
    if tenure is not None:
        return {*quarters(tenure), tenure + 1, last}
    return range(1, last + 1) if last <= _PERIODS_SHOWN else quarters(last)


def _spending_rows(plan: StudyPlan) -> Iterator[tuple[str, dict[Period, str]]]:
    """Yield the name of each row and its cells by period. Rows under replace-one follow those of a zero-out study."""
    delta = format_delta(plan.study.privacy.delta)
    relations = [("", plan.spending, [release.spending for release in plan.releases])]
    if plan.replace_one:
        relations.append((", replace-one", plan.replace_one, [release.replace_one for release in plan.releases]))
    for suffix, total, releases in relations:
        for release, spending in zip(plan.releases, releases, strict=True):
            yield f"{release.release.name}: rho{suffix}", {spent.period: format_rounded_up(spent.rho) for spent in spending}
        if len(releases) > 1:
            yield f"study: rho{suffix}", {spent.period: format_rounded_up(spent.rho) for spent in total}
        yield f"study: epsilon at delta {delta}{suffix}", {spent.period: format_epsilon(spent.epsilon) for spent in total}


def _adjacency_table(plan: StudyPlan) -> Table:
    declared, other_name = plan.adjacency.value, plan.other_adjacency.value
    table = new_table(f"The same noise under {other_name} instead of {declared}")
    add_name_column(table, "", (release.release.name for release in plan.releases))
    for heading in (f"rho\n{declared}", f"rho\n{other_name}", "times", f"epsilon\n{other_name}"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = [(release.release.name, release.spending[-1], release.other) for release in plan.releases]
    for name, spent, other in [*rows, *([("study", plan.total, plan.other)] if len(rows) > 1 else [])]:
        table.add_row(
            name,
            format_rounded_up(spent.rho),
            format_rounded_up(other.rho),
            f"{other.rho / spent.rho:.2f}",
            format_epsilon(other.epsilon),
        )
    return table


def _adjacency(release: ReleasePlan) -> str:
    return str(release.contract.mechanism.adjacency.value)


def _format_alphabet(plan: StudyPlan) -> str:
    symbols = plan.study.alphabet
    return ", ".join(symbols if len(symbols) <= 8 else [*symbols[:7], f"... {len(symbols)} in all"])


def _format_bytes(size: int) -> str:
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"


def alternatives_table(release: ReleasePlan, adjacency: Adjacency) -> Table:
    """Return a table that compares each way to measure a release at the same budget with the chosen one."""
    table = new_table(f"{release.release.name}: alternatives at the same budget ({adjacency.value})")
    for name, heading in release.alternatives[0].headings.items():
        is_word = isinstance(getattr(release.alternatives[0], name), str)
        table.add_column(heading, justify="left" if is_word else "right", no_wrap=True)
    table.add_column("")
    for way in release.alternatives:
        cells = [_alternative_cell(name, getattr(way, name)) for name in way.headings]
        _add_alternative(table, cells, chosen=way.chosen)
    table.caption = release.alternatives[0].caption or None
    return table


def _alternative_cell(name: str, value: str | int | float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2f}" if name.endswith("_ratio") else format_number(value)


def _add_alternative(table: Table, cells: Sequence[str], *, chosen: bool) -> None:
    table.add_row(*cells, "chosen" if chosen else "", style="bold" if chosen else "")
