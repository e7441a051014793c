"""A release's public contract as the first record of its topic: what a reader needs to make sense of the columns."""

from __future__ import annotations

from dataclasses import dataclass

from streamproc.panel.packing import bits_for
from streamproc.synth.contract import MAX_ROWS, Contract, contract_to_dict
from streamproc.synth.contract_fields import contract_from_fields
from streamproc.wire.checks import check_whole
from streamproc.wire.malformed import Malformed
from streamproc.wire.message import Fields, pack


@dataclass(frozen=True, eq=False)
class ContractRecord:
    """A contract and the number of synthetic people, which `histogram` knows only once it has drawn."""

    contract: Contract
    n_star: int

    def __post_init__(self) -> None:
        check_whole("n_star", self.n_star, 0, MAX_ROWS)
        if self.contract.n_star not in (None, self.n_star):
            raise Malformed("n_star: expected what n, n_pad and k make it")

    @property
    def release(self) -> str:
        """The release's name."""
        return self.contract.name

    @property
    def bits(self) -> int:
        """Of each row of its columns."""
        return bits_for(len(self.contract.alphabet))

    def encode(self) -> bytes:
        """The record's value."""
        return pack("contract", contract_to_dict(self.contract) | {"n_star": self.n_star})


def decode_contract(fields: Fields) -> ContractRecord:
    """The contract in a message's fields."""
    return ContractRecord(checked_contract(fields), fields["n_star"])


def checked_contract(fields: Fields) -> Contract:
    """What `contract_to_dict` wrote; anything else is malformed."""
    return contract_from_fields(fields, lambda field, got, expected: Malformed(f"{field}: expected {expected}"))
