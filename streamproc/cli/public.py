"""What anybody may ask of a study: `status`, `watch`, `pull` and `verify`. They create nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from streamproc.actor.tallies import TallyInbox
from streamproc.cli.deployed import AS_LONG_AS_IT_TAKES, on_deployment, run_once, run_until_told, timeout_option
from streamproc.cli.figures import delta_shown, epsilon_shown, rounded_up
from streamproc.cli.options import json_option
from streamproc.errors import Refused
from streamproc.panel import AtLeast, Query, exactly
from streamproc.panel.frames import check_arrow
from streamproc.ports.log import Log, NoSuchTopic, NotAllowed
from streamproc.ports.panel_files import save_panel
from streamproc.ports.results import results_folder, write_json
from streamproc.privacy.quantities import Period, Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.service.deployment import Deployment
from streamproc.service.ledger_document import period_to_dict
from streamproc.service.public import PublicStudy
from streamproc.service.subscribe import Published, subscribe
from streamproc.synth.contract import WindowContract, release_budgets
from streamproc.wire.chain import VerifiedLedger
from streamproc.wire.ledger import PeriodRecord


async def _public(deployment: Deployment) -> PublicStudy:
    """Everything public."""
    async with deployment.connect() as log:
        return await _all_of(log, deployment)


async def _public_and_watermark(deployment: Deployment) -> tuple[PublicStudy, int | None]:
    """Everything public, and the watermark if we may know it."""
    async with deployment.connect() as log:
        return await _all_of(log, deployment), await _watermark(deployment, log)


async def _all_of(log: Log, deployment: Deployment) -> PublicStudy:
    public = PublicStudy(log, deployment.study)
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
        inbox = await TallyInbox.open(log, deployment.study)
        try:
            end = await log.stable_offset(inbox.topic, 0)
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


def status_of(deployment: Deployment, public: PublicStudy, watermark: int | None) -> dict[str, Any]:
    """The object `status --json` prints."""
    study = deployment.study
    last = public.ledger.periods[-1] if public.ledger and public.ledger.periods else None
    spent = last.rho_spent if last else Rho(0.0)
    contracts = public.contracts()
    releases = {}
    for name, rho in release_budgets(study).items():
        contract = contracts.get(name)
        padding = contract.n_pad if isinstance(contract, WindowContract) else 0
        releases[name] = {
            "n_star": public.n_star(name),
            "n_pad": None if contract is None else padding,
            "rho": rho,
            "rho_spent": last.releases[name].rho_spent if last else 0.0,
            "clamped": sum(r.releases[name].clamped for r in public.ledger.periods) if public.ledger else 0,
        }
    return {
        "study": study.name,
        "n": _people(public),
        "horizon": study.horizon,
        "watermark": watermark,
        "released": public.period,
        "rho": study.privacy.budget,
        "rho_spent": spent,
        "epsilon_spent": epsilon_of_rho(spent, study.privacy.delta),
        "delta": study.privacy.delta,
        "adjacency": study.privacy.adjacency.value,
        "insecure": public.ledger.study.insecure if public.ledger else None,
        "releases": releases,
    }


@click.command()
@on_deployment
@timeout_option()
@json_option
def status(deployment: Deployment, *, as_json: bool) -> None:
    """How far a study is and what it has spent."""
    public, watermark = run_once(deployment, _public_and_watermark(deployment))
    found = status_of(deployment, public, watermark)
    if as_json:
        click.echo(json.dumps(found))
        return
    console = Console()
    console.print(
        f"[bold]{found['study']}[/bold]: {found['released']} of {found['horizon']} periods released, "
        f"rho {rounded_up(found['rho_spent'])} of {rounded_up(found['rho'])} spent ({found['adjacency']}), "
        f"epsilon {epsilon_shown(found['epsilon_spent'])} at delta {delta_shown(found['delta'])}"
    )
    if found["n"] is not None and found["n"] != (deployment.study.population.size or found["n"]):
        console.print(f"{found['n']:,} people take part; the study expected {deployment.study.population.size:,}")
    table = Table("release")
    for heading in ("synthetic people", "padding per bin", "rho spent", "of", "clamped"):
        table.add_column(heading, justify="right")
    for name, row in found["releases"].items():
        costs = [rounded_up(row["rho_spent"]), rounded_up(row["rho"])]
        table.add_row(name, _counted(row["n_star"]), _counted(row["n_pad"]), *costs, _counted(row["clamped"]))
    console.print(table)


def _counted(number: int | None) -> str:
    """Thousands apart; "-" for what is not known yet."""
    return "-" if number is None else f"{number:,}"


@click.command()
@on_deployment
@timeout_option("Seconds before giving up on a broker that is away; columns are waited for without end.")
@json_option
@click.option("--release", metavar="R", help="Only this release.")
def watch(deployment: Deployment, *, as_json: bool, release: str | None) -> None:
    """A line per column, from the first, then as they come; ends after period T."""

    def say_waiting(periods: Mapping[str, Period]) -> None:
        awaited = ", ".join(f"period {period} of {name}" for name, period in periods.items())
        click.echo(f"{deployment.broker.url}: waiting for {awaited}; Ctrl-C ends", err=True)

    async def work() -> None:
        async with deployment.connect() as log:
            columns = subscribe(log, deployment.study, release, patience=deployment.timeout, waits=say_waiting)
            async for column in columns:
                click.echo(json.dumps(_column_to_dict(column)) if as_json else _column_line(column))

    run_until_told(work())


def _column_to_dict(column: Published) -> dict[str, Any]:
    """The object that `watch --json` prints."""
    return {
        "release": column.release,
        "period": column.period,
        "rows": len(column.column),
        "digest": column.digest.hex(),
    }


def _column_line(column: Published) -> str:
    rows, digest = f"{len(column.column):,} rows", column.digest.hex()[:12]
    return f"{column.release} period {column.period}: {_shares(column)}; {rows}, sha256 {digest}"


def _shares(column: Published) -> str:
    """What a column says about the real people, with 95% half-widths: each symbol's share, or of those with a one so far."""
    contract = column.panel.contract
    asked: list[tuple[str, Query]]
    if isinstance(contract, WindowContract):
        asked = [(symbol, exactly(symbol)) for symbol in contract.alphabet[:8]]
    else:
        asked = [("at least one so far", AtLeast(1))]
    answers = [(name, column.panel.fraction(query, column.period)) for name, query in asked]
    return ", ".join(f"{name} {a.value:.1%} ±{(a.high - a.low) / 2:.1%}" for name, a in answers)


