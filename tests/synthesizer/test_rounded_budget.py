"""A study whose contracts spend the float nearest to its budget goes on under a program that rounds the budget down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamproc.client.public_reader import PublicReader
from streamproc.privacy.types import Rho
from streamproc.releases.contracts import stated_contracts
from streamproc.service.restore import _rebuild
from streamproc.study import Privacy
from streamproc.testing import in_virtual_time
from tests.stream_model.simulated_study import SimulatedStudy
from tests.synthesizer.study_runs import HISTORIES, STUDY, run_until_crash, run_with_tallies

NEAREST = replace(STUDY, privacy=Privacy(rho=0.1))
ROUNDED = replace(STUDY, privacy=Privacy(rho=0.1, limit=Rho(0.09999999999999999)))


@pytest.mark.parametrize("lost", [False, True], ids=["resumed", "restored"])
def test_a_study_keeps_the_noise_of_its_contracts(lost: bool) -> None:
    began = stated_contracts(NEAREST, len(HISTORIES), insecure=True)
    assert began["c"].rho != stated_contracts(ROUNDED, len(HISTORIES), insecure=True)["c"].rho

    async def run() -> None:
        simulated = await SimulatedStudy(NEAREST).begin()
        public = PublicReader(simulated.log, ROUNDED)

        async def live() -> None:
            await run_until_crash(simulated, lambda number, point: len(settled(simulated)) == 2)
            if lost:
                stored = await _rebuild(ROUNDED, simulated.log, simulated.ledger())
                assert {name: each.rho for name, each in stored.synthesis.contracts.items()} == {
                    name: each.rho for name, each in began.items()
                }
            await simulated.synthesizer(study=ROUNDED).run()

        await run_with_tallies(simulated, live())
        await public.catch_up()
        public.check_complete()
        assert {name: each.rho for name, each in public.contracts().items()} == {
            name: each.rho for name, each in began.items()
        }

    in_virtual_time(run())


def settled(simulated: SimulatedStudy) -> tuple[object, ...]:
    values = simulated.committed(simulated.topics.ledger)
    return simulated.ledger().periods if values else ()
