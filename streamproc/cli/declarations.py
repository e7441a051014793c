"""Declarations of all commands: their arguments, options and help texts.

This module imports no NumPy, Rich or aiohttp, so that help is shown at once. The work of each command is in a module of
`commands/`, which is imported when the command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamproc.cli.options import (
    BROKER_TIMEOUT_HELP,
    LOG_OPTIONS,
    PUBLIC_HELP,
    RoleOptions,
    again_option,
    ignore_deployment_options,
    json_option,
    panel_argument,
    seed_option,
    study_argument,
    timeout_option,
    with_deployment,
    with_role_options,
)

if TYPE_CHECKING:
    from streamproc.service.deployment import Deployment

DEMO_PEOPLE = 5_000
MAX_PEOPLE = 1_000_000
MAX_RUNS = 1_000_000


@click.command()
@click.option(
    "--people",
    type=click.IntRange(1, MAX_PEOPLE),
    default=DEMO_PEOPLE,
    show_default=True,
    metavar="N",
    help="Number of people to simulate; with --open about the number who are present at a time.",
)
@click.option("--open", "is_open", is_flag=True, help="Simulate three years in which people sign up and leave.")
@click.option(
    "--out", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Folder for the files; default: a new one."
)
@click.option("--serve", is_flag=True, help="Serve the status page until Ctrl-C, also after the last period.")
@click.option(
    "--public", metavar="HOST:PORT", help="Serve the status page at this address; default: a free port of 127.0.0.1."
)
@seed_option
def demo(people: int, folder: Path | None, *, is_open: bool, serve: bool, public: str | None, seed: int | None) -> None:
    """Stream a year of simulated people, and show what it costs."""
    from streamproc.cli.commands.demo import demo

    demo(people, folder, is_open=is_open, serve=serve, public=public, seed=seed)


@click.command()
@with_deployment
@timeout_option()
@click.option("--print", "only_print", is_flag=True, help="Create nothing; only print the topics and the ACL commands.")
def init(deployment: Deployment, *, only_print: bool) -> None:
    """Create a study's topics, and print the ACLs each role needs."""
    from streamproc.cli.commands.init import init

    init(deployment, only_print=only_print)


_PLAN_NAMES = """\
The object that --json prints. Names include the unit, and costs are under the study's adjacency:

\b
study alphabet horizon n adjacency budget rho epsilon delta
other_adjacency   {adjacency rho epsilon}: what the same noise costs there
zero-out studies  every cost X has a second value X_replace_one, of the same
                  noise: no input has a zero-out neighbour in a window release
open studies      also tenure; horizon and n may be null, and so may points; the
                  last of the periods stands for all later ones
periods           [{period rho_spent epsilon_spent}], running totals
warnings, notes   [{code release message}]
releases          {NAME: {
  kind share rho epsilon noise_people n_pad n_star n_star_expected
  variance        of the noise, people squared: of a bin; or a list, by count
  measure
  window:         k beta bins
  cumulative:     event most
  spell:          event length
  pattern:        pattern states
  other_adjacency, periods: as above
  queries         {QUERY: {label half_people_columns_only worst last
                   periods: [{period stderr_people half_people
                              stderr_points half_points}]}}
  memory          {rows row_bytes column_bytes kept_bytes}
  alternatives    [{measure chosen bin_stderr_people n_pad rows variance_ratio}]
                  [{measure weights chosen worst_stderr_people
                    rms_stderr_people variance_ratio}] }}
"""


@click.command(epilog=_PLAN_NAMES)
@ignore_deployment_options
@study_argument
@json_option
@click.option(
    "--plot",
    "plot_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the plan into this .png, .svg or .pdf file.",
)
@click.option(
    "--compare",
    is_flag=True,
    help="Compare with the paper's mechanism even if there are more than 200 periods, which takes a minute or more.",
)
@click.option(
    "--tune",
    is_flag=True,
    help="Also compare weights tuned for the largest and for the mean error, which takes seconds to minutes.",
)
def plan(study_path: Path, as_json: bool, plot_path: Path | None, compare: bool, tune: bool) -> None:
    """Show what a study will cost and how accurate it will be.

    Reads only the study file and, if it names a roster, the number of people in the roster.
    """
    from streamproc.cli.commands.plan import plan

    plan(study_path, as_json, plot_path, compare, tune)


