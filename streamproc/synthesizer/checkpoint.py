"""The synthesizer's state file: all it must remember, and the exact bytes of the last period it drew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.errors import Malformed, Refused
from streamproc.privacy.counters import Counter
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.codec import Fields
from streamproc.protocol.columns import checked_contract
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.protocol.state_file import pack_arrays, seal, unpack_arrays, unseal
from streamproc.releases.contract import Contract, CumulativeContract, WindowContract, contract_to_dict
from streamproc.releases.cumulative import CumulativeState
from streamproc.releases.row_assignment import narrowest_dtype
from streamproc.releases.step import Column
from streamproc.releases.synthesis import State, Synthesis
from streamproc.releases.window import WindowState
from streamproc.storage.state_folder import StateFolder
from streamproc.synthesizer.outbox import OutgoingRecord, PendingRelease
from streamproc.synthesizer.recovery import LocalState
from streamproc.synthesizer.tally_reader import StudyTally

STATE_FILE = "synthesizer.state"
PUBLISHED_MARK_FILE = "synthesizer.settled"
"""Holds the digest of the last period known to be published; without it a period is settled again, which is harmless."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A period that was drawn, with everything that follows from it."""

    synthesis: Synthesis
    pending: PendingRelease
    abandoned: tuple[bytes, ...] = ()
    """Draws that were announced and lost, of this period or the next, whose cost the steward has accepted."""


def write_checkpoint(disk: StateFolder, fingerprint: bytes, stored: Checkpoint) -> int:
    """Persist; when this returns the draw is durable. Answers with the file's size in bytes."""
    synthesis, draft = stored.synthesis, stored.pending
    body = pack_arrays(
        {
            "period": synthesis.period,
            "redrawn": list(synthesis.redrawn),
            "contracts": {name: contract_to_dict(contract) for name, contract in synthesis.contracts.items()},
            "arrays": to_arrays(synthesis),
            "digest": draft.digest,
            "previous": draft.previous,
            "abandoned": list(stored.abandoned),
            "outgoing": [[record.topic, record.value] for record in draft.outgoing],
        }
    )
    content = seal(fingerprint, body)
    disk.write(STATE_FILE, content)
    return len(content)


def read_checkpoint(disk: StateFolder, fingerprint: bytes) -> Checkpoint | None:
    """What is on disk; None if there is nothing. Refuses what is damaged or of another study."""
    content = disk.read(STATE_FILE)
    if content is None:
        return None
    try:
        state = unpack_arrays(unseal(content, fingerprint))
        contracts = {name: checked_contract(Fields(values)) for name, values in state["contracts"].items()}
        period = Period(state["period"])
        redrawn = [Period(again) for again in state["redrawn"]]
        synthesis = from_arrays(contracts, period, state["arrays"], redrawn)
        outgoing = tuple(OutgoingRecord(topic, value) for topic, value in state["outgoing"])
        drafted = PendingRelease(period, state["digest"], state["previous"], outgoing)
        return Checkpoint(synthesis, drafted, tuple(state["abandoned"]))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = error.reason if isinstance(error, Malformed) else "its content does not fit together"
        raise Refused(
            f"state file {STATE_FILE}: {reason}; if the folder is this study's own, put back the newest copy of the state "
            "folder, or rebuild it with `streamproc restore`"
        ) from None


def mark_published(disk: StateFolder, fingerprint: bytes, draft: PendingRelease) -> None:
    """Mark the period published."""
    disk.write(PUBLISHED_MARK_FILE, seal(fingerprint, draft.digest))


def local_state(disk: StateFolder, fingerprint: bytes, stored: Checkpoint | None) -> LocalState | None:
    """What the table of start-up moves needs to know. Refuses a mark that is damaged or of another study."""
    if stored is None:
        return None
    draft = stored.pending
    # A restored period was read from the ledger: there is nothing of it to publish.
    settled = _settled(disk, fingerprint) == draft.digest or not draft.outgoing
    return LocalState(draft.period, draft.digest, draft.previous, settled, stored.abandoned)


def _settled(disk: StateFolder, fingerprint: bytes) -> bytes | None:
    content = disk.read(PUBLISHED_MARK_FILE)
    try:
        return None if content is None else bytes(unseal(content, fingerprint))
    except Malformed as error:
        raise Refused(
            f"state file {PUBLISHED_MARK_FILE}: {error.reason}; delete it, and the ledger tells what is published"
        ) from None


Arrays: TypeAlias = dict[str, npt.NDArray[Any]]


def to_arrays(synthesis: Synthesis) -> Arrays:
    """Every state of the synthesis, each array under `<release>/<what>`."""
    arrays: Arrays = {}
    for name, state in synthesis.states.items():
        if isinstance(state, WindowState):
            arrays |= {f"{name}/windows": state.windows, f"{name}/counts": state.counts}
        else:
            arrays |= {
                f"{name}/weights": state.weights,
                f"{name}/sums": state.sums,
                f"{name}/tallies": state.tallies[: state.period],
                f"{name}/measured": np.concatenate(state.measured),
            }
    return arrays


