"""The study: the public contract that is fixed before period 1. Every value refuses nonsense when it is made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamproc.errors import StudyError
from streamproc.study.broker import Broker
from streamproc.study.budget import Privacy
from streamproc.study.checks import check_alphabet, check_in_alphabet, check_name, check_whole, shown
from streamproc.study.population import Population
from streamproc.study.release import MAX_HORIZON, CumulativeRelease, Release, WindowRelease, check_shares
from streamproc.study.schedule import Schedule

MAX_BINS = 65_536
MAX_CUMULATIVE_HORIZON = 2_000


@dataclass(frozen=True)
class Study:
    """Everything public that is decided before the first report."""

    name: str
    alphabet: tuple[str, ...]
    """Symbols; their order is the order of indices, bins and labels everywhere."""
    horizon: int
    """Periods, `T`."""
    population: Population
    privacy: Privacy
    releases: tuple[Release, ...]
    broker: Broker
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        check_name("study.name", self.name)
        check_alphabet("study.alphabet", self.alphabet)
        check_whole("study.horizon", self.horizon, 1, MAX_HORIZON)
        check_in_alphabet("population.initial", self.population.initial, self.alphabet)
        if self.population.missing.fill is not None:
            check_in_alphabet("population.missing", self.population.missing.fill, self.alphabet)
        _check_releases(self.releases)
        for place, release in enumerate(self.releases):
            if release.name.lower() in [other.name.lower() for other in self.releases[:place]]:
                # Some file systems do not tell upper from lower case.
                allowed = "a name no earlier release has, also in other letter case"
                raise StudyError(f"release[{place + 1}].name", shown(release.name), allowed)
            if isinstance(release, WindowRelease):
                self._check_window(release)
            else:
                self._check_cumulative(release)
        check_shares(self.releases)
        self._check_calendar()

    def _check_window(self, release: WindowRelease) -> None:
        widest = 1
        while widest < self.horizon and self.q ** (widest + 1) <= MAX_BINS:
            widest += 1
        why = f", since k is at most the horizon and {self.q}^k at most {MAX_BINS}"
        check_whole(f"release.{release.name}.k", release.k, 1, widest, why)

    def _check_cumulative(self, release: CumulativeRelease) -> None:
        if self.horizon > MAX_CUMULATIVE_HORIZON:
            allowed = f"at most {MAX_CUMULATIVE_HORIZON} with a cumulative release, whose exact cost takes T^3 steps"
            raise StudyError("study.horizon", shown(self.horizon), allowed)
        key = f"release.{release.name}.event"
        for symbol in release.event:
            check_in_alphabet(key, symbol, self.alphabet)
        if len(release.event) == self.q:
            raise StudyError(key, shown(release.event), "not the whole alphabet, or every report is a one")

    def _check_calendar(self) -> None:
        if self.schedule is not None:
            least, ahead = self.schedule.periods_ahead, self.population.ahead
            if ahead is not None and ahead < least:
                raise StudyError("population.ahead", shown(ahead), f"{least} or more with this grace and these periods")
            try:
                self.schedule.release_of(self.horizon)
            except OverflowError:
                got = f"a schedule whose period {self.horizon} ends after the year 9999"
                raise StudyError("schedule.every", got, "an earlier start or shorter periods") from None

    @property
    def q(self) -> int:
        """Symbols in the alphabet."""
        return len(self.alphabet)

    @property
    def symbol_index(self) -> dict[str, int]:
        """Each symbol's place in the alphabet, from 0."""
        return {symbol: index for index, symbol in enumerate(self.alphabet)}

    def release(self, name: str) -> Release:
        """The release of this name."""
        for release in self.releases:
            if release.name == name:
                return release
        raise StudyError("release", shown(name), ", ".join(r.name for r in self.releases))

    def event_mask(self, release: CumulativeRelease) -> npt.NDArray[np.bool_]:
        """For each symbol of the alphabet, whether it counts as a one: `mask[symbols]` is the 0/1 column."""
        return np.array([symbol in release.event for symbol in self.alphabet])


def _check_releases(value: object) -> None:
    if not (isinstance(value, tuple) and value and all(isinstance(item, Release) for item in value)):
        raise StudyError("release", shown(value), "a tuple of at least one release")
