"""The synthesizer's state file: all it must remember, and the exact bytes of the last period it drew."""

from __future__ import annotations

from dataclasses import dataclass

from streamproc.actor.draft import Draft, Outgoing
from streamproc.actor.memory import arrays_of, synthesis_of
from streamproc.actor.startup import OnDisk
from streamproc.errors import Refused
from streamproc.ports.disk import Disk
from streamproc.privacy.quantities import Period
from streamproc.synth.contract import contract_to_dict
from streamproc.synth.synthesis import Synthesis
from streamproc.wire.contracts import checked_contract
from streamproc.wire.malformed import Malformed
from streamproc.wire.message import Fields
from streamproc.wire.state import pack_arrays, seal, unpack_arrays, unseal

STATE_FILE = "synthesizer.state"
SETTLED_FILE = "synthesizer.settled"
"""Holds the digest of the last period known to be published; without it a period is settled again, which is harmless."""


@dataclass(frozen=True, eq=False)
class Stored:
    """A period that was drawn, with everything that follows from it."""

    synthesis: Synthesis
    draft: Draft
    abandoned: tuple[bytes, ...] = ()
    """Draws that were announced and lost, of this period or the next, whose cost the steward has accepted."""


def write_stored(disk: Disk, fingerprint: bytes, stored: Stored) -> int:
    """Persist; when this returns the draw is durable. Answers with the file's size in bytes."""
    synthesis, draft = stored.synthesis, stored.draft
    body = pack_arrays(
        {
            "period": synthesis.period,
            "redrawn": list(synthesis.redrawn),
            "contracts": {name: contract_to_dict(contract) for name, contract in synthesis.contracts.items()},
            "arrays": arrays_of(synthesis),
            "digest": draft.digest,
            "previous": draft.previous,
            "abandoned": list(stored.abandoned),
            "outgoing": [[record.topic, record.value] for record in draft.outgoing],
        }
    )
    content = seal(fingerprint, body)
    disk.write(STATE_FILE, content)
    return len(content)


def read_stored(disk: Disk, fingerprint: bytes) -> Stored | None:
    """What is on disk; None if there is nothing. Refuses what is damaged or of another study."""
    content = disk.read(STATE_FILE)
    if content is None:
        return None
    try:
        state = unpack_arrays(unseal(content, fingerprint))
        contracts = {name: checked_contract(Fields(values)) for name, values in state["contracts"].items()}
        period = Period(state["period"])
        redrawn = [Period(again) for again in state["redrawn"]]
        synthesis = synthesis_of(contracts, period, state["arrays"], redrawn)
        outgoing = tuple(Outgoing(topic, value) for topic, value in state["outgoing"])
        drafted = Draft(period, state["digest"], state["previous"], outgoing)
        return Stored(synthesis, drafted, tuple(state["abandoned"]))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = error.reason if isinstance(error, Malformed) else "its content does not fit together"
        raise Refused(
            f"state file {STATE_FILE}: {reason}; if the folder is this study's own, put back the newest copy of the state "
            "folder, or rebuild it with `streamproc restore`"
        ) from None


def settle(disk: Disk, fingerprint: bytes, draft: Draft) -> None:
    """Mark the period published."""
    disk.write(SETTLED_FILE, seal(fingerprint, draft.digest))


def on_disk(disk: Disk, fingerprint: bytes, stored: Stored | None) -> OnDisk | None:
    """What the table of start-up moves needs to know. Refuses a mark that is damaged or of another study."""
    if stored is None:
        return None
    draft = stored.draft
    # A restored period was read from the ledger: there is nothing of it to publish.
    settled = _settled(disk, fingerprint) == draft.digest or not draft.outgoing
    return OnDisk(draft.period, draft.digest, draft.previous, settled, stored.abandoned)


def _settled(disk: Disk, fingerprint: bytes) -> bytes | None:
    content = disk.read(SETTLED_FILE)
    try:
        return None if content is None else bytes(unseal(content, fingerprint))
    except Malformed as error:
        raise Refused(
            f"state file {SETTLED_FILE}: {error.reason}; delete it, and the ledger tells what is published"
        ) from None
