"""What the page has read of an open study, without topics: from a synthesis of simulated people."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from streamproc.panel.series import HistoryBuilder
from streamproc.privacy.types import IntArray, Period, Rho
from streamproc.protocol.ledger import PeriodRecord, ReleasePeriod, StudyRecord
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.releases.contracts import make_contracts
from streamproc.releases.open_presence import NO_REPORT, PresenceState
from streamproc.releases.synthesis import Synthesis
from streamproc.status_page.follower import PageSnapshot
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import Study
from streamproc.study.fingerprint import fingerprint, public_values


def open_tallies(study: Study, periods: int, arrivals: int = 40, *, seed: int = 0) -> Iterator[dict[str, IntArray]]:
    """The tallies of each period of people of whom about `arrivals` come in each and report a random symbol or nothing."""
    rng, state = np.random.default_rng(seed), PresenceState.of(study, 0)
    for _ in range(periods):
        state = state.with_rows(len(state.ages) + int(rng.poisson(arrivals)))
        symbols = rng.integers(0, study.q, len(state.ages)).astype(np.uint8)
        symbols[(state.ages > 0) & (rng.random(len(symbols)) < 0.05)] = NO_REPORT
        state, tallies = state.fold(symbols)
        state = state.retain((state.ages > 0) & (state.gone == 0))
        yield tallies


def open_snapshot(
    study: Study, tallies: Iterable[Mapping[str, IntArray]], *, over: bool = False, seed: int = 0
) -> PageSnapshot:
    """The snapshot after the periods of these tallies; `over` marks the last of them as the last of the study."""
    entropy, of_all = SeededEntropy(seed), list(tallies)
    synthesis = Synthesis.start(make_contracts(study, 0, entropy))
    builders = {name: HistoryBuilder(contract) for name, contract in synthesis.contracts.items()}
    records: list[PeriodRecord] = []
    previous = bytes(32)
    for tally in of_all:
        synthesis, steps = synthesis.step(tally, entropy)
        period = synthesis.period
        released = {}
        for name, step in steps.items():
            [column] = step.columns
            builders[name].add(column, step.measurements)
            rho, digest = Rho(synthesis.contracts[name].rho), hashlib.sha256(column.tobytes()).digest()
            rows = synthesis.contracts[name].rows(synthesis.states[name])
            spent = synthesis.accountants[name].spent
            released[name] = ReleasePeriod(rho, spent, step.clamped, rows, ((period, digest),), digest)
        last = over and period == len(of_all)
        records.append(PeriodRecord(period, released, synthesis.spent, previous, salt=bytes(32), last=last))
        previous = hashlib.sha256(records[-1].encode()).digest()
    record = StudyRecord(public_values(study), fingerprint(study, None), insecure=True)
    ledger = VerifiedLedger(record, tuple(records), {}, previous, ())
    return PageSnapshot(ledger, {name: builder.history() for name, builder in builders.items()}, following=True)


def repeated(snapshot: PageSnapshot, periods: int) -> PageSnapshot:
    """The same with its newest period repeated, up to so many periods: as large as a long study, and soon made."""
    assert snapshot.ledger is not None
    last = snapshot.ledger.periods[-1]
    more = tuple(
        PeriodRecord(Period(period), last.releases, last.rho_spent, last.previous, salt=last.salt)
        for period in range(last.period + 1, periods + 1)
    )
    ledger = VerifiedLedger(snapshot.ledger.study, snapshot.ledger.periods + more, {}, snapshot.ledger.head, ())
    histories = {}
    for name, history in snapshot.histories.items():
        missing = periods - history.period
        counts = history.counts + (history.counts[-1],) * missing
        estimates = history.estimates + (history.estimates[-1],) * missing
        histories[name] = type(history)(history.contract, history.rows, Period(periods), counts, estimates)
    return PageSnapshot(ledger, histories, following=True)
