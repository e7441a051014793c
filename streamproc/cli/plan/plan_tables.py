"""A plan for people: one sentence that says what is promised, then tables of at most 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from streamproc.cli.formatting import (
    add_names,
    format_delta,
    format_epsilon,
    format_number,
    format_rounded_up,
    print_table,
    table_console,
    titled_table,
)
from streamproc.planning import QueryPlan, ReleasePlan, Spent, StudyPlan, quarters
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Period

_PERIODS_SHOWN = 7

_PROMISE = {
    Adjacency.REPLACE_ONE: "Replacing any one person's whole history by any other",
    Adjacency.ZERO_OUT: "Taking any one person's whole history out of every count",
}


def show_plan(plan: StudyPlan) -> None:
    """Print it: without colours where standard output is not a terminal."""
    console = table_console()
    console.print(promise(plan))
    console.print(f"{plan.study.name}: {plan.n:,} people, {plan.study.horizon} periods, symbols {_alphabet(plan)}.")
    for warning in plan.warnings:
        concerns = "" if warning.release is None else f"{warning.release}: "
        console.print(Text(f"\nWARNING  {concerns}{warning.message}.", style="bold yellow"))
    for table in _tables(plan):
        console.print()
        print_table(console, table)
    console.print()
    for note in plan.notes:
        console.print(f"Note: {note.message}.")


def _tables(plan: StudyPlan) -> Iterator[Table]:
    yield _releases(plan)
    yield from map(_errors, plan.releases)
    yield _spending(plan)
    yield _other_adjacency(plan)
    yield from (alternatives_table(release, plan.adjacency) for release in plan.releases if release.alternatives)


def promise(plan: StudyPlan) -> str:
    """What the whole study guarantees: one sentence, and for a zero-out study another one under replace-one."""
    if plan.replace_one:
        own, usual = _changes(plan.adjacency, plan.total), _changes(Adjacency.REPLACE_ONE, plan.replace_one[-1])
        return f"{own} {usual}"
    return _changes(plan.adjacency, plan.total)


def _changes(adjacency: Adjacency, total: Spent) -> str:
    return (
        f"{_PROMISE[adjacency]} ({adjacency.value}) changes the distribution of everything this study releases "
        f"by at most rho = {format_rounded_up(total.rho)} (zCDP), which is epsilon = {format_epsilon(total.epsilon)} "
        f"at delta = {format_delta(total.delta)}."
    )


def _releases(plan: StudyPlan) -> Table:
    table = titled_table(
        f"Releases: budget and noise ({plan.adjacency.value}, delta {format_delta(plan.study.privacy.delta)})"
    )
    add_names(table, "release", (release.release.name for release in plan.releases))
    table.add_column("kind", no_wrap=True)
    beside = ("replace-one\nrho, epsilon",) if plan.replace_one else ()
    for heading in ("rho,\nshare", "epsilon", *beside, "noise sd\npeople", "n_pad\nper bin", "n*", "memory"):
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
            f"{'' if known else '~'}{memory.rows:,}",
            f"{_bytes(memory.kept_bytes)}\n{memory.row_bytes} B/row",
        )
    return table


def _errors(release: ReleasePlan) -> Table:
    table = titled_table(
        f"{release.release.name}: expected error of a debiased answer, 95% intervals ({_adjacency(release)})"
    )
    columns_only = any(query.half_people_columns_only is not None for query in release.queries)
    add_names(table, "question", (query.label for query in release.queries))
    worst = ["worst,\nperiod", "std error\npeople", "95% ±\npeople", "95% ±\n% points"]
    last = ["last, ±\npeople", "last, ±\n% points"]
    for heading in [*worst, *last, *(["columns\nonly, ±"] if columns_only else [])]:
        table.add_column(heading, justify="right", no_wrap=True)
    for query in release.queries:
        table.add_row(query.label, *_error_cells(query))
    if columns_only:
        table.caption = "Before clamping. Columns only: people, at the last period, for who lacks the ledger."
    return table


def _error_cells(query: QueryPlan) -> list[str]:
    worst, last, only = query.worst, query.last, query.half_people_columns_only
    largest = format_number(worst.stderr_people)
    first = next(
        error.period for error in query.errors if format_number(error.stderr_people) == largest
    )  # as far as is shown
    return [
        str(first),
        format_number(worst.stderr_people),
        format_number(worst.half_people),
        format_number(worst.half_points),
        format_number(last.half_people),
        format_number(last.half_points),
        *([] if only is None else [format_number(only)]),
    ]


def _spending(plan: StudyPlan) -> Table:
    table = titled_table(f"Spent after a period: running totals ({plan.adjacency.value})")
    rows = list(_spending_rows(plan))
    add_names(table, "", (name for name, _ in rows))
    horizon = plan.study.horizon
    wanted = range(1, horizon + 1) if horizon <= _PERIODS_SHOWN else quarters(horizon)
    shown = [spent.period for spent in plan.spending if spent.period in wanted]
    for period in shown:
        table.add_column(str(period), justify="right", no_wrap=True)
    for name, by_period in rows:
        table.add_row(name, *(by_period[period] for period in shown))
    return table


def _spending_rows(plan: StudyPlan) -> Iterator[tuple[str, dict[Period, str]]]:
    """The name of each row and its figures by period; a zero-out study's replace-one rows follow its own."""
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


def _other_adjacency(plan: StudyPlan) -> Table:
    ours, theirs = plan.adjacency.value, plan.other_adjacency.value
    table = titled_table(f"The same noise under {theirs} instead of {ours}")
    add_names(table, "", (release.release.name for release in plan.releases))
    for heading in (f"rho\n{ours}", f"rho\n{theirs}", "times", f"epsilon\n{theirs}"):
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


def _alphabet(plan: StudyPlan) -> str:
    symbols = plan.study.alphabet
    return ", ".join(symbols if len(symbols) <= 8 else [*symbols[:7], f"... {len(symbols)} in all"])


def _bytes(size: int) -> str:
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"


def alternatives_table(release: ReleasePlan, adjacency: Adjacency) -> Table:
    """Each way to measure a release at the same budget, beside the one that the study names."""
    table = titled_table(f"{release.release.name}: the ways on offer at the same budget ({adjacency.value})")
    for name, heading in release.alternatives[0].headings.items():
        is_word = isinstance(getattr(release.alternatives[0], name), str)
        table.add_column(heading, justify="left" if is_word else "right", no_wrap=True)
    table.add_column("")
    for way in release.alternatives:
        cells = [_alternative_cell(name, getattr(way, name)) for name in way.headings]
        _add_way(table, cells, chosen=way.chosen)
    table.caption = release.alternatives[0].caption or None
    return table


def _alternative_cell(name: str, value: str | int | float) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2f}" if name.endswith("_ratio") else format_number(value)


def _add_way(table: Table, cells: Sequence[str], *, chosen: bool) -> None:
    table.add_row(*cells, "chosen" if chosen else "", style="bold" if chosen else "")
