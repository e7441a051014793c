"""A whole study on a broker with TLS, SCRAM and ACLs, each role with no more rights than `init --print` shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.broker.secure import SecureBroker
from tests.security.conftest import PARAMETERS, NewStudy
from tests.security.principals import (
    ANALYST,
    GATHERER,
    REPORTER,
    STEWARD,
    SYNTHESIZER,
    ByCertificate,
    Secured,
    rights,
    run,
)
from tests.security.whole_study import HORIZON, PEOPLE, run_study
from tests.stream.deployed_study import random_symbols

pytestmark = pytest.mark.kafka


def test_a_study_lives_from_init_to_purge_with_the_printed_rights(
    new_study: NewStudy, purge_allowed: Callable[[], None]
) -> None:
    study = new_study()

    result = run_study(study, purge_allowed)

    assert result.rejects == 1
    assert (result.status["released"], result.status["watermark"]) == (HORIZON, None)
    assert {(line["release"], line["period"]) for line in result.seen} == {
        (release, period) for release in ("recent", "ever") for period in range(1, HORIZON + 1)
    }
    left = {topic.removeprefix("guarded.") for topic in run(topics(study, STEWARD))}
    assert left == {"ledger", "synthetic.recent", "synthetic.ever"}


def test_a_study_lives_with_certificates_instead_of_passwords(new_study: NewStudy, guarded_broker: SecureBroker) -> None:
    deployed = replace(new_study().deployed, url=guarded_broker.url_of_mutual_tls)
    deployed.write_study()

    result = run_study(ByCertificate(deployed, guarded_broker))

    assert (result.rejects, result.status["released"], len(result.seen)) == (1, HORIZON, 2 * HORIZON)


async def topics(study: Secured, principal: str) -> set[str]:
    async with study.connect(principal) as log:
        return set(await log.topics())


@pytest.mark.slow
def test_a_synthesizer_with_a_schedule_closes_periods_with_the_printed_rights(
    new_study: NewStudy, guarded_broker: SecureBroker, printed: str
) -> None:
    study = new_study()
    study.deployed.write_study(replace(PARAMETERS, schedule='[schedule]\nstart = 2026-01-01T00:00:00Z\nevery = "1h"\n'))
    more = set(rights(study.do(STEWARD, "init", "--print").out)) - set(rights(printed))
    study.do(STEWARD, "init")
    study.do(REPORTER, "send", study.deployed.write_panel(random_symbols("01", PEOPLE, HORIZON, seed=8)))

    denied = study.start(SYNTHESIZER, "synthesize", "--catch-up").end()
    assert (denied.code, "guarded.reports" in denied.complaint.splitlines()[-1]) == (5, True)
    try:
        for right in more:
            guarded_broker.acls("--add", *right.arguments)
        gatherer = study.start(GATHERER, "gather")
        study.start(SYNTHESIZER, "synthesize", "--catch-up").done()
        gatherer.done()
    finally:
        for right in more:
            guarded_broker.acls("--remove", "--force", *right.arguments)
    study.do(ANALYST, "verify")


def test_a_steward_waits_for_a_release_without_the_right_to_read_tallies(new_study: NewStudy) -> None:
    study = new_study()
    study.do(STEWARD, "init")
    study.do(REPORTER, "send", study.deployed.write_panel(random_symbols("01", 40, 2, seed=5)), "--period", 1)
    closing = study.start(STEWARD, "close", "--period", 1, "--wait")
    closing.says("waiting for a synthesizer to begin the study")
    synthesizer = study.start(SYNTHESIZER, "synthesize")
    closing.says("waiting for gatherers to tally period 1 of partitions")
    assert synthesizer.stop().code == 0
    gatherer = study.start(GATHERER, "gather")

    closing.says("waiting for the gatherers and the synthesizer to release period 1")

    synthesizer = study.start(SYNTHESIZER, "synthesize")
    assert closing.done().out == "period 1 closed\nperiod 1 released\n"
    assert (gatherer.stop().code, synthesizer.stop().code) == (0, 0)