@click.command()
@study_argument
@panel_argument
@ignore_deployment_options
@click.option(
    "--out", "folder", metavar="DIR", required=True, type=click.Path(path_type=Path), help="Folder for the results."
)
@click.option(
    "--repeat",
    "runs",
    metavar="N",
    type=click.IntRange(1, MAX_RUNS),
    help="Release N times, on all cores, and write the error of every answer to DIR/errors.csv. That file is private.",
)
@seed_option
@again_option
@json_option
def replay(
    study_path: Path, panel_path: Path, folder: Path, runs: int | None, seed: int | None, again: bool, as_json: bool
) -> None:
    """Release a whole study over a panel file.

    Writes the synthetic panels to DIR/<release>.csv, and their sizes and costs to DIR/summary.json. PANEL is CSV or Parquet
    with header individual,1,...,T. The study consists of everybody in PANEL or, with a roster, everybody on the roster.
    """
    from streamproc.cli.commands.replay import replay

    replay(study_path, panel_path, folder, runs, seed, again, as_json)


_catch_up = click.option("--catch-up", is_flag=True, help="At the start, close all periods that ended without being closed.")


@click.command()
@with_role_options
@seed_option
@again_option
@_catch_up
@click.option("--until-done", is_flag=True, help="Exit when the last period is released.")
def run(deployment: Deployment, options: RoleOptions, *, again: bool, catch_up: bool, until_done: bool) -> None:
    """Run all roles of a study in one process."""
    from streamproc.cli.commands.run import run

    run(deployment, options, again=again, catch_up=catch_up, until_done=until_done)


@click.command()
@with_role_options
@click.option(
    "--partition",
    "partitions",
    metavar="P",
    type=click.IntRange(min=0),
    multiple=True,
    help="Gather only this partition; may be repeated. Default: the partitions that the group assigns.",
)
def gather(deployment: Deployment, options: RoleOptions, *, partitions: tuple[int, ...]) -> None:
    """Gather the reports of assigned or named partitions.

    The topics must exist: `streamproc init` creates them.
    """
    from streamproc.cli.commands.run import gather_command

    gather_command(deployment, options, partitions=partitions)


@click.command()
@with_role_options
@seed_option
@again_option
@_catch_up
def synthesize(deployment: Deployment, options: RoleOptions, *, again: bool, catch_up: bool) -> None:
    """Synthesize and publish; run one process per study.

    The topics must exist: `streamproc init` creates them.
    """
    from streamproc.cli.commands.run import synthesize_command

    synthesize_command(deployment, options, again=again, catch_up=catch_up)


@click.command()
@with_deployment
@timeout_option("Seconds before giving up on closing the period, or on a broker that is away. --wait has no time limit.")
@click.option("--period", type=click.IntRange(min=1), required=True, metavar="T", help="The period to close.")
@click.option(
    "--last", is_flag=True, help="End an open study with this period. No period can be closed after it, and none reopened."
)
@click.option(
    "--wait",
    is_flag=True,
    help="Return when the period is released, without a time limit, and show what the release waits for.",
)
def close(deployment: Deployment, *, period: int, last: bool, wait: bool) -> None:
    """Close a period.

    Every report acknowledged before belongs to this period or an earlier one.
    """
    from streamproc.cli.commands.close import close

    close(deployment, period=period, last=last, wait=wait)


