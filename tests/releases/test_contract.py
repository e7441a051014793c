"""The public contract of a release: what it promises, that it survives being written down, and what is too large."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import StudyError
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Period
from streamproc.releases.contracts import contract_from_values, follows_from_study, stated_contracts
from streamproc.releases.cumulative import CumulativeContract
from streamproc.releases.cumulative_paper import CumulativePaperContract
from streamproc.releases.flow import FlowContract
from streamproc.releases.kind import Contract
from streamproc.releases.pattern import PatternContract
from streamproc.releases.spell import SpellContract
from streamproc.releases.window_flow import WindowFlowContract
from streamproc.releases.window_paper import WindowPaperContract
from streamproc.study import CumulativeRelease, PatternRelease, Privacy, SpellRelease, Study, WindowRelease
from tests.releases.random_studies import KINDS, release_of, studies, window_contract
from tests.studies import build_study


@given(studies(), st.integers(1, 10**6), st.booleans())
def test_a_contract_written_as_json_and_read_again_says_the_same(study: Study, n: int, insecure: bool) -> None:
    for name, contract in stated_contracts(study, n, insecure=insecure).items():
        written = contract.to_dict()
        again = contract_from_values(json.loads(json.dumps(written)), StudyError)
        assert again.to_dict() == written
        assert (again.name, again.n, again.n_star) == (name, n, contract.n_star)
        assert again.insecure is insecure
        horizon = Period(study.last_period)
        assert again.mechanism.cost(horizon) == contract.mechanism.cost(horizon)


@given(studies(), st.integers(1, 10**6), st.booleans())
def test_a_contract_follows_from_its_study_and_from_no_study_with_another_budget(
    study: Study, n: int, insecure: bool
) -> None:
    other = replace(study, privacy=Privacy(rho=study.privacy.budget / 2, adjacency=study.privacy.adjacency))
    for contract in stated_contracts(study, n, insecure=insecure).values():
        assert follows_from_study(contract, study, insecure=insecure)
        assert not follows_from_study(contract, study, insecure=not insecure)
        assert not follows_from_study(contract, other, insecure=insecure)


@pytest.mark.parametrize("kind", KINDS)
def test_a_contract_does_not_follow_from_a_study_with_another_adjacency_or_horizon(kind: str) -> None:
    study = build_study(release_of(kind), horizon=5)
    [contract] = stated_contracts(study, 50, insecure=True).values()
    longer = build_study(release_of(kind), horizon=6)
    zero_out = build_study(release_of(kind), horizon=5, adjacency=Adjacency.ZERO_OUT)
    assert follows_from_study(contract, study, insecure=True)
    assert not follows_from_study(contract, longer, insecure=True)
    assert not follows_from_study(contract, zero_out, insecure=True)


@pytest.mark.parametrize("kind", ["window-flow", "cumulative-flow", "spell", "pattern"])
def test_other_weights_follow_from_the_study_unless_they_cost_more(kind: str) -> None:
    """Weights come from floating-point algebra, which differs between machines; what counts is their cost."""
    study = build_study(release_of(kind), horizon=5)
    [contract] = stated_contracts(study, 50, insecure=True).values()
    cheaper: Contract
    dearer: Contract
    if isinstance(contract, WindowFlowContract):
        weights = contract.mechanism.weights
        cheaper, dearer = (
            replace(contract, mechanism=replace(contract.mechanism, weights=tuple(weight * factor for weight in weights)))
            for factor in (1 - 1e-9, 1 + 1e-9)
        )
    else:
        assert isinstance(contract, FlowContract)
        sigma = contract.mechanism.sigma
        cheaper, dearer = (
            replace(contract, mechanism=replace(contract.mechanism, sigma=sigma * factor)) for factor in (1 + 1e-9, 1 - 1e-9)
        )
    assert follows_from_study(cheaper, study, insecure=True)
    assert not follows_from_study(dearer, study, insecure=True)


def test_releases_keep_their_order_and_share_the_budget() -> None:
    study = build_study(
        CumulativeRelease("z", ("1",), weights="rule"),
        WindowRelease("a", 2),
        CumulativeRelease("m", ("0",), measure="paper"),
        PatternRelease("p", pattern="1{2}", weights="rule"),
        WindowRelease("b", 2, measure="paper"),
        SpellRelease("s", ("1",), length=2, weights="rule"),
        rho=0.3,
        horizon=6,
    )
    made = stated_contracts(study, 100, insecure=False)
    assert list(made) == ["z", "a", "m", "p", "b", "s"]
    assert [type(contract) for contract in made.values()] == [
        CumulativeContract,
        WindowFlowContract,
        CumulativePaperContract,
        PatternContract,
        WindowPaperContract,
        SpellContract,
    ]
    assert sum(Fraction(contract.rho) for contract in made.values()) <= Fraction(0.3)
    assert sum(contract.rho for contract in made.values()) == pytest.approx(0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_synthetic_people_is_public_where_it_is_known(kind: str) -> None:
    """Windows of the paper have as many as the noise of their first step says; others than windows have no padding."""
    [contract] = stated_contracts(build_study(release_of(kind), horizon=6), 500, insecure=True).values()
    assert contract.expected_rows == 500 + 8 * contract.n_pad
    assert (contract.n_pad > 0) == (contract.kind == "window")
    assert contract.n_star == (None if kind == "window-paper" else contract.expected_rows)


@pytest.mark.parametrize(
    "release",
    [
        CumulativeRelease("c", ("low", "none"), weights="rule"),
        CumulativeRelease("c", ("low", "none"), measure="paper"),
        SpellRelease("c", ("low", "none"), length=2, weights="rule"),
    ],
    ids=["flow", "paper", "spell"],
)
def test_a_release_of_events_has_columns_of_zeros_and_ones_whatever_the_alphabet(
    release: CumulativeRelease | SpellRelease,
) -> None:
    study = build_study(release, alphabet=["none", "low", "high"], horizon=6)
    [contract] = stated_contracts(study, 5, insecure=True).values()
    assert isinstance(contract, CumulativeContract | CumulativePaperContract | SpellContract)
    assert contract.alphabet == ("0", "1")
    assert contract.event == ("low", "none")


@pytest.mark.parametrize(
    ("k", "n", "rho"),
    [(1, 2**31, 1.0), (16, 2**30 - 1, 1.0), (16, 1, 1e-8)],
    ids=["people", "64-bit numerators", "padding"],
)
def test_a_release_with_too_many_synthetic_people_is_refused_in_one_line(k: int, n: int, rho: float) -> None:
    with pytest.raises(StudyError, match=r"release\.w\.k: got .* synthetic people, allowed: at most .*budget") as caught:
        window_contract(build_study(WindowRelease("w", k), horizon=16, rho=rho), n)
    assert "\n" not in str(caught.value)


def test_the_largest_release_that_fits_is_allowed() -> None:
    study = build_study(WindowRelease("w", 1), horizon=1)
    spare = 2**31 - 1 - window_contract(study, 1).n_pad * 2
    assert window_contract(study, spare).n_star == 2**31 - 1
    with pytest.raises(StudyError):
        window_contract(study, spare + 1)


def test_a_budget_whose_noise_would_not_fit_64_bits_is_refused() -> None:
    with pytest.raises(StudyError, match=r"privacy\.rho: got 1e-13, allowed: .* at least rho 1e-12"):
        stated_contracts(build_study(WindowRelease("w", 1), rho=1e-13, horizon=6), 5, insecure=True)
    small = replace(build_study(WindowRelease("w", 1), horizon=6), privacy=Privacy(epsilon=1e-8, delta=1e-30))
    with pytest.raises(StudyError, match=r"privacy\.epsilon: got 1e-08, allowed: .* at least rho 1e-12"):
        stated_contracts(small, 5, insecure=True)
    shared = build_study(release_of("cumulative-flow", "a"), release_of("spell", "b"), rho=1.5e-12, horizon=6)
    with pytest.raises(StudyError, match=r"release\.a\.share: got a budget of rho 7\.5e-13, allowed: at least rho 1e-12"):
        stated_contracts(shared, 5, insecure=True)
