"""Builders of studies and of study files, used by all tests. A test names only the values that it is about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamproc.privacy.adjacency import Adjacency
from streamproc.study import Broker, CumulativeRelease, Population, Privacy, Release, SpellRelease, Study, WindowRelease

CLOSED_ADJACENCIES = (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT)
"""The adjacencies that a closed study can have."""

CLOSED_ADJACENCIES = (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT)
"""The adjacencies that a study may have in which nobody enters or leaves."""


def build_study(
    *releases: Release,
    name: str = "study",
    alphabet: Sequence[str] = ("0", "1"),
    horizon: int | None = 3,
    rho: float = 1.0,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    population: Population | None = None,
    roster: str | None = None,
    partitions: int = 2,
) -> Study:
    """Build a small study on an embedded broker.

    Without releases it has a window release `w` and a cumulative release `c` that needs no tuning. Releases without a share
    of their own divide equally what the others leave of the budget. `roster` counts only without a `population`.
    """
    chosen = releases or (
        WindowRelease("w", k=min(2, horizon or 2)),
        CumulativeRelease("c", event=(alphabet[-1],), weights="rule"),
    )
    return Study(
        name=name,
        alphabet=tuple(alphabet),
        horizon=horizon,
        population=population or Population(initial=alphabet[0], roster=roster),
        privacy=Privacy(rho=rho, adjacency=adjacency),
        releases=tuple(chosen),
        broker=Broker(f"embedded:{name}", partitions),
    )


def window_table(name: str, k: int, **values: object) -> Mapping[str, object]:
    """Return the `[[release]]` table of a window release, for `study_toml`."""
    return {"name": name, "kind": "window", "k": k, **values}


def cumulative_table(name: str, **values: object) -> Mapping[str, object]:
    """Return the `[[release]]` table of a cumulative release, for `study_toml`."""
    return {"name": name, "kind": "cumulative", **values}


def spell_table(name: str, length: int, **values: object) -> Mapping[str, object]:
    """Return the `[[release]]` table of a spell release, for `study_toml`."""
    return {"name": name, "kind": "spell", "length": length, **values}


def pattern_table(name: str, pattern: str, **values: object) -> Mapping[str, object]:
    """Return the `[[release]]` table of a pattern release, for `study_toml`."""
    return {"name": name, "kind": "pattern", "pattern": pattern, **values}


def study_toml(
    *releases: Mapping[str, object],
    name: str = "study",
    alphabet: Sequence[str] = ("0", "1"),
    horizon: int = 3,
    population: Mapping[str, object] | None = None,
    rho: float = 1,
    adjacency: str | None = None,
    broker: Mapping[str, object] | None = None,
) -> str:
    """Return the text of a study file. Keys whose value is None and empty tables are left out."""
    tables = [
        ("[study]", {"name": name, "alphabet": list(alphabet), "horizon": horizon}),
        ("[population]", population or {}),
        ("[privacy]", {"rho": rho, "adjacency": adjacency}),
        *(("[[release]]", release) for release in releases),
        ("[broker]", broker or {}),
    ]
    return "\n".join(_table(header, values) for header, values in tables if values)


def _table(header: str, values: Mapping[str, object]) -> str:
    # JSON writes strings, numbers and lists as TOML does.
    lines = (f"{key} = {json.dumps(value)}\n" for key, value in values.items() if value is not None)
    return f"{header}\n{''.join(lines)}"


@dataclass(frozen=True)
class StudyParameters:
    """The parameters of a study file with a window and a cumulative release, for tests that run whole programs."""

    name: str
    alphabet: Sequence[str] = ("0", "1")
    event: Sequence[str] = ("1",)
    horizon: int = 4
    k: int = 2
    beta: float | None = None
    partitions: int = 4
    roster: str | None = None
    duplicates: str = "first"
    people: int = 200
    rho: float = 0.5
    adjacency: str | None = None
    releases: tuple[str, str] = ("recent", "ever")
    """Names of the window release and of the cumulative release."""
    schedule: str = ""
    """Text of the `[schedule]` table, with its header."""

    def text(self, url: str) -> str:
        """Return the text of the study file, with `url` as its broker."""
        window, cumulative = self.releases
        text = study_toml(
            window_table(window, self.k, beta=self.beta),
            cumulative_table(cumulative, event=list(self.event), weights="rule"),
            name=self.name,
            alphabet=self.alphabet,
            horizon=self.horizon,
            population={"size": self.people, "duplicates": self.duplicates, "roster": self.roster},
            rho=self.rho,
            adjacency=self.adjacency,
            broker={"url": url, "partitions": self.partitions},
        )
        return text + self.schedule


def build_open_study(
    *releases: Release,
    name: str = "study",
    alphabet: Sequence[str] = ("0", "1"),
    horizon: int | None = None,
    tenure: int = 4,
    absent_after: int | None = None,
    rho: float = 1.0,
    partitions: int = 2,
) -> Study:
    """Build a small open study on an embedded broker. Without releases it has a window `w` and a spell release `s`."""
    chosen = releases or (WindowRelease("w", k=2), SpellRelease("s", length=2, event=(alphabet[-1],)))
    return Study(
        name=name,
        alphabet=tuple(alphabet),
        horizon=horizon,
        population=Population(initial=alphabet[0], open=True, tenure=tenure, absent_after=absent_after),
        privacy=Privacy(rho=rho),
        releases=tuple(chosen),
        broker=Broker(f"embedded:{name}", partitions),
    )