@click.command()
@on_deployment
@timeout_option(AS_LONG_AS_IT_TAKES)
@click.option("--out", "folder", metavar="DIR", type=click.Path(path_type=Path), required=True, help="Where to write.")
@click.option(
    "--parquet", is_flag=True, help="Also as Parquet files, which streamproc.load_panel turns into panels by itself."
)
def pull(deployment: Deployment, *, folder: Path, parquet: bool) -> None:
    """The releases so far as CSV files, and ledger.json."""
    if parquet:
        check_arrow()
    public = run_once(deployment, _public(deployment), waits=True)
    results_folder(folder, [release.name for release in deployment.study.releases], ())
    for release in deployment.study.releases:
        panel = public.panel(release.name)
        if panel is not None:
            save_panel(panel, folder / f"{release.name}.csv")
            if parquet:
                save_panel(panel, folder / f"{release.name}.parquet")
    write_json(folder / "ledger.json", ledger_to_dict(public.ledger, _people(public)))
    click.echo(f"period {public.period} of {deployment.study.horizon}: wrote {folder}")


def _people(public: PublicStudy) -> int | None:
    """`n`; None before the first column."""
    return next((contract.n for contract in public.contracts().values()), None)


def ledger_to_dict(ledger: VerifiedLedger | None, n: int | None) -> dict[str, Any]:
    """The ledger as plain values; digests in hexadecimal. With `n`, which a release's contract needs."""
    if ledger is None:
        return {"study": None, "periods": []}
    return {
        "study": dict(ledger.study.study),
        "fingerprint": ledger.study.fingerprint.hex(),
        "insecure": ledger.study.insecure,
        "n": n,
        "head": ledger.head.hex(),
        "periods": [_with_measurements(ledger, record) for record in ledger.periods],
    }


def _with_measurements(ledger: VerifiedLedger, record: PeriodRecord) -> dict[str, Any]:
    found = period_to_dict(record)
    for name, entry in found["releases"].items():
        entry["measurements"] = ledger.measurements[name, record.period].tolist()
    return found


@click.command()
@on_deployment
@timeout_option(AS_LONG_AS_IT_TAKES)
@json_option
def verify(deployment: Deployment, *, as_json: bool) -> None:
    """Walk the ledger's chain and recompute every digest."""
    public = run_once(deployment, _public(deployment), waits=True)
    public.check_complete()
    columns = sum(len(public.columns(release.name)) for release in deployment.study.releases)
    head = public.ledger.head.hex() if public.ledger else None
    found = {"study": deployment.study.name, "verified": True, "periods": public.period, "columns": columns, "head": head}
    said = (
        f"{public.period} periods, {columns} columns verified, head {head}"
        if head
        else "has no ledger yet: nothing to verify"
    )
    click.echo(json.dumps(found) if as_json else f"{deployment.study.name}: {said}")
