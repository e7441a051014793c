"""`streamproc replay`: a whole study over a panel file, once or many times, without a stream."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import click

from streamproc.cli.figures import composition_shown, unknown_shown
from streamproc.cli.progress import progress
from streamproc.cli.replay_report import show_report
from streamproc.ports.clock import SystemClock
from streamproc.ports.entropy import SeededEntropy, SystemEntropy
from streamproc.ports.files import check_enrolled, read_panel, read_study
from streamproc.ports.results import ERRORS, SUMMARY, json_text, results_folder, write_results, writing_errors
from streamproc.ports.roster import read_roster
from streamproc.ports.site_registry import SiteRegistry
from streamproc.privacy.entropy import Entropy
from streamproc.replay import Replayed, replay_study, tallies_of
from streamproc.replay.errors_table import questions_of
from streamproc.replay.examine import Examine, Score
from streamproc.replay.study import Tallies
from streamproc.replay.summary import summary_of
from streamproc.service.registering import NOT_CHECKED, register_replay
from streamproc.service.repeat import repeat_study
from streamproc.study import Histories, Study
from streamproc.synth.contract import Contract, contracts


def replay(
    study_path: Path, panel_path: Path, folder: Path, runs: int | None, seed: int | None, again: bool, as_json: bool
) -> None:
    """Release a whole study over a panel file, and show what it cost."""
    study = read_study(study_path)
    histories = read_panel(panel_path, study)
    if study.population.roster is not None:
        roster = read_roster(study_path.parent / study.population.roster)
        check_enrolled(panel_path, histories, roster)
        histories = histories.enrolled(roster)
    entropy: Entropy = SystemEntropy() if seed is None else SeededEntropy(seed)
    promised = contracts(study, histories.people, entropy)
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


def _register(study: Study, histories: Histories, folder: Path, *, insecure: bool, again: bool) -> None:
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
        click.echo(f"registry: {composition_shown(made.composition, study.privacy.delta)}", err=True)
    if made.unknown:
        click.echo(unknown_shown(made.unknown), err=True)


def _replaced(folder: Path) -> str:
    return f"{folder}: holds an earlier replay, which is replaced; whoever sees both sees what costs twice the budget"


def _holds_real_one(folder: Path, study: Study) -> bool:
    """Whether the summary there is of this study, with real noise."""
    try:
        earlier = json.loads((folder / SUMMARY).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(earlier, dict) and earlier.get("study") == study.name and earlier.get("insecure") is False


def _once(study: Study, promised: Mapping[str, Contract], tallies: Tallies, entropy: Entropy) -> Replayed:
    with progress("periods", study.horizon) as advance:
        return replay_study(study, promised, tallies, entropy, lambda period, synthesis, steps: advance())


def _repeated(
    study: Study, promised: Mapping[str, Contract], tallies: Tallies, seed: int | None, runs: int, folder: Path
) -> tuple[Replayed, Mapping[str, Score]]:
    """Run 0, and the scores of all runs together; rows of `errors.csv` are written as they come."""
    examine = Examine({name: questions_of(contract, tallies) for name, contract in promised.items()})
    scores = dict.fromkeys(promised, Score())
    first: Replayed | None = None
    with writing_errors(folder) as file, progress("runs", runs) as advance:
        for examined in repeat_study(study, promised, tallies, examine, runs, seed):
            file.write(examined.rows)
            scores = {name: score + examined.scores[name] for name, score in scores.items()}
            first = first or examined.replayed
            advance()
    assert first is not None
    return first, scores
