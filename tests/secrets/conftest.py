"""The scenario runs once for each broker."""

from __future__ import annotations

import pytest

from tests.secrets.planted import ALPHABET, PEOPLE
from tests.secrets.scenario import Scenario, Seen
from tests.stream.conftest import BROKERS, DeployStudy, deploy_study, programs, shared_study  # noqa: F401
from tests.stream.deployed_study import DeployedStudy


@pytest.fixture(scope="module", params=BROKERS)
def scenario(request: pytest.FixtureRequest, shared_study: DeployStudy) -> Scenario:  # noqa: F811
    deployed = shared_study(
        request.param, alphabet=ALPHABET, event=("SECRETSYMBOL",), horizon=3, partitions=2, people=PEOPLE, rho=0.001
    )
    scenario = Scenario(deployed)
    scenario.run()
    return scenario


@pytest.fixture
def seen(scenario: Scenario) -> Seen:
    return scenario.seen


@pytest.fixture
def deployed(scenario: Scenario) -> DeployedStudy:
    return scenario.deployed
