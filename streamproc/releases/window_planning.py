"""What a plan says about a window release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from streamproc.privacy.window import WindowPaperMechanism
from streamproc.privacy.window_flow import WindowFlowMechanism
from streamproc.releases.kind import ReleasePlanner
from streamproc.releases.query import count_of, exactly, in_a_row
from streamproc.releases.step import NamedQuery
from streamproc.releases.window import WindowContract
from streamproc.releases.window_synthesis import WindowMechanism, padding_of
from streamproc.study import WindowRelease, bin_label
from streamproc.study.releases import Measure


@dataclass(frozen=True)
class MeasureAlternative:
    """A window release measured in one way, at the same budget."""

    measure: Measure
    chosen: bool
    bin_stderr_people: float
    """Standard error from noise alone, the largest over the periods with full windows."""
    n_pad: int
    rows: int
    variance_ratio: float
    """Variance of a bin relative to that of the chosen way."""

    headings: ClassVar[Mapping[str, str]] = {
        "measure": "measure",
        "bin_stderr_people": "noise sd of a bin\npeople",
        "variance_ratio": "variance\nto chosen",
        "n_pad": "n_pad\nper bin",
        "rows": "n*",
    }
    caption: ClassVar[str] = ""


class WindowPlanner(ReleasePlanner):
    """What a plan says about a window release."""

    def __init__(self, contract: WindowContract, release: WindowRelease) -> None:
        self._contract = contract
        self._release = release

    def typical_queries(self) -> Iterator[NamedQuery]:
        """By symmetry every bin, and every symbol, has the same error as the one in the query."""
        k, alphabet = self._contract.mechanism.k, self._contract.alphabet
        first, one = alphabet[0], alphabet[1]
        yield NamedQuery("bin", f"one bin, such as {bin_label([first] * k, alphabet)}", exactly(*[first] * k))
        last = f"last symbol is {one!r}" if len(alphabet) == 2 else f"last symbol, such as {one!r}"
        yield NamedQuery(f"last:{one}", last, exactly(one))
        if len(alphabet) == 2 and k >= 2:
            for how, query in (
                ("in all of", count_of([one], at_least=k, of=k)),
                ("at least once in", count_of([one], at_least=1, of=k)),
                ("at least twice in", count_of([one], at_least=2, of=k)),
                ("twice in a row in", in_a_row([one], length=2, of=k)),
            ):
                yield NamedQuery(query.name, f"{one!r} {how} the last {k}", query)

    def settings(self) -> dict[str, Any]:
        contract, release = self._contract, self._release
        return {
            "k": release.k,
            "measure": release.measure,
            "beta": release.beta,
            "bins": contract.mechanism.bins,
            "n_pad": contract.n_pad,
            "n_star": contract.n_star,
            "n_star_expected": contract.expected_rows,
            "variance": contract.mechanism.bin_variance,
        }

    def describe(self) -> Sequence[str]:
        return (f"window, k={self._release.k}", self._release.measure)

    def alternatives(self, *, long_too: bool, tuned: bool) -> Sequence[MeasureAlternative]:
        return [self._measured(measure) for measure in get_args(Measure)]

    def _measured(self, measure: Measure) -> MeasureAlternative:
        ours = self._contract.mechanism
        mechanism = ours if measure == self._contract.measure else self._calibrated(measure, ours.k)
        n_pad = padding_of(mechanism, self._release.beta)
        return MeasureAlternative(
            measure=measure,
            chosen=measure == self._contract.measure,
            bin_stderr_people=mechanism.bin_variance**0.5,
            n_pad=n_pad,
            rows=self._contract.n + mechanism.bins * n_pad,
            variance_ratio=mechanism.bin_variance / ours.bin_variance,
        )

    def padding_advice(self) -> Sequence[str]:
        for k in range(self._release.k - 1, 0, -1):
            mechanism = self._calibrated(self._release.measure, k)
            if mechanism.bins * padding_of(mechanism, self._release.beta) <= self._contract.n:
                return [f"k = {k}"]
        return ()

    def _calibrated(self, measure: Measure, k: int) -> WindowMechanism:
        """The mechanism of this release with another measure or window, at the same budget."""
        ours, rho = self._contract.mechanism, self._contract.rho
        make = WindowFlowMechanism.calibrated if measure == "flow" else WindowPaperMechanism.calibrated
        return make(q=ours.q, k=k, horizon=ours.horizon, adjacency=ours.adjacency, rho=rho)
