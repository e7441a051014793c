"""`streamproc plan`: what a study will cost and how accurate it will be, before any data."""

from __future__ import annotations

import json
from pathlib import Path

import click

from streamproc.cli.options import json_option, study_argument, without_deployment
from streamproc.cli.plan_plot import check_plot_path, write_plot
from streamproc.cli.plan_table import show_plan
from streamproc.errors import StudyError
from streamproc.planning import ASSUMED_PEOPLE, plan_study, plan_to_dict
from streamproc.ports.files import read_study
from streamproc.ports.roster import read_roster
from streamproc.study import Study

_JSON_NAMES = """\
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


@click.command(epilog=_JSON_NAMES)
@without_deployment
@study_argument
@json_option
@click.option("--plot", "plot_path", type=click.Path(path_type=Path), metavar="FILE", help="Draw it: .png, .svg or .pdf.")
@click.option("--compare", is_flag=True, help="Compare counters also over more than 200 periods: a minute or more.")
def plan(study_path: Path, as_json: bool, plot_path: Path | None, compare: bool) -> None:
    """What a study will cost and how accurate it will be.

    Nothing but the study file is read, and its roster if it names one: for the number of people.
    """
    if plot_path is not None:
        check_plot_path(plot_path)
    study = read_study(study_path)
    planned = plan_study(study, _people(study, study_path.parent), compare_long=compare)
    if as_json:
        click.echo(json.dumps(plan_to_dict(planned), ensure_ascii=False))
    else:
        show_plan(planned)
    if plot_path is not None:
        write_plot(planned, plot_path)
        if not as_json:
            click.echo(f"Plot: {plot_path}")


def _people(study: Study, folder: Path) -> int:
    """`n`: the ids in the roster, which is relative to the study file; else the size expected, or assumed."""
    roster, size = study.population.roster, study.population.size
    if roster is not None and (folder / roster).exists():
        return len(read_roster(folder / roster))
    if size is None and roster is not None:
        got = f"nothing, and there is no roster {roster}"
        raise StudyError("population.size", got, "the number of people expected, which a plan needs")
    return ASSUMED_PEOPLE if size is None else size