@click.command()
@with_deployment
@panel_argument
@timeout_option(BROKER_TIMEOUT_HELP)
@click.option("--period", type=click.IntRange(min=1), metavar="T", help="Send the reports of this period only.")
@click.option(
    "--through",
    type=click.IntRange(min=1),
    metavar="T",
    help="Send all periods up to this one, including closed ones. Default: all periods in PANEL.",
)
@click.option("--close", "closing", is_flag=True, help="Close each period after it is sent.")
@click.option("--packed", is_flag=True, help="Pack many reports into each record.")
def send(
    deployment: Deployment, *, panel_path: Path, period: int | None, through: int | None, closing: bool, packed: bool
) -> None:
    """Send the reports in a panel file.

    Returns when all reports are acknowledged. The file has a column for every period of the study; leave the cells of future
    periods empty. Of a study without a horizon it has a column for every period so far.
    """
    from streamproc.cli.commands.send import send

    send(deployment, panel_path=panel_path, period=period, through=through, closing=closing, packed=packed)


@click.command()
@with_deployment
@timeout_option("Seconds before giving up on a broker that is away. Waiting for columns has no time limit.")
@json_option
@click.option("--release", metavar="R", help="Show only this release.")
def watch(deployment: Deployment, *, as_json: bool, release: str | None) -> None:
    """Print a line per column, from the first on, as they arrive.

    Exits after the last period. An open study without a horizon has one when it is closed with --last.
    """
    from streamproc.cli.commands.watch import watch

    watch(deployment, as_json=as_json, release=release)


@click.command()
@with_deployment
@timeout_option(BROKER_TIMEOUT_HELP)
@click.option("--out", "folder", metavar="DIR", type=click.Path(path_type=Path), required=True, help="Folder for the files.")
@click.option("--parquet", is_flag=True, help="Also write Parquet files, which streamproc.load reads without a contract.")
def pull(deployment: Deployment, *, folder: Path, parquet: bool) -> None:
    """Write the releases so far as CSV files, and ledger.json."""
    from streamproc.cli.commands.pull import pull

    pull(deployment, folder=folder, parquet=parquet)


@click.command()
@with_deployment
@timeout_option(BROKER_TIMEOUT_HELP)
@json_option
def verify(deployment: Deployment, *, as_json: bool) -> None:
    """Check the ledger, every column, and the spending.

    Verifies the ledger's chain, and recomputes every digest and the cost of every period.
    """
    from streamproc.cli.commands.verify import verify

    verify(deployment, as_json=as_json)


@click.command()
@with_deployment
@click.option("--public", metavar="HOST:PORT", required=True, help=PUBLIC_HELP)
@LOG_OPTIONS[0]
@LOG_OPTIONS[1]
def page(deployment: Deployment, *, public: str, log_json: bool, debug: bool) -> None:
    """Serve the status page, from public topics alone.

    Needs only an analyst's rights, no state folder and no other process. Runs until SIGTERM or Ctrl-C.
    """
    from streamproc.cli.commands.page import page

    page(deployment, public=public, log_json=log_json, debug=debug)


@click.command()
@with_deployment
@timeout_option(BROKER_TIMEOUT_HELP)
@click.option(
    "--accept-cost",
    is_flag=True,
    help="Accept the cost of an announced draw that was lost. The ledger records it permanently.",
)
def restore(deployment: Deployment, *, accept_cost: bool) -> None:
    """Rebuild a lost state folder from the topics."""
    from streamproc.cli.commands.restore import restore

    restore(deployment, accept_cost=accept_cost)


@click.command()
@with_deployment
@timeout_option(BROKER_TIMEOUT_HELP)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
def purge(deployment: Deployment, *, yes: bool) -> None:
    """After the last period, delete everything private.

    Deletes the topics of reports, tallies, control records and rejects, and the state folder. Everything released stays.

    Run it on every machine that has a state folder of the study.
    """
    from streamproc.cli.commands.purge import purge

    purge(deployment, yes=yes)


@click.command()
@with_deployment
@timeout_option()
@json_option
def status(deployment: Deployment, *, as_json: bool) -> None:
    """Show how far a study is and what it has spent."""
    from streamproc.cli.commands.status import status

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
"""All commands, in the order in which help lists them."""
