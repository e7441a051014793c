"""A synthesizer releases the columns of an open study, from complete tallies to the record that is marked as the last."""

from __future__ import annotations

import asyncio

import pytest

from streamproc.client.public_reader import PublicReader
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Period
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import Study
from streamproc.testing import in_virtual_time
from tests.stream_model.open_study import open_study, open_tallies, partition_tallies, reports, send_tallies
from tests.stream_model.simulated_study import SimulatedStudy

PERIODS = 14


async def streamed(study: Study, seed: int = 1, periods: int = PERIODS, *, last: bool = True) -> SimulatedStudy:
    simulated = await SimulatedStudy(study).begin()
    tallies = partition_tallies(study, reports(study, 200, periods, seed), last=last)
    await asyncio.gather(simulated.synthesizer(entropy=SeededEntropy(3)).run(), send_tallies(simulated, tallies))
    return simulated


@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE])
def test_the_stream_and_the_computation_without_a_stream_give_the_same_bytes(adjacency: Adjacency) -> None:
    study = open_study(adjacency=adjacency)
    simulated = in_virtual_time(streamed(study))
    ledger = simulated.ledger()

    assert ledger.period == PERIODS and ledger.is_over and ledger.periods[-1].last
    synthesis = Synthesis.start(stated_contracts(study, 0, insecure=True))
    for period, (_, tally) in enumerate(open_tallies(study, reports(study, 200, PERIODS, 1)), start=1):
        synthesis, steps = synthesis.step(tally, SeededEntropy(3))
        for name, step in steps.items():
            column = simulated.columns(name)[period - 1]
            assert column.symbols.tobytes() == step.columns[0].tobytes()
            assert ledger.measurements[name, Period(period)].tolist() == step.measurements[0].tolist()
            assert ledger.periods[period - 1].releases[name].n_star == synthesis.rows(name)
            assert ledger.periods[period - 1].releases[name].rho_spent == synthesis.accountants[name].spent
    simulated.check_released(PERIODS)


def test_every_check_of_a_reader_holds() -> None:
    async def scenario() -> PublicReader:
        simulated = await streamed(open_study())
        return await PublicReader.read_all(simulated.log, simulated.study)

    public = in_virtual_time(scenario())

    public.check_complete()
    assert public.is_over and public.n is None
    assert all(len(public.columns(release.name)) == PERIODS for release in public.study.releases)
    assert all(public.n_star(release.name) for release in public.study.releases)


def test_a_study_with_a_horizon_ends_with_it() -> None:
    simulated = in_virtual_time(streamed(open_study(horizon=6), periods=6, last=False))

    ledger = simulated.ledger()
    assert ledger.period == 6 and ledger.is_over and not ledger.periods[-1].last
