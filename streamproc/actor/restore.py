"""The steward's way out of a lost disk: the state of the last ledger record, rebuilt from the topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamproc.actor.draft import Draft
from streamproc.actor.memory import rebuilt
from streamproc.actor.stored import Stored
from streamproc.actor.tallies import StudyTally
from streamproc.errors import Refused
from streamproc.privacy.quantities import IntArray, Period
from streamproc.synth.contract import Contract
from streamproc.synth.step import Column
from streamproc.synth.synthesis import Synthesis
from streamproc.wire.chain import VerifiedLedger


def restored(
    ledger: VerifiedLedger,
    contracts: Mapping[str, Contract],
    columns: Mapping[str, Sequence[Column]],
    measurements: Mapping[str, Sequence[Sequence[IntArray]]],
    tallies: Sequence[StudyTally],
) -> Stored:
    """The state after the ledger's last period, where everything given ends; announced draws without a record are abandoned.

    Its draft holds no bytes to publish: they are published already. What an abandoned draw cost is in the odometer from the
    next period on, and that period's record will name it.
    """
    states = {
        name: rebuilt(contract, columns[name], [tally.counts[name] for tally in tallies], measurements[name])
        for name, contract in contracts.items()
    }
    paid_again = [record.period for record in ledger.periods for _ in record.abandoned]
    paid_again += [Period(ledger.period + 1)] * len(ledger.intents)
    synthesis = Synthesis.resumed(ledger.period, contracts, states, tuple(paid_again))
    _check_spending(ledger, synthesis)
    previous = ledger.periods[-1].previous if ledger.periods else ledger.head
    return Stored(synthesis, Draft(ledger.period, ledger.head, previous, ()), ledger.intents)


def _check_spending(ledger: VerifiedLedger, synthesis: Synthesis) -> None:
    for name, odometer in synthesis.odometers.items() if ledger.periods else ():
        said = ledger.periods[-1].releases[name].rho_spent
        if odometer.spent != said:
            raise Refused(f"release {name}: rebuilt, it has spent rho {odometer.spent}, but the ledger says {said}")
