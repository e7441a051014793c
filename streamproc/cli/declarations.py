"""Every command as the command line declares it: its arguments, its options and its help.

Nothing here imports NumPy, Rich or aiohttp, so that help is shown at once. The module that does the work of a command is
imported when the command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamproc.cli.deployment_options import BROKER_TIMEOUT_HELP, on_deployment, timeout_option
from streamproc.cli.options import again_option, json_option, panel_argument, seed_option, study_argument, without_deployment
from streamproc.cli.role_options import LOG_OPTIONS, PUBLIC_HELP, RoleOptions, role

if TYPE_CHECKING:
    from streamproc.service.deployment import Deployment

PEOPLE = 5_000
MAX_PEOPLE = 1_000_000
MAX_RUNS = 1_000_000


@click.command()
@click.option(
    "--people", type=click.IntRange(1, MAX_PEOPLE), default=PEOPLE, show_default=True, metavar="N", help="How many."
)
@click.option("--out", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Where files go; default: a new one.")
@click.option("--serve", is_flag=True, help="Serve the status page, and stay until told to stop.")
@click.option("--public", metavar="HOST:PORT", help="Serve there; default: a free port of 127.0.0.1.")
@seed_option
def demo(people: int, folder: Path | None, *, serve: bool, public: str | None, seed: int | None) -> None:
    """A year of simulated people, streamed, and what it costs."""
    from streamproc.cli.commands.demo import demo

    demo(people, folder, serve=serve, public=public, seed=seed)


@click.command()
@on_deployment
@timeout_option()
@click.option("--print", "only_print", is_flag=True, help="Only show what would be created and allowed.")
def init(deployment: Deployment, *, only_print: bool) -> None:
    """Create a study's topics, and show the ACLs each role needs."""
    from streamproc.cli.commands.init import init

    init(deployment, only_print=only_print)


_PLAN_NAMES = """\
The object that --json prints; a unit is part of the name, and costs are under the study's adjacency:

\b
study alphabet horizon n adjacency budget rho epsilon delta
other_adjacency   {adjacency rho epsilon}: what the same noise costs there
zero-out studies  beside every cost X also X_replace_one, of the same noise:
                  no input has a zero-out neighbour in a window release
periods           [{period rho_spent epsilon_spent}], running totals
warnings, notes   [{code release message}]
releases          {NAME: {
  kind share rho epsilon noise_people n_pad n_star n_star_expected
  variance        of the noise, people squared: of a bin; or a list, b = 1..T
  window:         k measure beta bins
  cumulative:     counter allocation event
  other_adjacency, periods: as above
  queries         {QUERY: {label half_people_columns_only worst last
                   periods: [{period stderr_people half_people
                              stderr_points half_points}]}}
  memory          {rows row_bytes column_bytes kept_bytes}
  alternatives    [{measure chosen bin_stderr_people n_pad rows variance_ratio}]
                  [{counter allocation chosen worst_stderr_people
                    rms_stderr_people rms_ratio}] }}
"""


@click.command(epilog=_PLAN_NAMES)
@without_deployment
@study_argument
@json_option
@click.option("--plot", "plot_path", type=click.Path(path_type=Path), metavar="FILE", help="Draw it: .png, .svg or .pdf.")
@click.option("--compare", is_flag=True, help="Compare counters also over more than 200 periods: a minute or more.")
def plan(study_path: Path, as_json: bool, plot_path: Path | None, compare: bool) -> None:
    """What a study will cost and how accurate it will be.

    Nothing but the study file is read, and its roster if it names one: for the number of people.
    """
    from streamproc.cli.commands.plan import plan

    plan(study_path, as_json, plot_path, compare)


@click.command()
@study_argument
@panel_argument
@without_deployment
@click.option(
    "--out", "folder", metavar="DIR", required=True, type=click.Path(path_type=Path), help="Folder for the results."
)
@click.option(
    "--repeat",
    "runs",
    metavar="N",
    type=click.IntRange(1, MAX_RUNS),
    help="Release N times over, on all cores, and write how far every answer is from the truth to DIR/errors.csv: private.",
)
@seed_option
@again_option
@json_option
def replay(
    study_path: Path, panel_path: Path, folder: Path, runs: int | None, seed: int | None, again: bool, as_json: bool
) -> None:
    """Release a whole study over a panel file.

    Writes DIR/<release>.csv, the synthetic panels, and DIR/summary.json, what they hold and cost. PANEL is CSV or Parquet
    with header individual,1,...,T. Everybody in it is in the study; with a roster, everybody on the roster is.
    """
    from streamproc.cli.commands.replay import replay

    replay(study_path, panel_path, folder, runs, seed, again, as_json)


_catch_up = click.option("--catch-up", is_flag=True, help="Close all periods the schedule missed.")


@click.command()
@role
@seed_option
@again_option
@_catch_up
@click.option("--until-done", is_flag=True, help="End when period T is released.")
def run(deployment: Deployment, serving: RoleOptions, *, again: bool, catch_up: bool, until_done: bool) -> None:
    """All roles of a study in one process."""
    from streamproc.cli.commands.roles import run

    run(deployment, serving, again=again, catch_up=catch_up, until_done=until_done)


@click.command()
@role
@click.option(
    "--partition", "partitions", metavar="P", type=click.IntRange(min=0), multiple=True, help="Only these; may be repeated."
)
def gather(deployment: Deployment, serving: RoleOptions, *, partitions: tuple[int, ...]) -> None:
    """Gather reports of the partitions assigned or named.

    The topics must exist: `streamproc init` creates them.
    """
    from streamproc.cli.commands.roles import gather_command

    gather_command(deployment, serving, partitions=partitions)


