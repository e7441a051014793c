"""One release of one panel, repeated: what is released, how often, and the truth it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track

from streamproc.files.study_files import read_people
from streamproc.offline import ReplayResult, tallies_of
from streamproc.offline.replay import Tallies
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import FloatArray, Period
from streamproc.releases.contracts import make_contracts
from streamproc.releases.kind import Contract
from streamproc.releases.query import ask
from streamproc.service.monte_carlo import repeat_study
from streamproc.storage.entropy import SystemEntropy
from streamproc.study import Broker, Population, Privacy, Release, Study, WindowRelease

Symbols: TypeAlias = npt.NDArray[np.uint8]
"""(n, T) alphabet indices, nothing missing."""

Keep: TypeAlias = Callable[[int, ReplayResult], npt.NDArray[Any]]
"""What to keep of one repetition: a module's own function, because it is called in other processes."""


@dataclass(frozen=True, eq=False)
class Trial:
    """One release that has a study and its whole budget for itself."""

    study: Study
    contract: Contract
    tallies: Tallies

    @classmethod
    def of(
        cls,
        release: Release,
        alphabet: str,
        symbols: Symbols,
        rho: float,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
    ) -> Trial:
        """`release` over `symbols`, at `rho`; every character of `alphabet` is a symbol."""
        study = study_of(release, alphabet, symbols.shape[1], Privacy(rho=rho, adjacency=adjacency))
        contract = make_contracts(study, len(symbols), SystemEntropy())[release.name]
        return cls(study, contract, tallies_of(study, symbols))

    def repeat(self, keep: Keep, runs: int, what: str) -> npt.NDArray[Any]:
        """What `keep` keeps, a row per repetition. `what` is shown while it runs."""
        outcomes = repeat_study(self.study, {self.contract.name: self.contract}, self.tallies, keep, runs)
        progress = track(outcomes, f"{what:<44}", total=runs, console=Console(stderr=True), transient=True)
        return np.stack(list(progress))

    @cached_property
    def true_counts(self) -> dict[int, FloatArray]:
        """For each period with counts, the share of people in each of them: windows, or "at least `j`"."""
        counts = self.contract.true_counts([tally[self.contract.name] for tally in self.tallies])
        return {period: exact / self.contract.n for period, exact in enumerate(counts, start=self.contract.first_column)}

    def true_cells(self, first: int) -> FloatArray:
        """The true shares of all counts of all periods from `first` on, in one row, as `answers.Cells` keeps them."""
        return np.concatenate([shares for period, shares in self.true_counts.items() if period >= first])

    def truth(self, question: str, period: int) -> float:
        """The share of people for whom the question holds at `period`; NaN before the release can answer it."""
        query = ask(question)
        if period < self.contract.first_period(query):
            return float("nan")
        return float(self.contract.query_weights(query, Period(period)) @ self.true_counts[period])

    def truths(self, questions: Sequence[str], periods: Sequence[int]) -> FloatArray:
        """`truth` of each question at each period, (questions, periods)."""
        return np.array([[self.truth(question, period) for period in periods] for question in questions])


def read_symbols(path: Path, alphabet: str, horizon: int) -> Symbols:
    """The panel in a file; a missing report is the one before it."""
    study = study_of(WindowRelease("window", 1), alphabet, horizon, Privacy(rho=1.0))
    return read_people(path, study).filled(study)


def study_of(release: Release, alphabet: str, horizon: int, privacy: Privacy) -> Study:
    """A study with one release; every character of `alphabet` is a symbol."""
    return Study(
        name="experiment",
        alphabet=tuple(alphabet),
        horizon=horizon,
        population=Population(initial=alphabet[0]),
        privacy=privacy,
        releases=(release,),
        broker=Broker("embedded:experiment"),
    )
