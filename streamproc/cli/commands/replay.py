"""`replay`: release a whole study over a panel file, once or many times, without a broker."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from streamproc.cli.formatting import (
    INSECURE,
    add_name_column,
    format_composition,
    format_delta,
    format_epsilon,
    format_people,
    format_replace_one,
    format_rounded_up,
    format_unknown_streams,
    new_table,
    print_table,
    progress_bar,
    table_console,
)
from streamproc.files.release_files import ERRORS, SUMMARY, json_text, results_folder, write_results, writing_errors
from streamproc.files.study_files import check_enrolled, read_people, read_roster, read_study
from streamproc.offline import ReplayResult, replay_study, tallies_of
from streamproc.offline.evaluation import Evaluator, Score, questions_of
from streamproc.offline.people import People
from streamproc.offline.replay import Tallies
from streamproc.offline.summary import Summary, summary_of
from streamproc.privacy.noise import Entropy
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.releases.contracts import make_contracts
from streamproc.releases.kind import Contract
from streamproc.releases.query import LEVEL
from streamproc.service.monte_carlo import repeat_study
from streamproc.service.registration import NOT_CHECKED, register_replay
from streamproc.storage.clock import SystemClock
from streamproc.storage.entropy import SeededEntropy, SystemEntropy
from streamproc.storage.site_registry import SiteRegistry
from streamproc.study import Study


def replay(
    study_path: Path, panel_path: Path, folder: Path, runs: int | None, seed: int | None, again: bool, as_json: bool
) -> None:
    """Release a whole study over a panel file, write the results, and show what it cost."""
    study = read_study(study_path)
    people = read_people(panel_path, study)
    if study.population.sample is not None:
        click.echo("population.sample applies to the stream only: everybody in the file may enter this replay", err=True)
    if study.population.roster is not None:
        roster = read_roster(study_path.parent / study.population.roster)
        check_enrolled(panel_path, people, roster)
        people = people.enrolled(roster)
    entropy: Entropy = SystemEntropy() if seed is None else SeededEntropy(seed)
    contracts = make_contracts(study, people.size, entropy)
    tallies = tallies_of(study, people.filled(study))
    results_folder(folder, contracts, inputs=(study_path, panel_path))
    _register(study, people, folder, insecure=seed is not None, again=again)
    scores: Mapping[str, Score] | None = None
    if runs is None:
        replayed = _replay_once(study, contracts, tallies, entropy)
    else:
        replayed, scores = _replay_repeatedly(study, contracts, tallies, seed, runs, folder)
    summary = summary_of(replayed)
    written = write_results(folder, replayed.panels, summary, repeated=runs is not None)
    if as_json:
        click.echo(json_text(summary), nl=False)
    else:
        show_report(summary, written, scores, folder / ERRORS)


def _register(study: Study, people: People, folder: Path, *, insecure: bool, again: bool) -> None:
    """Record this replay in the site registry, and print what the registry cannot check.

    This must return before any noise is drawn.
    """
    registry = SiteRegistry.of(os.environ)
    if registry is None:
        if not insecure and not again:
            click.echo(_replacement_warning(folder) if _holds_secure_replay(folder, study) else NOT_CHECKED, err=True)
        return
    assert people.ids is not None
    registered = register_replay(registry, study, people.ids, SystemClock().now(), insecure=insecure, again=again)
    if registered.created:
        click.echo(f"created the site registry {registry.path}", err=True)
    if registered.earlier:
        click.echo(f"registry: {format_composition(registered.composition, study.privacy.delta)}", err=True)
    if registered.unknown:
        click.echo(format_unknown_streams(registered.unknown), err=True)


def _replacement_warning(folder: Path) -> str:
    return f"{folder}: replacing an earlier replay; a person who sees both sees releases that cost twice the budget"


def _holds_secure_replay(folder: Path, study: Study) -> bool:
    """Return whether the folder holds a summary of this study that was not made with a seed."""
    try:
        earlier = json.loads((folder / SUMMARY).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(earlier, dict) and earlier.get("study") == study.name and earlier.get("insecure") is False


def _replay_once(study: Study, contracts: Mapping[str, Contract], tallies: Tallies, entropy: Entropy) -> ReplayResult:
    with progress_bar("periods", len(tallies)) as advance:
        return replay_study(study, contracts, tallies, entropy, lambda period, synthesis, steps: advance())


def _replay_repeatedly(
    study: Study, contracts: Mapping[str, Contract], tallies: Tallies, seed: int | None, runs: int, folder: Path
) -> tuple[ReplayResult, Mapping[str, Score]]:
    """Return run 0 and the scores over all runs. The rows of `errors.csv` are written after each run."""
    evaluator = Evaluator({name: questions_of(contract, tallies) for name, contract in contracts.items()})
    scores = dict.fromkeys(contracts, Score())
    first: ReplayResult | None = None
    with writing_errors(folder) as file, progress_bar("runs", runs) as advance:
        for run in repeat_study(study, contracts, tallies, evaluator, runs, seed):
            file.write(run.rows)
            scores = {name: score + run.scores[name] for name, score in scores.items()}
            first = first or run.replayed
            advance()
    assert first is not None
    return first, scores


def show_report(summary: Summary, written: Sequence[Path], scores: Mapping[str, Score] | None, errors: Path) -> None:
    """Print the cost and size of each release, its accuracy if there are `scores`, and the files written."""
    console = table_console()
    print_table(console, _table(summary, scores))
    history = (
        "whole history" if summary["n"] is not None else "whole participation, whether and when they take part included"
    )
    console.print(
        f"\nTogether rho {format_rounded_up(summary['rho_spent'])} of {format_rounded_up(summary['rho'])}: epsilon "
        f"{format_epsilon(summary['epsilon'])} at delta {format_delta(summary['delta'])}, for a person's {history} "
        f"({summary['adjacency']})"
        f"{format_replace_one(summary.get('rho_spent_replace_one'), summary.get('epsilon_replace_one'))}."
    )
    if summary["insecure"]:
        console.print(Text(INSECURE, style="bold red"))
    if scores is not None:
        console.print("RMS error and coverage are measured against the truth, so they are as private as errors.csv.")
    for path in written:
        console.print(f"wrote {path}", soft_wrap=True)
    if scores is not None:
        console.print(f"wrote {errors} (private)", soft_wrap=True)


def _table(summary: Summary, scores: Mapping[str, Score] | None) -> Table:
    people = "open study" if summary["n"] is None else format_people(summary["n"])
    table = new_table(f"{summary['study']}: {people}, {summary['adjacency']}, delta {format_delta(summary['delta'])}")
    add_name_column(table, "release", summary["releases"])
    zero_out = "rho_replace_one" in summary
    replace_one = ["rho\nreplace-one", "epsilon\nreplace-one"] if zero_out else []
    headings = ["synthetic\npeople n*", "n_pad\nper bin", "rho\nspent", "epsilon\nspent", *replace_one, "counts\nclamped"]
    if scores is not None:
        unit = "people" if summary["n"] is None else "% points"
        headings += [f"RMS error\n{unit}", f"{LEVEL:.0%} CI\ncovers"]
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, release in summary["releases"].items():
        scale = 1 if summary["n"] is None else 100
        measured = () if scores is None else (f"{scale * scores[name].rms_error:.3g}", f"{scores[name].coverage:.1%}")
        table.add_row(
            name,
            f"{release['n_star']:,}",
            f"{release['n_pad']:,}",
            *_costs(release["rho_spent"], summary["delta"]),
            *(_costs(release["rho_spent_replace_one"], summary["delta"]) if zero_out else ()),
            f"{release['clamped']:,}",
            *measured,
        )
    return table


def _costs(rho: float, delta: float) -> tuple[str, str]:
    return format_rounded_up(rho), format_epsilon(epsilon_of_rho(rho, delta))
