"""The contracts of a study's releases, made from the study or read from stored values, and the registry of kinds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from streamproc.errors import StudyError
from streamproc.privacy.accountant import Mechanism, split_budget
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.noise import Entropy
from streamproc.privacy.types import Rho
from streamproc.releases.cumulative import CumulativeContract, CumulativeTallier
from streamproc.releases.cumulative_paper import CumulativePaperContract, CumulativePaperTallier
from streamproc.releases.flow_planning import CumulativePlanner, PatternPlanner, SpellPlanner
from streamproc.releases.kind import MAX_ROWS, Contract, ReleasePlanner, Tallier
from streamproc.releases.open_kinds import (
    OpenCumulativeContract,
    OpenCumulativeTallier,
    OpenSpellContract,
    OpenSpellTallier,
    OpenWindowContract,
    OpenWindowTallier,
)
from streamproc.releases.open_planning import OpenPlanner
from streamproc.releases.pattern import PatternContract, PatternTallier
from streamproc.releases.spell import SpellContract, SpellTallier
from streamproc.releases.step import Description
from streamproc.releases.window_flow import WindowFlowContract, WindowFlowTallier
from streamproc.releases.window_paper import WindowPaperContract, WindowPaperTallier
from streamproc.releases.window_planning import WindowPlanner
from streamproc.study import Release, Study
from streamproc.study.study import MAX_RHO
from streamproc.validation import Refuse, Validator, is_alphabet

MIN_BUDGET = 1e-12
"""The smallest budget, in zCDP, for which even the longest study's noise stays far below the 64-bit limit."""


class Kind(NamedTuple):
    """The classes of one kind of release."""

    tallier: Any
    """A `Tallier`, made from a study and a release."""
    contract: type[Contract]
    planner: type[ReleasePlanner]


OPEN_KINDS: Mapping[str, Kind] = {
    "window": Kind(OpenWindowTallier, OpenWindowContract, OpenPlanner),
    "cumulative": Kind(OpenCumulativeTallier, OpenCumulativeContract, OpenPlanner),
    "spell": Kind(OpenSpellTallier, OpenSpellContract, OpenPlanner),
}
"""The classes of each kind in an open study."""

KINDS: Mapping[tuple[str, str], Kind] = {
    ("window", "flow"): Kind(WindowFlowTallier, WindowFlowContract, WindowPlanner),
    ("window", "paper"): Kind(WindowPaperTallier, WindowPaperContract, WindowPlanner),
    ("cumulative", "flow"): Kind(CumulativeTallier, CumulativeContract, CumulativePlanner),
    ("cumulative", "paper"): Kind(CumulativePaperTallier, CumulativePaperContract, CumulativePlanner),
    ("spell", "flow"): Kind(SpellTallier, SpellContract, SpellPlanner),
    ("pattern", "flow"): Kind(PatternTallier, PatternContract, PatternPlanner),
}
"""The classes of each kind and measure; the settings of each kind are in `streamproc.study.releases`."""


def kind_of(release: Release) -> Kind:
    """The classes of a release."""
    return KINDS[release.kind, release.measure] if release.tenure is None else OPEN_KINDS[release.kind]


def make_tallier(study: Study, release: Release) -> Tallier:
    """The tallier of a release: its exact, secret side."""
    tallier: Tallier = kind_of(release).tallier(study, release)
    return tallier


def make_planner(contract: Contract, release: Release) -> ReleasePlanner:
    """The planner of a release, which computes what a plan says about it."""
    return kind_of(release).planner(contract, release)


def make_mechanism(study: Study, release: Release, rho: Rho) -> Mechanism:
    """The noise of a release with this budget, which does not depend on the number of people."""
    return kind_of(release).contract.make_mechanism(study, release, rho)


def design_mechanisms(study: Study) -> None:
    """Design the measurements of every release, which later calls in this process then find in a cache.

    Raises StudyError if a release would publish matrices that are too large.
    """
    for release, rho in release_budgets(study).items():
        make_mechanism(study, study.release(release), rho)


def describe_release(release: Release) -> Description:
    """A release in words for readers."""
    return kind_of(release).contract.describe(release)


def zero_out_meaning(releases: Sequence[Release]) -> str:
    """Which inputs adjacency zero-out relates in a study with these releases: those that it relates for all of them."""
    weakest = min(releases, key=lambda release: kind_of(release).contract.zero_out_has_neighbours)
    return describe_release(weakest).zero_out