def from_arrays(contracts: Mapping[str, Contract], period: Period, arrays: Arrays, redrawn: Sequence[Period]) -> Synthesis:
    """The synthesis whose `arrays_of` these are."""
    states: dict[str, State] = {}
    for name, contract in contracts.items():
        if isinstance(contract, WindowContract):
            states[name] = WindowState(period, arrays[f"{name}/windows"], arrays[f"{name}/counts"])
        else:
            tallies = arrays[f"{name}/tallies"]
            measured = split_by_stream(contract.mechanism.counter, arrays[f"{name}/measured"], period)
            states[name] = _cumulative(contract, period, arrays[f"{name}/weights"], tallies, measured)
    return Synthesis.resumed(period, contracts, states, tuple(redrawn))


def rebuild_state(
    contract: Contract,
    columns: Sequence[Column],
    tallies: Sequence[IntArray],
    measurements: Sequence[Sequence[IntArray]],
) -> State:
    """The state after the last of these periods, from what was published and the exact tallies."""
    period = Period(len(tallies))
    if isinstance(contract, WindowContract):
        return _window_from_columns(contract, columns, period)
    weights = np.zeros(contract.n, dtype=np.uint16)
    for column in columns:
        weights += column
    streams = [np.concatenate([each[b] for each in measurements[b:period]]) for b in range(period)]
    none = np.zeros(0, dtype=np.int64)
    measured = (*streams, *[none] * (contract.mechanism.horizon - period))
    stacked = np.stack(tallies) if tallies else np.zeros((0, contract.mechanism.horizon), dtype=np.int64)
    return _cumulative(contract, period, weights, stacked, measured)


def split_by_stream(counter: Counter, flat: IntArray, period: Period) -> tuple[IntArray, ...]:
    """The noisy rows of each stream, `b = 1..T`, from all of them one stream after the other."""
    lengths = [counter.rows_at(period - b + 1).stop if b <= period else 0 for b in range(1, counter.length + 1)]
    return tuple(np.split(flat, np.cumsum(lengths)[:-1]))


def _window_from_columns(contract: WindowContract, columns: Sequence[Column], period: Period) -> WindowState:
    mechanism = contract.mechanism
    if period < mechanism.k:
        return WindowState(period, *_nothing_yet(mechanism.bins))
    windows = np.zeros(len(columns[-1]), dtype=narrowest_dtype(mechanism.bins))
    for column in columns[-mechanism.k :]:
        windows *= windows.dtype.type(mechanism.q)
        windows += column
    return WindowState(period, windows, np.bincount(windows, minlength=mechanism.bins).astype(np.int64))


def _nothing_yet(bins: int) -> tuple[npt.NDArray[Any], IntArray]:
    return np.zeros(0, dtype=narrowest_dtype(bins)), np.zeros(bins, dtype=np.int64)


def _cumulative(
    contract: CumulativeContract,
    period: Period,
    weights: npt.NDArray[Any],
    tallies: IntArray,
    measured: tuple[IntArray, ...],
) -> CumulativeState:
    horizon = contract.mechanism.horizon
    exactly = np.bincount(weights, minlength=horizon + 1)
    sums = np.cumsum(exactly[::-1])[::-1].astype(np.int64)
    padded = np.zeros((horizon, horizon), dtype=np.int64)
    padded[:period] = tallies
    return CumulativeState(period, weights, sums, padded, measured)


def restore_checkpoint(
    ledger: VerifiedLedger,
    contracts: Mapping[str, Contract],
    columns: Mapping[str, Sequence[Column]],
    measurements: Mapping[str, Sequence[Sequence[IntArray]]],
    tallies: Sequence[StudyTally],
) -> Checkpoint:
    """The state after the ledger's last period, where everything given ends; announced draws without a record are abandoned.

    Its draft holds no bytes to publish: they are published already. What an abandoned draw cost is in the odometer from the
    next period on, and that period's record will name it.
    """
    states = {
        name: rebuild_state(contract, columns[name], [tally.counts[name] for tally in tallies], measurements[name])
        for name, contract in contracts.items()
    }
    paid_again = [record.period for record in ledger.periods for _ in record.abandoned]
    paid_again += [Period(ledger.period + 1)] * len(ledger.intents)
    synthesis = Synthesis.resumed(ledger.period, contracts, states, tuple(paid_again))
    _check_spending(ledger, synthesis)
    previous = ledger.periods[-1].previous if ledger.periods else ledger.head
    return Checkpoint(synthesis, PendingRelease(ledger.period, ledger.head, previous, ()), ledger.intents)


def _check_spending(ledger: VerifiedLedger, synthesis: Synthesis) -> None:
    for name, odometer in synthesis.accountants.items() if ledger.periods else ():
        said = ledger.periods[-1].releases[name].rho_spent
        if odometer.spent != said:
            raise Refused(f"release {name}: rebuilt, it has spent rho {odometer.spent}, but the ledger says {said}")
