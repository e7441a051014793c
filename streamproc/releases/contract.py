"""A release's public contract: all an analyst needs besides the columns, none of it a function of private data.

(Without a roster `n` is the number of people who reported in period 1; DESIGN and docs/privacy.md say what that means.)
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from typing import Any, Literal, TypeAlias

from streamproc.errors import StudyError
from streamproc.privacy.accountant import split_budget
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.counters import CounterName, counter
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.noise import Entropy
from streamproc.privacy.types import Rho
from streamproc.privacy.window import Measure, WindowMechanism
from streamproc.study import CumulativeRelease, Release, Study, WindowRelease

MAX_ROWS = 2**31 - 1
"""More synthetic people than this are refused: a row number must fit everywhere it is used."""

MAX_NUMERATOR = 2**62
"""Nothing computed from counts may come near the 64-bit limit, at which the noise mechanism would saturate silently."""

MIN_BUDGET = 1e-12
"""The smallest budget, in zCDP, for which even the longest study's noise stays far below the 64-bit limit."""

ONES = ("0", "1")
"""The alphabet of a cumulative release's columns."""


@dataclass(frozen=True)
class WindowContract:
    """What is public about a window release."""

    name: str
    alphabet: tuple[str, ...]
    n: int
    n_pad: int
    rho: Rho
    mechanism: WindowMechanism
    insecure: bool

    kind: Literal["window"] = "window"

    @property
    def expected_rows(self) -> int:
        """`n + m n_pad`: under `contrast` the number of synthetic people, under `histogram` its expectation."""
        return self.n + self.mechanism.bins * self.n_pad

    @property
    def n_star(self) -> int | None:
        """Synthetic people, where that is known before the first report."""
        return self.expected_rows if self.mechanism.measure == "contrast" else None


@dataclass(frozen=True)
class CumulativeContract:
    """What is public about a cumulative release."""

    name: str
    alphabet: tuple[str, ...]
    event: tuple[str, ...]
    n: int
    rho: Rho
    mechanism: CumulativeMechanism
    insecure: bool

    kind: Literal["cumulative"] = "cumulative"

    @property
    def n_star(self) -> int:
        """Synthetic people: as many as real ones."""
        return self.n


Contract: TypeAlias = WindowContract | CumulativeContract


def make_contracts(study: Study, n: int, entropy: Entropy) -> dict[str, Contract]:
    """The contract of every release of a study over `n` people, in the order of the file, with noise from `entropy`."""
    return stated_contracts(study, n, insecure=entropy.insecure)


def stated_contracts(study: Study, n: int, *, insecure: bool) -> dict[str, Contract]:
    """The contracts as a ledger or a plan states them: for reading what was released, or before anything is.

    Nothing can be drawn under them by a source of noise that is marked otherwise: `Synthesis.step` refuses.
    """
    budgets = release_budgets(study)
    made: dict[str, Contract] = {}
    for release in study.releases:
        make = _window if isinstance(release, WindowRelease) else _cumulative
        made[release.name] = make(study, release, n, budgets[release.name], insecure)  # type: ignore[arg-type]
    return made


