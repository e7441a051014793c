"""The public contract of a release: what it promises, that it survives being written down, and what is too large."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import StudyError
from streamproc.privacy.types import Period
from streamproc.releases.contracts import contract_from_values, stated_contracts
from streamproc.releases.cumulative import CumulativeContract
from streamproc.releases.window import WindowContract
from streamproc.study import CumulativeRelease, Privacy, Study, WindowRelease
from tests.releases.random_studies import studies, window_contract
from tests.studies import build_study


@given(studies(), st.integers(1, 10**6), st.booleans())
def test_a_contract_written_as_json_and_read_again_says_the_same(study: Study, n: int, insecure: bool) -> None:
    for name, contract in stated_contracts(study, n, insecure=insecure).items():
        written = contract.to_dict()
        again = contract_from_values(json.loads(json.dumps(written)), StudyError)
        assert again.to_dict() == written
        assert (again.name, again.n, again.n_star) == (name, n, contract.n_star)
        assert again.insecure is insecure
        horizon = Period(study.horizon)
        assert again.mechanism.cost(horizon) == contract.mechanism.cost(horizon)


def test_releases_keep_their_order_and_share_the_budget() -> None:
    study = build_study(
        CumulativeRelease("z", ("1",)), WindowRelease("a", 2), CumulativeRelease("m", ("0",)), rho=0.3, horizon=6
    )
    made = stated_contracts(study, 100, insecure=False)
    assert list(made) == ["z", "a", "m"]
    assert [type(contract) for contract in made.values()] == [CumulativeContract, WindowContract, CumulativeContract]
    assert sum(Fraction(contract.rho) for contract in made.values()) <= Fraction(0.3)
    assert sum(contract.rho for contract in made.values()) == pytest.approx(0.3)


def test_the_number_of_synthetic_people_is_public_where_it_is_known() -> None:
    contrast = window_contract(build_study(WindowRelease("w", 3), horizon=6), 500)
    histogram = window_contract(build_study(WindowRelease("w", 3, measure="histogram"), horizon=6), 500)
    [cumulative] = stated_contracts(build_study(CumulativeRelease("c", ("1",)), horizon=6), 500, insecure=True).values()
    assert contrast.n_star == contrast.expected_rows == 500 + 8 * contrast.n_pad
    assert histogram.n_star is None
    assert histogram.expected_rows == 500 + 8 * histogram.n_pad
    assert cumulative.n_star == 500


def test_a_cumulative_release_has_columns_of_zeros_and_ones_whatever_the_alphabet() -> None:
    study = build_study(CumulativeRelease("c", ("low", "none")), alphabet=["none", "low", "high"], horizon=6)
    [contract] = stated_contracts(study, 5, insecure=True).values()
    assert isinstance(contract, CumulativeContract)
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
    shared = build_study(CumulativeRelease("a", ("1",)), CumulativeRelease("b", ("1",)), rho=1.5e-12, horizon=6)
    with pytest.raises(StudyError, match=r"release\.a\.share: got a budget of rho 7\.5e-13, allowed: at least rho 1e-12"):
        stated_contracts(shared, 5, insecure=True)
