"""`streamproc replay`: a whole study over a panel file, once or many times, without a stream."""

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
    add_names,
    beside_replace_one,
    format_composition,
    format_delta,
    format_epsilon,
    format_rounded_up,
    format_unknown,
    print_table,
    progress,
    table_console,
    titled_table,
)
from streamproc.files.replay_output import ERRORS, SUMMARY, json_text, results_folder, write_results, writing_errors
from streamproc.files.study_files import check_enrolled, read_people, read_roster, read_study
from streamproc.privacy.noise import Entropy
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.releases.accuracy import LEVEL
from streamproc.releases.contracts import make_contracts
from streamproc.releases.kind import Contract
from streamproc.replay import ReplayResult, replay_study, tallies_of
from streamproc.replay.evaluation import Evaluator, Score, questions_of
from streamproc.replay.people import People
from streamproc.replay.replay import Tallies
from streamproc.replay.summary import Summary, summary_of
from streamproc.service.monte_carlo import repeat_study
from streamproc.service.registration import NOT_CHECKED, register_replay
from streamproc.storage.clock import SystemClock
from streamproc.storage.entropy import SeededEntropy, SystemEntropy
from streamproc.storage.site_registry import SiteRegistry
from streamproc.study import Study


def replay(
    study_path: Path, panel_path: Path, folder: Path, runs: int | None, seed: int | None, again: bool, as_json: bool
) -> None:
    """Release a whole study over a panel file, and show what it cost."""
    study = read_study(study_path)
    histories = read_people(panel_path, study)
    if study.population.roster is not None:
        roster = read_roster(study_path.parent / study.population.roster)
        check_enrolled(panel_path, histories, roster)
        histories = histories.enrolled(roster)
    entropy: Entropy = SystemEntropy() if seed is None else SeededEntropy(seed)
    promised = make_contracts(study, histories.size, entropy)
    tallies = tallies_of(study, histories.filled(study))
    results_folder(folder, promised, inputs=(study_path, panel_path))
    _register(study, histories, folder, insecure=seed is not None, again=again)
    scores: Mapping[str, Score] | None = None
    if runs is None:
        replayed = _once(study, promised, tallies, entropy)
    else:
        replayed, scores = _repeated(study, promised, tallies, seed, runs, folder)
    summary = summary_of(replayed)
    written = write_results(folder, replayed.panels, summary, repeated=runs is not None)
    if as_json:
        click.echo(json_text(summary), nl=False)
    else:
        show_report(summary, written, scores, folder / ERRORS)


def _register(study: Study, histories: People, folder: Path, *, insecure: bool, again: bool) -> None:
    """Enter this replay in the site registry; say what the registry cannot check. Nothing is drawn before this returns."""
    registry = SiteRegistry.of(os.environ)
    if registry is None:
        if not insecure and not again:
            click.echo(_replaced(folder) if _holds_real_one(folder, study) else NOT_CHECKED, err=True)
        return
    assert histories.ids is not None
    made = register_replay(registry, study, histories.ids, SystemClock().now(), insecure=insecure, again=again)
    if made.created:
        click.echo(f"created the site registry {registry.path}", err=True)
    if made.earlier:
        click.echo(f"registry: {format_composition(made.composition, study.privacy.delta)}", err=True)
    if made.unknown:
        click.echo(format_unknown(made.unknown), err=True)


def _replaced(folder: Path) -> str:
    return f"{folder}: holds an earlier replay, which is replaced; whoever sees both sees what costs twice the budget"


def _holds_real_one(folder: Path, study: Study) -> bool:
    """Whether the summary there is of this study, with real noise."""
    try:
        earlier = json.loads((folder / SUMMARY).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(earlier, dict) and earlier.get("study") == study.name and earlier.get("insecure") is False


def _once(study: Study, promised: Mapping[str, Contract], tallies: Tallies, entropy: Entropy) -> ReplayResult:
    with progress("periods", study.horizon) as advance:
        return replay_study(study, promised, tallies, entropy, lambda period, synthesis, steps: advance())


def _repeated(
    study: Study, promised: Mapping[str, Contract], tallies: Tallies, seed: int | None, runs: int, folder: Path
) -> tuple[ReplayResult, Mapping[str, Score]]:
    """Run 0, and the scores of all runs together; rows of `errors.csv` are written as they come."""
    examine = Evaluator({name: questions_of(contract, tallies) for name, contract in promised.items()})
    scores = dict.fromkeys(promised, Score())
    first: ReplayResult | None = None
    with writing_errors(folder) as file, progress("runs", runs) as advance:
        for examined in repeat_study(study, promised, tallies, examine, runs, seed):
            file.write(examined.rows)
            scores = {name: score + examined.scores[name] for name, score in scores.items()}
            first = first or examined.replayed
            advance()
    assert first is not None
    return first, scores


def show_report(summary: Summary, written: Sequence[Path], scores: Mapping[str, Score] | None, errors: Path) -> None:
    """The cost and size of each release, how accurate it was if `scores` says, and where the files are."""
    console = table_console()
    print_table(console, _table(summary, scores))
    console.print(
        f"\nTogether rho {format_rounded_up(summary['rho_spent'])} of {format_rounded_up(summary['rho'])}: epsilon "
        f"{format_epsilon(summary['epsilon'])} at delta {format_delta(summary['delta'])}, for a person's whole history "
        f"({summary['adjacency']})"
        f"{beside_replace_one(summary.get('rho_spent_replace_one'), summary.get('epsilon_replace_one'))}."
    )
    if summary["insecure"]:
        console.print(Text(INSECURE, style="bold red"))
    if scores is not None:
        console.print("RMS error and coverage are measured against the truth: as private as errors.csv.")
    for path in written:
        console.print(f"wrote {path}", soft_wrap=True)
    if scores is not None:
        console.print(f"wrote {errors} (private)", soft_wrap=True)


def _table(summary: Summary, scores: Mapping[str, Score] | None) -> Table:
    title = f"{summary['study']}: {summary['n']:,} people, {summary['adjacency']}, delta {format_delta(summary['delta'])}"
    table = titled_table(title)
    add_names(table, "release", summary["releases"])
    zero_out = "rho_replace_one" in summary
    beside = ["rho\nreplace-one", "epsilon\nreplace-one"] if zero_out else []
    headings = ["synthetic\npeople n*", "n_pad\nper bin", "rho\nspent", "epsilon\nspent", *beside, "counts\nclamped"]
    if scores is not None:
        headings += ["RMS error\n% points", f"{LEVEL:.0%} CI\ncovers"]
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, release in summary["releases"].items():
        measured = () if scores is None else (f"{100 * scores[name].rms_error:.3g}", f"{scores[name].coverage:.1%}")
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
