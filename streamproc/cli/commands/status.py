"""`status`: how far a study is and what it has spent, from the public topics. It creates nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import click

from streamproc.cli.event_loop import run_once
from streamproc.cli.formatting import (
    INSECURE,
    add_name_column,
    format_composition,
    format_count,
    format_delta,
    format_epsilon,
    format_people,
    format_replace_one,
    format_rounded_up,
    format_unknown_streams,
    new_table,
    print_table,
    table_console,
    warn_if_not_begun,
)
from streamproc.client.public_reader import PublicReader, add_replace_one
from streamproc.errors import NoSuchTopic, NotAllowed, Refused
from streamproc.log.port import Log
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.protocol.registry_format import Composition
from streamproc.releases.contracts import release_budgets
from streamproc.releases.open_flow import FLOW_QUERIES
from streamproc.releases.replace_one import replace_one_costs
from streamproc.service.deployment import Deployment
from streamproc.service.registration import composition_of
from streamproc.storage.site_registry import SiteRegistry
from streamproc.synthesizer.tally_reader import TallyReader

_PEOPLE = tuple(query.name for query in FLOW_QUERIES)
"""The numbers of people that every release of an open study estimates."""


def status(deployment: Deployment, *, as_json: bool) -> None:
    """Show how far a study is and what it has spent, as tables or as JSON."""
    public, watermark = run_once(deployment, _read_public_and_watermark(deployment))
    fields = status_to_dict(deployment, public, watermark)
    delta = deployment.study.privacy.delta
    registry = SiteRegistry.of(os.environ)
    total, unknown = (None, 0) if registry is None else composition_of(registry, deployment.study)
    if as_json:
        if total is not None:
            fields["registry"] = _composition_to_dict(total, unknown, delta)
        click.echo(json.dumps(fields))
    else:
        warn_if_not_begun(deployment, public)
        _show_status(fields, expected=deployment.study.population.size)
        if total is not None:
            _show_composition(total, unknown, delta)


async def _read_public_and_watermark(deployment: Deployment) -> tuple[PublicReader, int | None]:
    async with deployment.connect() as log:
        return await PublicReader.read_all(log, deployment.study), await _read_watermark(deployment, log)


async def _read_watermark(deployment: Deployment, log: Log) -> int | None:
    """Return the last period that every partition has tallied, 0 if there is none yet.

    Returns None if this user may not read the tallies, or if they do not match the study.
    """
    try:
        existing = await log.topics()
        if deployment.topics.tallies not in existing:
            # A broker does not list topics that the user may not read. If it lists the ledger, the tallies exist too.
            return None if deployment.topics.ledger in existing else 0
        tallies = await TallyReader.open(log, deployment.study)
        try:
            end = await log.last_stable_offset(tallies.topic, 0)
            while tallies.position < end:
                await tallies.poll(timeout=0.5)
            return tallies.watermark
        finally:
            await tallies.close()
    except NoSuchTopic:
        return 0
    except (NotAllowed, Refused):
        # Wrong tallies stop the synthesizer, which says what is wrong. They do not change what was released.
        return None


def status_to_dict(deployment: Deployment, public: PublicReader, watermark: int | None) -> dict[str, Any]:
    """Return the object that `status --json` prints, without the site registry."""
    study = deployment.study
    last = public.ledger.periods[-1] if public.ledger and public.ledger.periods else None
    spent = last.rho_spent if last else Rho(0.0)
    contracts = public.contracts()
    releases: dict[str, dict[str, Any]] = {}
    for name, rho in release_budgets(study).items():
        contract = contracts.get(name)
        releases[name] = {
            "n_star": public.n_star(name),
            "n_pad": None if contract is None else contract.n_pad,
            "rho": rho if contract is None else contract.rho,
            "rho_spent": last.releases[name].rho_spent if last else 0.0,
            "clamped": sum(record.releases[name].clamped for record in public.ledger.periods) if public.ledger else 0,
        }
        if study.is_open:
            releases[name] |= _people_to_dict(public, name)
    fields: dict[str, Any] = {
        "study": study.name,
        "n": public.n,
        "horizon": study.horizon,
        "watermark": watermark,
        "released": public.period,
        "rho": study.privacy.budget,
        "rho_spent": spent,
        "epsilon_spent": epsilon_of_rho(spent, study.privacy.delta),
        "delta": study.privacy.delta,
        "adjacency": study.privacy.adjacency.value,
        "insecure": public.insecure,
        "releases": releases,
    }
    if study.is_open:
        population = study.population
        fields |= {"open": True, "tenure": population.tenure, "absent_after": population.absent_after}
        fields |= {"over": public.is_over}
    costs = replace_one_costs(study)
    if costs is not None:
        add_replace_one(fields, releases, study, public.ledger, costs)
    return fields


def _people_to_dict(public: PublicReader, name: str) -> dict[str, Any]:
    """Return who is present after the last period and who entered and left in it; null before the first column."""
    panel = public.panel(name)
    answers = {query.name: None if panel is None else panel.people(query.query) for query in FLOW_QUERIES}
    keys = ("value", "stderr", "low", "high")
    return {name: None if one is None else {key: getattr(one, key) for key in keys} for name, one in answers.items()}


def _composition_to_dict(total: Composition, unknown: int, delta: float) -> dict[str, Any]:
    """Return what the site registry adds up, as `status --json` prints it under "registry"."""
    epsilon = None if total.rho is None else epsilon_of_rho(total.rho, delta)
    fields = {"releases": total.releases, "adjacency": total.adjacency.value, "rho": total.rho, "epsilon": epsilon}
    if total.adjacency is not Adjacency.REPLACE_ONE:
        rho = total.rho_replace_one
        fields |= {"rho_replace_one": rho, "epsilon_replace_one": None if rho is None else epsilon_of_rho(rho, delta)}
    return fields | {"seeded": total.seeded, "unknown": unknown}


def _show_status(fields: Mapping[str, Any], *, expected: int | None) -> None:
    """Print the status as text and a table; `expected` is the number of people that the study file states."""
    console = table_console()
    console.print(
        f"{fields['study']}: {_format_progress(fields)}, "
        f"rho {format_rounded_up(fields['rho_spent'])} of {format_rounded_up(fields['rho'])} spent"
        f"{' per person' if 'open' in fields else ''} ({fields['adjacency']}), "
        f"epsilon {format_epsilon(fields['epsilon_spent'])} at delta {format_delta(fields['delta'])}"
        f"{format_replace_one(fields.get('rho_spent_replace_one'), fields.get('epsilon_spent_replace_one'))}"
    )
    if fields["insecure"]:
        console.print(INSECURE, style="bold red")
    if fields["n"] is not None and expected is not None and fields["n"] != expected:
        take_part = "takes part" if fields["n"] == 1 else "take part"
        console.print(f"{format_people(fields['n'])} {take_part}; the study expected {expected:,}")
    table = new_table()
    add_name_column(table, "release", fields["releases"])
    zero_out = "rho_replace_one" in fields
    replace_one = ("replace-one", "of") if zero_out else ()
    is_open = "open" in fields
    sizes = (*_PEOPLE, "rows so far") if is_open else ("synthetic people", "padding per bin")
    for heading in (*sizes, "rho spent", "of", *replace_one, "clamped"):
        table.add_column(heading, justify="right")
    for name, row in fields["releases"].items():
        costs = [format_rounded_up(row["rho_spent"]), format_rounded_up(row["rho"])]
        if zero_out:
            costs += [format_rounded_up(row["rho_spent_replace_one"]), format_rounded_up(row["rho_replace_one"])]
        people = [_format_estimate(row[key]) for key in _PEOPLE] if is_open else []
        size = [*people, _format_optional(row["n_star"])] + ([] if is_open else [_format_optional(row["n_pad"])])
        table.add_row(name, *size, *costs, _format_optional(row["clamped"]))
    print_table(console, table)


def _format_progress(fields: Mapping[str, Any]) -> str:
    """Return how far the study is: "3 of 12 periods released"; without a horizon also whether it goes on."""
    if fields["horizon"] is not None and not fields.get("over", False):
        return f"{fields['released']} of {fields['horizon']} periods released"
    released = f"{format_count(fields['released'], 'period')} released"
    return f"{released}, {'the study is over' if fields['over'] else 'no horizon'}"


def _format_estimate(estimate: Mapping[str, float] | None) -> str:
    """Return a number of people with the half-width of its 95% interval, or "-" if it is not known yet."""
    return "-" if estimate is None else f"{estimate['value']:,.0f} ±{(estimate['high'] - estimate['low']) / 2:,.0f}"


def _format_optional(number: int | None) -> str:
    """Return a number with thousands separators, or "-" if it is not known yet."""
    return "-" if number is None else f"{number:,}"


def _show_composition(total: Composition, unknown: int, delta: float) -> None:
    click.echo(
        f"registry: {format_composition(total, delta)}" if total.releases else "registry: holds nothing of this study"
    )
    if unknown:
        click.echo(format_unknown_streams(unknown))
