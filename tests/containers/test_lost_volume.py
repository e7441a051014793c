"""A synthesizer that comes up on an empty volume: it refuses, until the steward has restored what was on the lost one."""

from __future__ import annotations

import pytest

from tests.containers.conftest import NewStudy
from tests.stream.deployed_study import random_symbols
from tests.stream.public_records import check_published_once, read_public_records

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]


def test_a_lost_volume_is_restored_from_the_topics_and_the_study_goes_on(new_study: NewStudy) -> None:
    study = new_study(horizon=3)
    deployed = study.deployed
    panel = deployed.write_panel(random_symbols("01", 200, 3, seed=4))
    deployed.do("init")
    study.role("gather")
    first = study.role("synthesize")
    deployed.do("send", panel, "--through", 2, "--close")
    deployed.do("close", "--period", 2, "--wait")
    assert first.stop().code == 0
    before = read_public_records(deployed)

    volume = study.containers.volume()
    refused = study.role("synthesize", state=volume).end()
    assert refused.code == 3, refused.complaint
    assert "streamproc restore" in refused.complaint
    assert read_public_records(deployed) == before

    study.do("restore", state=volume)
    second = study.role("synthesize", state=volume)
    deployed.do("send", panel, "--period", 3)
    deployed.do("close", "--period", 3)
    second.done()

    check_published_once(deployed)
    deployed.do("verify")
