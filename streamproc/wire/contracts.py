"""A release's public contract as the first record of its topic: what a reader needs to make sense of the columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from streamproc.panel.packing import bits_for
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.counters import CounterName
from streamproc.privacy.window import Measure
from streamproc.study.release import MAX_HORIZON
from streamproc.study.values import MAX_BINS, MAX_CUMULATIVE_HORIZON
from streamproc.synth.contract import MAX_ROWS, ONES, Contract, contract_from_dict, contract_to_dict
from streamproc.wire.checks import check_alphabet, check_choice, check_flag, check_real, check_release, check_whole
from streamproc.wire.malformed import Malformed
from streamproc.wire.message import Fields, pack

_OF_BOTH = ("kind", "release", "alphabet", "n", "rho", "adjacency", "horizon", "insecure")
_OF_KIND = {
    "window": ("k", "measure", "n_pad", "sigma_first", "sigma_later"),
    "cumulative": ("event", "counter", "sigmas"),
}


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
    """What `contract_to_dict` wrote. Each field is checked first: a huge horizon would be a huge matrix."""
    check_choice("kind", fields["kind"], list(_OF_KIND))
    values: dict[str, Any] = {key: fields[key] for key in _OF_BOTH + _OF_KIND[fields["kind"]]}
    values["alphabet"] = fields.sequence("alphabet")
    check_alphabet(values["alphabet"])
    check_release(values["release"])
    check_choice("adjacency", values["adjacency"], [adjacency.value for adjacency in Adjacency])
    check_whole("n", values["n"], 0, MAX_ROWS)
    check_real("rho", values["rho"], positive=True)
    check_flag("insecure", values["insecure"])
    if values["kind"] == "window":
        _check_window(values)
    else:
        values["event"], values["sigmas"] = fields.sequence("event"), fields.sequence("sigmas")
        _check_cumulative(values)
    return _contract(values)


def _contract(values: dict[str, Any]) -> Contract:
    try:
        return contract_from_dict(values)
    except ValueError:
        pass
    raise Malformed("contract: expected one that can be kept")


def _check_window(values: dict[str, Any]) -> None:
    check_whole("horizon", values["horizon"], 1, MAX_HORIZON)
    check_whole("k", values["k"], 1, min(values["horizon"], MAX_BINS.bit_length()))
    if len(values["alphabet"]) ** values["k"] > MAX_BINS:
        raise Malformed(f"k: expected at most {MAX_BINS} windows")
    check_choice("measure", values["measure"], get_args(Measure))
    check_whole("n_pad", values["n_pad"], 0, MAX_ROWS)
    check_real("sigma_first", values["sigma_first"], positive=True)
    check_real("sigma_later", values["sigma_later"], positive=True)


def _check_cumulative(values: dict[str, Any]) -> None:
    check_whole("horizon", values["horizon"], 1, MAX_CUMULATIVE_HORIZON)
    if values["alphabet"] != ONES:
        raise Malformed("alphabet: expected 0 and 1")
    if not values["event"] or not all(isinstance(symbol, str) for symbol in values["event"]):
        raise Malformed("event: expected a list of symbols")
    check_choice("counter", values["counter"], get_args(CounterName))
    if len(values["sigmas"]) != values["horizon"]:
        raise Malformed("sigmas: expected one for each period")
    for sigma in values["sigmas"]:
        check_real("sigmas", sigma, positive=True)
