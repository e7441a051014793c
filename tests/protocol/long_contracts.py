"""A contract whose matrices need several records."""

from __future__ import annotations

from functools import cache

from streamproc.protocol.columns import ContractRecord
from streamproc.releases.contracts import stated_contracts
from streamproc.study import CumulativeRelease, Study
from tests.studies import build_study

PEOPLE = 20


@cache
def long_study() -> Study:
    """A study with one release, `long`, of 65 states over 100 periods."""
    return build_study(CumulativeRelease("long", ("1",), most=64, weights="rule"), horizon=100)


@cache
def long_contract(release: str = "long") -> ContractRecord:
    """The contract of its release, or of one of another name."""
    (declared,) = long_study().releases
    assert isinstance(declared, CumulativeRelease)
    study = build_study(CumulativeRelease(release, declared.event, most=declared.most, weights="rule"), horizon=100)
    (contract,) = stated_contracts(study, PEOPLE, insecure=True).values()
    return ContractRecord(contract, PEOPLE)