def max_rows(bins: int) -> int:
    """The synthetic people that a window release of so many bins may have."""
    return int(min(MAX_ROWS, MAX_NUMERATOR // bins**2))


def release_budgets(study: Study) -> dict[str, Rho]:
    """What each release may spend."""
    if study.privacy.budget < MIN_BUDGET:
        key, got = ("rho", study.privacy.rho) if study.privacy.rho is not None else ("epsilon", study.privacy.epsilon)
        raise StudyError(f"privacy.{key}", got, f"a budget of at least rho {MIN_BUDGET}: noise must fit 64-bit integers")
    budgets = split_budget(study.privacy.spendable, [release.share for release in study.releases])
    for release, rho in zip(study.releases, budgets, strict=True):
        if rho < MIN_BUDGET:
            raise StudyError(f"release.{release.name}.share", f"a budget of rho {rho:.3g}", f"at least rho {MIN_BUDGET}")
    return {release.name: rho for release, rho in zip(study.releases, budgets, strict=True)}


def _window(study: Study, release: WindowRelease, n: int, rho: Rho, insecure: bool) -> WindowContract:
    mechanism = _window_mechanism(study, release, rho)
    contract = WindowContract(release.name, study.alphabet, n, padding(mechanism, release.beta), rho, mechanism, insecure)
    most = max_rows(mechanism.bins)
    if contract.expected_rows > most:
        got = f"{release.k}, with which the release needs {contract.expected_rows:.3g} synthetic people"
        raise StudyError(f"release.{release.name}.k", got, f"at most {most:.3g}: a smaller k or a larger budget")
    return contract


def _cumulative(study: Study, release: CumulativeRelease, n: int, rho: Rho, insecure: bool) -> CumulativeContract:
    mechanism = _cumulative_mechanism(study, release, rho)
    return CumulativeContract(release.name, ONES, release.event, n, rho, mechanism, insecure)


def mechanism_of(study: Study, release: Release, rho: Rho) -> WindowMechanism | CumulativeMechanism:
    """The noise of a release with this budget, which does not depend on the number of people."""
    if isinstance(release, WindowRelease):
        return _window_mechanism(study, release, rho)
    return _cumulative_mechanism(study, release, rho)


def _window_mechanism(study: Study, release: WindowRelease, rho: Rho) -> WindowMechanism:
    return WindowMechanism.calibrated(
        q=study.q,
        k=release.k,
        horizon=study.horizon,
        measure=release.measure,
        adjacency=study.privacy.adjacency,
        rho=rho,
    )


def _cumulative_mechanism(study: Study, release: CumulativeRelease, rho: Rho) -> CumulativeMechanism:
    return CumulativeMechanism.calibrated(
        horizon=study.horizon,
        counter_name=release.counter,
        allocation=release.allocation,
        adjacency=study.privacy.adjacency,
        rho=rho,
    )


def padding(mechanism: WindowMechanism, beta: float) -> int:
    """`n_pad`, in people per bin. In decimals: every machine must come to the same public number."""
    with localcontext(Context(prec=40)):
        q, k, m = Decimal(mechanism.q), mechanism.k, Decimal(mechanism.bins)
        noise = (2 * Decimal(mechanism.bin_variance)).sqrt()
        rounding = ((1 - q**-k) / (2 * (1 - 1 / q))).sqrt()
        tail = (m * mechanism.steps / Decimal(beta)).ln().sqrt()
        return int(((noise + rounding) * tail).to_integral_value(ROUND_CEILING))


def contract_to_dict(contract: Contract) -> dict[str, Any]:
    """Plain values, for JSON, MessagePack and a Parquet file's metadata."""
    shared = {
        "kind": contract.kind,
        "release": contract.name,
        "alphabet": list(contract.alphabet),
        "n": contract.n,
        "rho": contract.rho,
        "adjacency": contract.mechanism.adjacency.value,
        "horizon": contract.mechanism.horizon,
        "insecure": contract.insecure,
    }
    if isinstance(contract, WindowContract):
        window = contract.mechanism
        return shared | {
            "k": window.k,
            "measure": window.measure,
            "n_pad": contract.n_pad,
            "sigma_first": window.sigma_first,
            "sigma_later": window.sigma_later,
        }
    return shared | {
        "event": list(contract.event),
        "counter": contract.mechanism.counter.name,
        "sigmas": list(contract.mechanism.sigmas),
    }


def contract_from_dict(values: dict[str, Any]) -> Contract:
    """The contract that `contract_to_dict` wrote. It checks little: `contract_from_fields` reads what others wrote."""
    adjacency = Adjacency(values["adjacency"])
    alphabet, horizon = tuple(values["alphabet"]), int(values["horizon"])
    n, rho, insecure = int(values["n"]), Rho(values["rho"]), bool(values["insecure"])
    if values["kind"] == "window":
        measure: Measure = values["measure"]
        window = WindowMechanism(
            len(alphabet), values["k"], horizon, measure, adjacency, values["sigma_first"], values["sigma_later"]
        )
        return WindowContract(values["release"], alphabet, n, values["n_pad"], rho, window, insecure)
    name: CounterName = values["counter"]
    cumulative = CumulativeMechanism(counter(name, horizon), adjacency, tuple(values["sigmas"]))
    return CumulativeContract(values["release"], alphabet, tuple(values["event"]), n, rho, cumulative, insecure)
