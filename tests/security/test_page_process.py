"""`page` runs with an analyst's rights, and ends with exit 5 without them."""

from __future__ import annotations

import pytest

from tests.security.conftest import NewStudy
from tests.security.principals import ANALYST, GATHERER, REPORTER, STEWARD, SYNTHESIZER
from tests.security.whole_study import HORIZON, PEOPLE, run_command, wait_for_roles
from tests.stream.deployed_study import random_symbols
from tests.stream.test_listeners import samples_when
from tests.stream.test_page import PUBLIC, address_of, status_of

pytestmark = pytest.mark.kafka


def test_an_analyst_serves_the_page(new_study: NewStudy) -> None:
    study = new_study()
    panel = study.deployed.write_panel(random_symbols("01", PEOPLE, HORIZON, seed=5))
    run_command(study, STEWARD, "init")
    page = study.start(ANALYST, "page", *PUBLIC)
    roles = {
        GATHERER: study.start(GATHERER, "gather"),
        SYNTHESIZER: study.start(SYNTHESIZER, "synthesize"),
    }
    for period in range(1, HORIZON + 1):
        run_command(study, REPORTER, "send", panel, "--period", period)
        run_command(study, STEWARD, "close", "--period", period)
    wait_for_roles(roles)
    address = address_of(page)
    samples_when(address, lambda found: any(name == "streamproc_bin_rows" for name, _ in found))
    samples_when(address, lambda found: found["streamproc_periods_released", ()] == HORIZON)
    assert status_of(address)["problem"] is None
    assert page.stop().code == 0
    assert not study.state(ANALYST).exists()


def test_a_user_without_these_rights_is_denied_at_once(new_study: NewStudy) -> None:
    study = new_study()
    run_command(study, STEWARD, "init")
    ended = study.start(REPORTER, "page", *PUBLIC).end()
    assert ended.code == 5
    assert "guarded.ledger" in ended.complaint.splitlines()[-1]
