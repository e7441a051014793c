"""Continual release of differentially private synthetic data from longitudinal data.

    study = streamproc.read_study("poverty.toml")
    histories = streamproc.read_panel("people.csv", study)
    noise = streamproc.SystemEntropy()
    contracts = streamproc.contracts(study, histories.people, noise)
    tallies = streamproc.tallies_of(study, histories.filled(study))
    replayed = streamproc.replay_study(study, contracts, tallies, noise)

    panel = replayed.panels["quarterly"]
    panel.fraction(streamproc.count_of(["1"], at_least=2, of=3))
    streamproc.save_panel(panel, "quarterly.parquet")

Names are imported when they are first used: importing the package costs nothing, and its pure parts stay pure.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamproc.errors import StreamprocError as StreamprocError
    from streamproc.files.release_files import load_panel as load_panel
    from streamproc.files.release_files import save_panel as save_panel
    from streamproc.files.study_files import read_people as read_people
    from streamproc.files.study_files import read_study as read_study
    from streamproc.panel import Answer as Answer
    from streamproc.panel import AtLeast as AtLeast
    from streamproc.panel import LastSymbols as LastSymbols
    from streamproc.panel import Panel as Panel
    from streamproc.panel import Query as Query
    from streamproc.panel import count_of as count_of
    from streamproc.panel import exactly as exactly
    from streamproc.panel import in_a_row as in_a_row
    from streamproc.releases.contracts import make_contracts as make_contracts
    from streamproc.releases.contracts import stated_contracts as stated_contracts
    from streamproc.releases.kind import Contract as Contract
    from streamproc.replay import ReplayResult as ReplayResult
    from streamproc.replay import replay_study as replay_study
    from streamproc.replay import tallies_of as tallies_of
    from streamproc.replay.people import People as People
    from streamproc.storage.entropy import SeededEntropy as SeededEntropy
    from streamproc.storage.entropy import SystemEntropy as SystemEntropy
    from streamproc.study import Study as Study
    from streamproc.study import parse_study as parse_study

_HOMES = {
    "streamproc.errors": ["StreamprocError"],
    "streamproc.panel": ["Answer", "AtLeast", "LastSymbols", "Panel", "Query", "count_of", "exactly", "in_a_row"],
    "streamproc.storage.entropy": ["SeededEntropy", "SystemEntropy"],
    "streamproc.files.study_files": ["read_people", "read_study"],
    "streamproc.files.release_files": ["load_panel", "save_panel"],
    "streamproc.replay": ["ReplayResult", "replay_study", "tallies_of"],
    "streamproc.replay.people": ["People"],
    "streamproc.study": ["Study", "parse_study"],
    "streamproc.releases.contracts": ["make_contracts", "stated_contracts"],
    "streamproc.releases.kind": ["Contract"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0605


if not TYPE_CHECKING:  # or a misspelt name would pass for one of unknown type

    def __getattr__(name: str) -> Any:
        """Import a public name from where it lives, and keep it."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
