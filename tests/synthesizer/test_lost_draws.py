"""A draw that was announced and lost with its disk, whose cost the steward accepted: the ledger records this forever."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streamproc.errors import Refused
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.kind import Contract
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.entropy import SeededEntropy
from streamproc.synthesizer.checkpoint import mark_published, read_checkpoint, restore_checkpoint, write_checkpoint
from streamproc.synthesizer.tally_reader import TallyReader
from streamproc.testing import in_virtual_time
from tests.stream_model.fault_points import FaultPoint
from tests.stream_model.simulated_study import FreshEntropy, SimulatedStudy
from tests.synthesizer.study_runs import HISTORIES, STUDY, begin_study, run_until_crash, run_with_tallies

CONTRACTS = stated_contracts(STUDY, len(HISTORIES), insecure=True)


async def lost(simulated: SimulatedStudy, period: int) -> bytes:
    """The draw of this period is announced, then its disk is lost; returns what was announced."""

    def announced(number: int, point: FaultPoint) -> bool:
        begun_already = bool(simulated.committed(simulated.topics.ledger))
        return str(point) == "after commit" and begun_already and bool(ledger_of(simulated, period))

    await run_until_crash(simulated, announced)
    [intent] = simulated.ledger().intents
    simulated.state_folder.clear()
    return intent


def ledger_of(simulated: SimulatedStudy, period: int) -> tuple[bytes, ...]:
    ledger = simulated.ledger()
    return ledger.intents if ledger.period == period - 1 else ()


async def restore(simulated: SimulatedStudy) -> None:
    """As `restore --accept-cost` does."""
    ledger = simulated.ledger()
    reader = await TallyReader.open(simulated.log, STUDY)
    await reader.poll(timeout=0)
    tallies = [reader.complete(Period(period)) for period in range(1, ledger.period + 1)]
    released = [name for name in CONTRACTS if simulated.committed(simulated.topics.synthetic(name))]
    columns = {
        name: [column.symbols for column in simulated.columns(name)] if name in released else [] for name in CONTRACTS
    }
    measured = {
        name: [measurements(ledger, contract, Period(period)) for period in range(1, ledger.period + 1)]
        for name, contract in CONTRACTS.items()
    }
    stored = restore_checkpoint(ledger, CONTRACTS, columns, measured, [tally for tally in tallies if tally is not None])
    write_checkpoint(simulated.state_folder, simulated.fingerprint, stored)
    mark_published(simulated.state_folder, simulated.fingerprint, stored.pending)


def measurements(ledger: VerifiedLedger, contract: Contract, period: Period) -> Sequence[IntArray]:
    return contract.split_measurements(ledger.measurements[contract.name, period], period)


def check_paid_twice(simulated: SimulatedStudy, period: int, intent: bytes) -> None:
    ledger = simulated.ledger()
    assert [record.abandoned for record in ledger.periods] == [
        (intent,) if record.period == period else () for record in ledger.periods
    ]
    for record in ledger.periods:
        redrawn = (Period(period),) if record.period >= period else ()
        expected = Synthesis.resumed(record.period, CONTRACTS, {}, redrawn)
        assert record.rho_spent == expected.spent
    assert ledger.period == STUDY.horizon
    assert ledger.periods[-1].rho_spent > STUDY.privacy.budget
    for release in STUDY.releases:
        assert tuple(c.digest for c in simulated.columns(release.name)) == ledger.column_digests(release.name)
    twice = [place for place, versions in simulated.visible_draws().items() if len(versions) > 1]
    assert twice == [("intent", str(period))]


@pytest.mark.parametrize("period", [1, 2, 3])
def test_a_lost_draw_is_drawn_again_named_and_paid_for(period: int) -> None:
    async def run() -> None:
        simulated = await begin_study()

        async def lose_and_restore() -> None:
            intent = await lost(simulated, period)
            with pytest.raises(Refused, match="announced"):
                await simulated.synthesizer().run()
            await restore(simulated)
            await simulated.synthesizer(entropy=SeededEntropy(99)).run()
            check_paid_twice(simulated, period, intent)

        await run_with_tallies(simulated, lose_and_restore())

    in_virtual_time(run())


def test_a_crash_before_or_after_anything_it_does_then_changes_nothing_about_it() -> None:
    async def run(fatal: int) -> list[FaultPoint]:
        simulated = await begin_study()
        passed: list[FaultPoint] = []

        async def lose_restore_and_die() -> None:
            intent = await lost(simulated, 2)
            await restore(simulated)
            passed.extend(await run_until_crash(simulated, lambda number, point: number == fatal, run_number=1))
            await simulated.synthesizer(entropy=FreshEntropy(5000)).run()
            check_paid_twice(simulated, 2, intent)

        await run_with_tallies(simulated, lose_restore_and_die())
        return passed

    fault_points = [(number, point) for number, point in enumerate(in_virtual_time(run(-1))) if point.changes]
    assert len(fault_points) > 30
    for number, point in fault_points:
        try:
            in_virtual_time(run(number))
        except Exception as problem:
            raise AssertionError(f"after a crash at fault point {number}, {point}") from problem


def test_a_draw_that_is_lost_twice_is_paid_for_three_times() -> None:
    async def run() -> None:
        simulated = await begin_study()

        async def lose_twice() -> None:
            first = await lost(simulated, 2)
            await restore(simulated)
            await run_until_crash(simulated, lambda number, point: len(simulated.ledger().intents) == 2, run_number=1)
            simulated.state_folder.clear()
            await restore(simulated)
            stored = read_checkpoint(simulated.state_folder, simulated.fingerprint)
            assert stored is not None
            assert stored.synthesis.redrawn == (2, 2)
            await simulated.synthesizer(entropy=FreshEntropy(5000)).run()
            abandoned = simulated.ledger().periods[1].abandoned
            assert len(abandoned) == 2 and abandoned[0] == first
            expected = Synthesis.resumed(Period(2), CONTRACTS, {}, stored.synthesis.redrawn)
            assert simulated.ledger().periods[1].rho_spent == expected.spent

        await run_with_tallies(simulated, lose_twice())

    in_virtual_time(run())
