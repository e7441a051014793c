"""What anybody may ask of a study, answered from all that is public: `status` and `verify`. They create nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import click

from streamproc.cli.deployment_options import run_once
from streamproc.cli.formatting import (
    INSECURE,
    add_names,
    beside_replace_one,
    format_composition,
    format_count,
    format_delta,
    format_epsilon,
    format_rounded_up,
    format_unknown,
    print_table,
    table_console,
    titled_table,
)
from streamproc.client.ledger_json import add_replace_one
from streamproc.client.public_reader import PublicReader
from streamproc.errors import NoLedger, NoSuchTopic, NotAllowed, Refused, VerificationFailed
from streamproc.log.port import Log
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.protocol.registry_format import Composition
from streamproc.releases.contracts import release_budgets
from streamproc.releases.replace_one import replace_one_costs
from streamproc.service.deployment import Deployment
from streamproc.service.registration import composition_of
from streamproc.storage.site_registry import SiteRegistry
from streamproc.synthesizer.tally_reader import TallyReader


async def read_public(deployment: Deployment) -> PublicReader:
    """Everything public."""
    async with deployment.connect() as log:
        return await _all_of(log, deployment)


async def _public_and_watermark(deployment: Deployment) -> tuple[PublicReader, int | None]:
    """Everything public, and the watermark if we may know it."""
    async with deployment.connect() as log:
        return await _all_of(log, deployment), await _watermark(deployment, log)


async def _all_of(log: Log, deployment: Deployment) -> PublicReader:
    public = PublicReader(log, deployment.study)
    try:
        await public.catch_up()
        return public
    finally:
        await public.close()


async def _watermark(deployment: Deployment, log: Log) -> int | None:
    """The last period every partition has tallied; None for who may not read the tallies, or if they make no sense."""
    try:
        there = await log.topics()
        if deployment.topics.tallies not in there:
            # A broker does not even list what we may not see.
            return None if deployment.topics.ledger in there else 0
        inbox = await TallyReader.open(log, deployment.study)
        try:
            end = await log.last_stable_offset(inbox.topic, 0)
            while inbox.position < end:
                await inbox.poll(timeout=0.5)
            return inbox.watermark
        finally:
            await inbox.close()
    except NoSuchTopic:
        return 0
    except (NotAllowed, Refused):
        # What is wrong with tallies is the synthesizer's to say; what is released stands.
        return None


def warn_if_not_begun(deployment: Deployment, public: PublicReader) -> None:
    """A study that has not begun looks like one whose broker was mistyped."""
    if public.ledger is None:
        click.echo(f"{deployment.broker.url}: holds no ledger of {deployment.study.name} yet", err=True)


def is_insecure(public: PublicReader) -> bool | None:
    """Whether its noise came from a seed; None before it began."""
    return public.ledger.study.insecure if public.ledger else None


def warn_if_insecure(public: PublicReader) -> None:
    """To people."""
    if is_insecure(public):
        click.echo(INSECURE, err=True)


def status_of(deployment: Deployment, public: PublicReader, watermark: int | None) -> dict[str, Any]:
    """The object `status --json` prints."""
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
            "clamped": sum(r.releases[name].clamped for r in public.ledger.periods) if public.ledger else 0,
        }
    found: dict[str, Any] = {
        "study": study.name,
        "n": people_of(public),
        "horizon": study.horizon,
        "watermark": watermark,
        "released": public.period,
        "rho": study.privacy.budget,
        "rho_spent": spent,
        "epsilon_spent": epsilon_of_rho(spent, study.privacy.delta),
        "delta": study.privacy.delta,
        "adjacency": study.privacy.adjacency.value,
        "insecure": is_insecure(public),
        "releases": releases,
    }
    costs = replace_one_costs(study)
    if costs is not None:
        add_replace_one(found, releases, study, public.ledger, costs)
    return found


def status(deployment: Deployment, *, as_json: bool) -> None:
    """Show how far a study is and what it has spent."""
    public, watermark = run_once(deployment, _public_and_watermark(deployment))
    found = status_of(deployment, public, watermark)
    registry = SiteRegistry.of(os.environ)
    total, unknown = (None, 0) if registry is None else composition_of(registry, deployment.study)
    if as_json:
        delta = deployment.study.privacy.delta
        click.echo(json.dumps(found if total is None else found | {"registry": _composition_to_dict(total, unknown, delta)}))
    else:
        warn_if_not_begun(deployment, public)
        _show_status(found, expected=deployment.study.population.size)
        if total is not None:
            _show_composition(total, unknown, deployment.study.privacy.delta)


def _composition_to_dict(total: Composition, unknown: int, delta: float) -> dict[str, Any]:
    """The sum in the site registry, in the object that `status --json` prints."""
    epsilon = None if total.rho is None else epsilon_of_rho(total.rho, delta)
    found = {"releases": total.releases, "adjacency": total.adjacency.value, "rho": total.rho, "epsilon": epsilon}
    if total.adjacency is not Adjacency.REPLACE_ONE:
        other = total.rho_replace_one
        found |= {
            "rho_replace_one": other,
            "epsilon_replace_one": None if other is None else epsilon_of_rho(other, delta),
        }
    return found | {"seeded": total.seeded, "unknown": unknown}


def _show_composition(total: Composition, unknown: int, delta: float) -> None:
    click.echo(
        f"registry: {format_composition(total, delta)}" if total.releases else "registry: holds nothing of this study"
    )
    if unknown:
        click.echo(format_unknown(unknown))


def _show_status(found: Mapping[str, Any], *, expected: int | None) -> None:
    """For people; `expected` is how many the study said would take part."""
    console = table_console()
    console.print(
        f"{found['study']}: {found['released']} of {found['horizon']} periods released, "
        f"rho {format_rounded_up(found['rho_spent'])} of {format_rounded_up(found['rho'])} spent ({found['adjacency']}), "
        f"epsilon {format_epsilon(found['epsilon_spent'])} at delta {format_delta(found['delta'])}"
        f"{beside_replace_one(found.get('rho_spent_replace_one'), found.get('epsilon_spent_replace_one'))}"
    )
    if found["insecure"]:
        console.print(INSECURE, style="bold red")
    if found["n"] is not None and expected is not None and found["n"] != expected:
        console.print(f"{found['n']:,} people take part; the study expected {expected:,}")
    table = titled_table()
    add_names(table, "release", found["releases"])
    zero_out = "rho_replace_one" in found
    beside = ("replace-one", "of") if zero_out else ()
    for heading in ("synthetic people", "padding per bin", "rho spent", "of", *beside, "clamped"):
        table.add_column(heading, justify="right")
    for name, row in found["releases"].items():
        costs = [format_rounded_up(row["rho_spent"]), format_rounded_up(row["rho"])]
        if zero_out:
            costs += [format_rounded_up(row["rho_spent_replace_one"]), format_rounded_up(row["rho_replace_one"])]
        table.add_row(name, _counted(row["n_star"]), _counted(row["n_pad"]), *costs, _counted(row["clamped"]))
    print_table(console, table)


def _counted(number: int | None) -> str:
    """Thousands apart; "-" for what is not known yet."""
    return "-" if number is None else f"{number:,}"


def people_of(public: PublicReader) -> int | None:
    """`n`; None before the first column."""
    return next((contract.n for contract in public.contracts().values()), None)


def verify(deployment: Deployment, *, as_json: bool) -> None:
    """Walk the ledger's chain; recompute every digest and the spending.

    Ends with 4 if anything differs, and with 6 if there is no ledger of this study.
    """
    study = deployment.study
    try:
        public = run_once(deployment, read_public(deployment), waits=True)
        public.check_complete()
    except VerificationFailed as failed:
        if as_json:
            click.echo(json.dumps({"study": study.name, "verified": False, "problem": str(failed)}))
        raise
    columns = sum(len(public.columns(release.name)) for release in study.releases)
    head = public.ledger.head.hex() if public.ledger else None
    if as_json:
        found = {"study": study.name, "verified": True if head else None, "periods": public.period, "columns": columns}
        click.echo(json.dumps(found | {"head": head, "insecure": is_insecure(public)}))
    if head is None:
        raise NoLedger(study.name, deployment.broker.url)
    if not as_json:
        verified = f"{format_count(public.period, 'period')}, {format_count(columns, 'column')} verified"
        click.echo(f"{study.name}: {verified}, head {head}")
        warn_if_insecure(public)
