"""Recomputes what a release spent and which counts it should show, from public values alone.

`LedgerVerifier` checks that the ledger is one chain and that digests match. This module checks what the records say:

* the spending. The contract states the noise of every measurement, so the cost of each prefix of periods follows from it,
  by the same programme with which the synthesizer charges itself. A draw that a period record names as abandoned counts as
  one more draw of that period. The ledger may state more than this cost, never less.
* the counts. Each column moves every synthetic person to a new bin, and the measurements of the period say how many people
  each bin should have, up to rounding. Only counts that the period record declares as clamped may differ by more.

Neither shows that noise was drawn with the parameter that the contract states: one draw is a plausible value of many
distributions. Nobody who sees only public values can check that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from streamproc.errors import VerificationFailed
from streamproc.panel.series import HistoryBuilder
from streamproc.privacy.accountant import PrivacyAccountant
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.columns import ContractRecord
from streamproc.protocol.ledger import ReleaseSummary
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.protocol.snapshots import snapshot_chunks, snapshot_digest
from streamproc.releases.step import Column, PanelState, ReleasedPeriod
from streamproc.study import Release

SUMMARY_TOLERANCE = 1e-7
"""By how much the estimates of a summary may differ from those that a reader computes, relative to their sum."""


def check_due_columns(releases: Iterable[Release], ledger: VerifiedLedger) -> None:
    """Every release of the study has its columns in the ledger as soon as they are due, and measures nothing before that.

    Without this check a ledger could hold measurements of a release without its contract, whose cost nobody can compute.
    """
    expected = {release.name: release for release in releases}
    for record in ledger.periods[:1]:
        if record.releases.keys() != expected.keys():
            raise VerificationFailed("ledger, period 1: its releases are not those of the study")
    for name, release in expected.items() if ledger.periods else ():
        first = release.first_column
        due = ledger.period if ledger.period >= first else 0
        if ledger.column_count(name) != due:
            raise VerificationFailed(f"ledger, period {ledger.period}: release {name} must have {due} columns by then")
        for period in range(1, min(first - 1, ledger.period) + 1):
            if len(ledger.measurements[name, Period(period)]):
                raise VerificationFailed(f"ledger, period {period}: release {name} measures nothing before period {first}")


class ReleaseAudit:
    """Checks one release, period by period, in order. Each period is recomputed once."""

    def __init__(self, record: ContractRecord, panel: PanelState | None = None, abandoned: int = 0) -> None:
        """With `panel`, the audit starts after a summary, before which `abandoned` draws were lost.

        Raises VerificationFailed if the panel cannot be one of the release.
        """
        self._record = record
        self._contract = record.contract
        start = Period(0) if panel is None else panel.period
        # A draw that was lost before the summary costs the same in whichever of those periods it was.
        again = (start,) * abandoned
        self._accountant = PrivacyAccountant(record.release, self._contract.rho, self._contract.mechanism, start, again)
        try:
            self.builder = HistoryBuilder(self._contract, panel)
            """What the columns add up to so far."""
        except ValueError as error:
            raise VerificationFailed(str(error)) from None
        self._before: IntArray | None = None
        """The released counts of the period before."""
        self._columns = int(start)

    def check_spending(self, ledger: VerifiedLedger, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Recompute the spending of the periods that have come since the last call.

        `is_stopped` is called before each period, which may take a tenth of a second; if it is True, the rest is left out.
        Raises VerificationFailed, with the period and the release, if the ledger states less.
        """
        name = self._record.release
        for record in ledger.records_after(self._accountant.period):
            if is_stopped():
                return
            entry = record.releases[name]
            again = (record.period,) * len(record.abandoned)
            self._accountant = PrivacyAccountant(
                name, self._accountant.rho, self._contract.mechanism, record.period, self._accountant.redrawn + again
            )
            cost = self._accountant.spent
            if entry.rho_spent < cost:
                raise VerificationFailed(
                    f"ledger, period {record.period}: release {name} states that it has spent rho {entry.rho_spent}, but by "
                    f"its contract {record.period} periods with {len(self._accountant.redrawn)} repeated draws cost "
                    f"rho {cost}"
                )
            # In an open study that number changes, and `add_column` checks it.
            if not self._contract.is_open and entry.n_star not in (None, self._record.n_star):
                raise VerificationFailed(
                    f"ledger, period {record.period}: release {name} states {entry.n_star} synthetic people, its contract "
                    f"{self._record.n_star}"
                )

    def add_column(self, column: Column, ledger: VerifiedLedger) -> None:
        """Take the next period's column and compare the counts with the measurements of that period.

        Raises VerificationFailed, with the period and the release, if more counts differ than are declared as clamped.
        """
        period = Period(self._columns + 1)
        name = self._record.release
        measured = ledger.measurements[name, period]
        expected = sum(self._contract.measurement_sizes(period))
        if len(measured) != expected:
            raise VerificationFailed(
                f"ledger, period {period}: release {name} has {len(measured)} measurements, not the {expected} that its "
                "contract makes"
            )
        arrays, codes = self._contract.split_measurements(measured, period), self.builder.codes
        counts = self.builder.add(column, arrays)
        self._columns = period
        if counts is None:
            return
        if period == 1:
            codes = self._contract.codes_before(len(column))
        released = ReleasedPeriod(period, column, codes, counts, self._before, arrays, self.builder.estimator)
        different, impossible, compared = self._contract.compare(released)
        entry = ledger.record(period).releases[name]
        if self._contract.is_open and entry.n_star != self.builder.rows:
            raise VerificationFailed(
                f"ledger, period {period}: release {name} states {entry.n_star} synthetic people, its columns have "
                f"{self.builder.rows}"
            )
        clamped = entry.clamped
        if impossible or different > clamped:
            wrong, of = (impossible, compared) if impossible else (different, len(counts))
            raise VerificationFailed(
                f"release {name}, period {period}: {wrong} of its {of} counts do not follow from "
                f"the measurements in the ledger, which declares {clamped} of them as clamped"
            )
        self._before = counts
        summary = ledger.record(period).summary
        if summary is not None:
            self._check_summary(summary.releases[name])

    def _check_summary(self, stated: ReleaseSummary) -> None:
        panel = self.builder.panel_state()
        found = (
            len(panel.present.numbers),
            snapshot_digest(snapshot_chunks(self._record.release, panel.period, panel.present)),
        )
        same = len(stated.numbers) == len(panel.estimates)
        # Estimates are computed in floating point, and differ a little between machines.
        tolerance = SUMMARY_TOLERANCE * (1 + float(np.abs(panel.estimates).sum()))
        if (
            not same
            or found != (stated.present, stated.snapshot)
            or (abs(stated.numbers - panel.estimates) > tolerance).any()
        ):
            raise VerificationFailed(
                f"ledger, period {panel.period}: the summary of release {self._record.release} is not that of its columns "
                "and measurements"
            )


def check_same_people(records: Mapping[str, ContractRecord]) -> None:
    """All releases of a study are about the same number of people."""
    if len({record.contract.n for record in records.values()}) > 1:
        raise VerificationFailed(f"the contracts of releases {', '.join(records)} state different numbers of people")
