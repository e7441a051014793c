"""A whole study on a broker with TLS, SCRAM and ACLs, each role with no more rights than `init --print` shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.security.conftest import NewStudy
from tests.security.life import HORIZON, live
from tests.security.principals import STEWARD, Secured, run

pytestmark = pytest.mark.kafka


def test_a_study_lives_from_init_to_purge_with_the_printed_rights(
    new_study: NewStudy, purge_allowed: Callable[[], None]
) -> None:
    study = new_study()

    lived = live(study, purge_allowed)

    assert lived.rejects == 1
    assert {(line["release"], line["period"]) for line in lived.seen} == {
        (release, period) for release in ("recent", "ever") for period in range(1, HORIZON + 1)
    }
    left = {topic.removeprefix("guarded.") for topic in run(topics(study, STEWARD))}
    assert left == {"ledger", "synthetic.recent", "synthetic.ever"}


async def topics(study: Secured, principal: str) -> set[str]:
    async with study.connect(principal) as log:
        return set(await log.topics())