@click.command()
@role
@seed_option
@again_option
@_catch_up
def synthesize(deployment: Deployment, serving: RoleOptions, *, again: bool, catch_up: bool) -> None:
    """Synthesize and publish; one process per study.

    The topics must exist: `streamproc init` creates them.
    """
    from streamproc.cli.commands.roles import synthesize_command

    synthesize_command(deployment, serving, again=again, catch_up=catch_up)


@click.command()
@on_deployment
@timeout_option("Seconds before giving up on closing it, or on a broker that is away; --wait goes on until the release.")
@click.option("--period", type=click.IntRange(min=1), required=True, metavar="T", help="The period to close.")
@click.option("--wait", is_flag=True, help="Return when it is released, however long that takes; show what it waits for.")
def close(deployment: Deployment, *, period: int, wait: bool) -> None:
    """Close a period.

    Every report that was acknowledged before belongs to it or to an earlier one.
    """
    from streamproc.cli.commands.steward import close

    close(deployment, period=period, wait=wait)


@click.command()
@on_deployment
@panel_argument
@timeout_option(BROKER_TIMEOUT_HELP)
@click.option("--period", type=click.IntRange(min=1), metavar="T", help="Send the reports of this period only.")
@click.option(
    "--through",
    type=click.IntRange(min=1),
    metavar="T",
    help="Send all periods up to this one (default: all), also those that are closed.",
)
@click.option("--close", "closing", is_flag=True, help="Close each period after it is sent.")
@click.option("--packed", is_flag=True, help="Many reports to a record.")
def send(
    deployment: Deployment, *, panel_path: Path, period: int | None, through: int | None, closing: bool, packed: bool
) -> None:
    """Send the reports in a panel file.

    Returns when all are acknowledged. The file has a column for every period of the study; leave the cells of periods to
    come empty.
    """
    from streamproc.cli.commands.send import send

    send(deployment, panel_path=panel_path, period=period, through=through, closing=closing, packed=packed)


@click.command()
@on_deployment
@timeout_option("Seconds before giving up on a broker that is away; columns are waited for without end.")
@json_option
@click.option("--release", metavar="R", help="Only this release.")
def watch(deployment: Deployment, *, as_json: bool, release: str | None) -> None:
    """A line per column, from the first on, as they come.

    Ends after period T.
    """
    from streamproc.cli.commands.watch import watch

    watch(deployment, as_json=as_json, release=release)


@click.command()
@on_deployment
@timeout_option(BROKER_TIMEOUT_HELP)
@click.option("--out", "folder", metavar="DIR", type=click.Path(path_type=Path), required=True, help="Where to write.")
@click.option(
    "--parquet", is_flag=True, help="Also as Parquet files, which streamproc.load_panel turns into panels by itself."
)
def pull(deployment: Deployment, *, folder: Path, parquet: bool) -> None:
    """The releases so far as CSV files, and ledger.json."""
    from streamproc.cli.commands.pull import pull

    pull(deployment, folder=folder, parquet=parquet)


@click.command()
@on_deployment
@timeout_option(BROKER_TIMEOUT_HELP)
@json_option
def verify(deployment: Deployment, *, as_json: bool) -> None:
    """Check the ledger, every column, and the spending.

    Walks the ledger's chain and recomputes every digest and the cost of every period.
    """
    from streamproc.cli.commands.public import verify

    verify(deployment, as_json=as_json)


@click.command()
@on_deployment
@click.option("--public", metavar="HOST:PORT", required=True, help=PUBLIC_HELP)
@LOG_OPTIONS[0]
@LOG_OPTIONS[1]
def page(deployment: Deployment, *, public: str, log_json: bool, debug: bool) -> None:
    """Serve the status page, from public topics alone.

    Needs an analyst's rights, no state folder, and no other process. Stays until told to stop.
    """
    from streamproc.cli.commands.page import page

    page(deployment, public=public, log_json=log_json, debug=debug)


@click.command()
@on_deployment
@timeout_option(BROKER_TIMEOUT_HELP)
@click.option("--accept-cost", is_flag=True, help="Pay for an announced draw that was lost; the ledger says so for ever.")
def restore(deployment: Deployment, *, accept_cost: bool) -> None:
    """Rebuild a lost state folder from the topics."""
    from streamproc.cli.commands.steward import restore

    restore(deployment, accept_cost=accept_cost)


@click.command()
@on_deployment
@timeout_option(BROKER_TIMEOUT_HELP)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
def purge(deployment: Deployment, *, yes: bool) -> None:
    """After the last period, delete all that is private.

    Reports, tallies, control, rejects and state; what was released stays.

    Run it on every machine that has a state folder of the study.
    """
    from streamproc.cli.commands.purge import purge

    purge(deployment, yes=yes)


@click.command()
@on_deployment
@timeout_option()
@json_option
def status(deployment: Deployment, *, as_json: bool) -> None:
    """How far a study is and what it has spent."""
    from streamproc.cli.commands.public import status

    status(deployment, as_json=as_json)


COMMANDS = (
    demo,
    init,
    plan,
    replay,
    run,
    gather,
    synthesize,
    close,
    send,
    watch,
    pull,
    verify,
    page,
    restore,
    purge,
    status,
)
"""In the order in which help lists them."""
