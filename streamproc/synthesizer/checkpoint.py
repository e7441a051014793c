"""The synthesizer's state file: its state, and the exact bytes of the last period that it drew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamproc.errors import LedgerConflict, Malformed, StateFileUnusable
from streamproc.privacy.types import Period
from streamproc.protocol.codec import Fields, check_whole
from streamproc.protocol.columns import checked_contract
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.protocol.state_file import OldStateFile, pack_arrays, seal, unpack_arrays, unseal
from streamproc.releases.kind import Arrays, Contract
from streamproc.releases.step import Column, Measurements
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.state_folder import StateFolder
from streamproc.synthesizer.outbox import OutgoingRecord, PendingRelease
from streamproc.synthesizer.recovery import LocalState
from streamproc.synthesizer.tally_reader import StudyTally

STATE_FILE = "synthesizer.state"
PUBLISHED_MARK_FILE = "synthesizer.settled"
"""Holds the digest of the last period known to be published; without it a period is published again, which has no effect."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A period that was drawn, with everything that follows from it."""

    synthesis: Synthesis
    pending: PendingRelease
    abandoned: tuple[bytes, ...] = ()
    """Draws that were announced and lost, of this period or the next, whose cost the steward has accepted."""


def write_checkpoint(disk: StateFolder, fingerprint: bytes, stored: Checkpoint) -> int:
    """Write the checkpoint; the draw is durable when this returns. Returns the file's size in bytes."""
    synthesis, draft = stored.synthesis, stored.pending
    body = pack_arrays(
        {
            "period": synthesis.period,
            "redrawn": list(synthesis.redrawn),
            "contracts": {name: contract.to_dict() for name, contract in synthesis.contracts.items()},
            "arrays": to_arrays(synthesis),
            "digest": draft.digest,
            "previous": draft.previous,
            "abandoned": list(stored.abandoned),
            "outgoing": [[record.topic, record.value] for record in draft.outgoing],
        }
        | ({"last": True} if draft.last else {})
    )
    content = seal(fingerprint, body)
    disk.write(STATE_FILE, content)
    return len(content)


def read_checkpoint(disk: StateFolder, fingerprint: bytes) -> Checkpoint | None:
    """Read the checkpoint; None if there is none. Raises StateFileUnusable if it is damaged or of another study."""
    content = disk.read(STATE_FILE)
    if content is None:
        return None
    try:
        state = unpack_arrays(unseal(content, fingerprint))
        contracts = {name: checked_contract(Fields(values)) for name, values in state["contracts"].items()}
        check_whole("period", state["period"], 0, min(contract.horizon for contract in contracts.values()))
        period = Period(state["period"])
        redrawn = [Period(again) for again in state["redrawn"]]
        synthesis = from_arrays(contracts, period, state["arrays"], redrawn)
        outgoing = tuple(OutgoingRecord(topic, value) for topic, value in state["outgoing"])
        drafted = PendingRelease(period, state["digest"], state["previous"], outgoing, state.get("last", False))
        return Checkpoint(synthesis, drafted, tuple(state["abandoned"]))
    except OldStateFile as old:
        raise StateFileUnusable(STATE_FILE, old.reason) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = error.reason if isinstance(error, Malformed) else "its content does not fit together"
        advice = "put back the newest copy of the state folder, or rebuild it with `streamproc restore`"
        raise StateFileUnusable(STATE_FILE, f"{reason}; if the folder is this study's own, {advice}") from None


def mark_published(disk: StateFolder, fingerprint: bytes, draft: PendingRelease) -> None:
    """Mark the period published."""
    disk.write(PUBLISHED_MARK_FILE, seal(fingerprint, draft.digest))


def local_state(disk: StateFolder, fingerprint: bytes, stored: Checkpoint | None) -> LocalState | None:
    """The state that `recovery.decide` compares. Raises StateFileUnusable if the mark is damaged or of another study."""
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
    except OldStateFile as old:
        raise StateFileUnusable(PUBLISHED_MARK_FILE, old.reason) from None
    except Malformed as error:
        advice = "delete it, and the ledger tells what is published"
        raise StateFileUnusable(PUBLISHED_MARK_FILE, f"{error.reason}; {advice}") from None


def to_arrays(synthesis: Synthesis) -> Arrays:
    """Every state of the synthesis, each array under `<release>/<name>`."""
    return {
        f"{release}/{name}": array
        for release, state in synthesis.states.items()
        for name, array in synthesis.contracts[release].state_arrays(state).items()
    }


def from_arrays(contracts: Mapping[str, Contract], period: Period, arrays: Arrays, redrawn: Sequence[Period]) -> Synthesis:
    """The synthesis whose `to_arrays` these are."""
    states = {}
    for release, contract in contracts.items():
        prefix = f"{release}/"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        states[release] = contract.state_from_arrays(period, own)
    return Synthesis.resumed(period, contracts, states, tuple(redrawn))


def restore_checkpoint(
    ledger: VerifiedLedger,
    contracts: Mapping[str, Contract],
    columns: Mapping[str, Sequence[Column]],
    measurements: Mapping[str, Sequence[Measurements]],
    tallies: Sequence[StudyTally],
) -> Checkpoint:
    """The checkpoint after the ledger's last period, rebuilt from the topics; everything given ends with that period.

    It has no records to publish: they are published already. Draws that were announced and have no ledger record are
    abandoned. Their cost is charged from the next period on, and the record of that period names them.
    """
    states = {
        name: contract.rebuild_state(columns[name], [tally.counts[name] for tally in tallies], measurements[name])
        for name, contract in contracts.items()
    }
    paid_again = [record.period for record in ledger.periods for _ in record.abandoned]
    paid_again += [Period(ledger.period + 1)] * len(ledger.intents)
    synthesis = Synthesis.resumed(ledger.period, contracts, states, tuple(paid_again))
    _check_spending(ledger, synthesis)
    previous = ledger.periods[-1].previous if ledger.periods else ledger.head
    pending = PendingRelease(ledger.period, ledger.head, previous, (), ledger.is_over and ledger.study.is_open)
    return Checkpoint(synthesis, pending, ledger.intents)


def _check_spending(ledger: VerifiedLedger, synthesis: Synthesis) -> None:
    for name, accountant in synthesis.accountants.items() if ledger.periods else ():
        said = ledger.periods[-1].releases[name].rho_spent
        if accountant.spent != said:
            raise LedgerConflict(f"release {name}: rebuilt, it has spent rho {accountant.spent}, but the ledger says {said}")
