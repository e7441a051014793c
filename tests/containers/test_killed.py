"""Containers that are killed, in the midst of a period or of publishing one: what was drawn comes out once."""

from __future__ import annotations

import pytest

from tests.containers.conftest import NewStudy
from tests.containers.hanging_program import HANGING
from tests.stream.deployed_study import Symbols, random_symbols
from tests.stream.public_records import check_published_once

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

PEOPLE = 200


def test_a_container_killed_while_it_publishes_every_period_goes_on_with_what_it_drew(new_study: NewStudy) -> None:
    study = new_study(horizon=2, people=PEOPLE)
    deployed = study.deployed
    deployed.do("init")
    study.role("gather")
    deployed.do("send", deployed.write_panel(random_symbols("01", PEOPLE, 2, seed=2)), "--close", "--packed")
    synthesizer = study.standing_still("inside-transaction", "synthesize", state=study.containers.volume())

    for period in (1, 2):
        synthesizer.says(HANGING, times=period)
        synthesizer.kill()
        assert deployed.status()["released"] == period - 1
        synthesizer.start_again()
    synthesizer.done()

    check_published_once(deployed)
    deployed.do("verify")


def test_containers_killed_in_the_midst_of_a_period_count_everybody_once(new_study: NewStudy) -> None:
    study = new_study(horizon=3, people=PEOPLE)
    deployed = study.deployed
    symbols = random_symbols("01", PEOPLE, 3, seed=3)
    deployed.do("init")
    gatherers = [study.role("gather", environ={"STREAMPROC_KAFKA_INSTANCE": name}) for name in ("one", "two")]
    roles = [*gatherers, study.role("synthesize")]
    deployed.do("send", deployed.write_panel(symbols), "--period", 1)
    deployed.do("close", "--period", 1, "--wait")

    deployed.do("send", deployed.write_panel(with_reports_of(symbols, range(PEOPLE // 2))), "--period", 2)
    for role in roles:
        role.kill()
    for role in roles:
        role.start_again()
    deployed.do("send", deployed.write_panel(with_reports_of(symbols, range(PEOPLE // 2, PEOPLE))), "--period", 2)
    deployed.do("close", "--period", 2, "--wait")
    deployed.do("send", deployed.write_panel(symbols), "--period", 3)
    deployed.do("close", "--period", 3)

    for role in roles:
        role.done()
    check_published_once(deployed)
    deployed.do("verify")
    assert deployed.status()["releases"]["ever"]["n_star"] == PEOPLE
    assert deployed.values(deployed.topics.rejects) == []


def with_reports_of(symbols: Symbols, rows: range) -> Symbols:
    """The panel of these people; the others are silent after the first period."""
    some = symbols.copy()
    some[:, 1:] = ""
    some[rows.start : rows.stop] = symbols[rows.start : rows.stop]
    return some
