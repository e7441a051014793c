"""`plan`: what a study will cost and how accurate it will be, before there is any data."""

from __future__ import annotations

import json
from pathlib import Path

import click

from streamproc.cli.formatting import tuning_progress
from streamproc.cli.plan.plot import check_plot_path, write_plot
from streamproc.cli.plan.tables import show_plan
from streamproc.errors import StudyError
from streamproc.files.study_files import read_roster, read_study
from streamproc.planning import ASSUMED_PEOPLE, plan_study, plan_to_dict
from streamproc.study import Study


def plan(study_path: Path, as_json: bool, plot_path: Path | None, compare: bool, tune: bool) -> None:
    """Print the plan as tables or as JSON, and draw it if `plot_path` is given."""
    if plot_path is not None:
        check_plot_path(plot_path)
    study = read_study(study_path)
    people = _population_size(study, study_path.parent)
    with tuning_progress():
        planned = plan_study(study, people, compare_long=compare, compare_tuned=tune)
    if as_json:
        click.echo(json.dumps(plan_to_dict(planned), ensure_ascii=False))
    else:
        show_plan(planned)
    if plot_path is not None:
        write_plot(planned, plot_path)
        if not as_json:
            click.echo(f"Plot: {plot_path}")


def _population_size(study: Study, folder: Path) -> int | None:
    """Return `n`: the number of ids in the roster, else the size in the study file, else an assumed size.

    In an open study it is the size, the number of people present, or None. `folder` is the folder of the study file: a
    roster's path is relative to it.
    """
    roster, size = study.population.roster, study.population.size
    if study.is_open:
        return size
    if roster is not None and (folder / roster).exists():
        return len(read_roster(folder / roster))
    if size is None and roster is not None:
        got = f"nothing, and the roster {roster} does not exist"
        raise StudyError("population.size", got, "the expected number of people, which a plan needs")
    return ASSUMED_PEOPLE if size is None else size