def make_contracts(study: Study, n: int, entropy: Entropy) -> dict[str, Contract]:
    """The contract of every release of a study over `n` people, in the order of the file, with noise from `entropy`."""
    return stated_contracts(study, n, insecure=entropy.insecure)


def stated_contracts(study: Study, n: int, *, insecure: bool) -> dict[str, Contract]:
    """The contracts as a ledger or a plan states them, for reading a release or for planning it.

    `Synthesis.step` refuses to draw under them with a source of noise whose `insecure` differs.
    """
    budgets = release_budgets(study)
    return {
        release.name: kind_of(release).contract.make(study, release, n, budgets[release.name], insecure=insecure)
        for release in study.releases
    }


def release_budgets(study: Study) -> dict[str, Rho]:
    """The budget of each release in zCDP, by its name."""
    if study.privacy.budget < MIN_BUDGET:
        key, got = ("rho", study.privacy.rho) if study.privacy.rho is not None else ("epsilon", study.privacy.epsilon)
        raise StudyError(f"privacy.{key}", got, f"a budget of at least rho {MIN_BUDGET}: noise must fit 64-bit integers")
    budgets = split_budget(study.privacy.spendable, [release.share for release in study.releases])
    for release, rho in zip(study.releases, budgets, strict=True):
        if rho < MIN_BUDGET:
            raise StudyError(f"release.{release.name}.share", f"a budget of rho {rho:.3g}", f"at least rho {MIN_BUDGET}")
    return {release.name: rho for release, rho in zip(study.releases, budgets, strict=True)}


def follows_from_study(contract: Contract, study: Study, *, insecure: bool) -> bool:
    """Whether a published contract is that of the study's release of its name. Raises StudyError if it cannot be made."""
    release = study.release(contract.name)
    is_kind = isinstance(contract, kind_of(release).contract)
    same_budget = math.isclose(contract.rho, release_budgets(study)[release.name], rel_tol=1e-9)
    return is_kind and same_budget and contract.insecure == insecure and contract.is_implied_by(study, release)


def contract_from_values(values: Mapping[str, Any], refuse: Refuse) -> Contract:
    """The contract whose `Contract.to_dict` these values are; further values are ignored.

    Every contract that is read from a topic, a state file or the metadata of a file is checked here. Every value is checked
    before anything is computed from it, because a huge horizon would need a huge matrix. Raises the error that `refuse`
    builds for the first value that is wrong, and the error of `values` for a value that is missing.
    """
    check = Validator(refuse)
    check.choice("kind", values["kind"], sorted({kind for kind, _ in KINDS}))
    measures = [measure for kind, measure in KINDS if kind == values["kind"]]
    is_known = values.get("measure") in measures
    old = "; a study that was begun with version 0.1 is finished with version 0.1"
    check.require("measure", values.get("measure"), is_known, " or ".join(measures) + old)
    is_open = values.get("tenure") is not None
    if is_open:
        check.choice("kind", values["kind"], OPEN_KINDS)
        check.require("measure", values["measure"], values["measure"] == "flow", "flow in an open study")
    kind = OPEN_KINDS[values["kind"]].contract if is_open else KINDS[values["kind"], values["measure"]].contract
    check.name("release", values["release"], "letters, digits and '-'")
    alphabet = check.sequence("alphabet", values["alphabet"])
    check.require("alphabet", values["alphabet"], is_alphabet(alphabet), "2 to 64 different symbols")
    # A study without people is refused before its first period, so no contract has n = 0.
    if not is_open:
        check.whole("n", values["n"], 1, MAX_ROWS)
    check.positive_float("rho", values["rho"], MAX_RHO)
    unrelated = Adjacency.ZERO_OUT if is_open else Adjacency.ADD_REMOVE
    relations = [adjacency.value for adjacency in Adjacency if adjacency is not unrelated]
    check.choice("adjacency", values["adjacency"], relations)
    if not (is_open and values["horizon"] is None):
        check.whole("horizon", values["horizon"], 1, kind.max_horizon)
    check.flag("insecure", values["insecure"])
    try:
        return kind.from_values(values, alphabet, check)
    except ValueError as error:
        if error.__class__ is not ValueError:
            raise
    raise refuse("contract", "values that do not fit together", "values that are consistent with each other")
