"""A role that loses a right while it runs ends with exit 5, when it next needs the right, and says what is denied."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamproc.errors import NotAllowed
from streamproc.log.port import Offset
from tests.broker.secure import SecureBroker
from tests.security.conftest import NewStudy
from tests.security.principals import GATHERER, OPERATOR, REPORTER, STEWARD, SYNTHESIZER, run
from tests.security.whole_study import HORIZON, PEOPLE
from tests.stream.deployed_study import random_symbols
from tests.stream.programs import Program

pytestmark = pytest.mark.kafka


@contextmanager
def without(broker: SecureBroker, principal: str, operation: str, *resource: str) -> Iterator[None]:
    arguments = ["--allow-principal", f"User:{principal}", "--operation", operation, *resource]
    broker.acls("--remove", "--force", *arguments)
    try:
        yield
    finally:
        broker.acls("--add", *arguments)


def check_denied(role: Program, resource: str) -> None:
    ended = role.end()
    assert ended.code == 5
    last = ended.complaint.splitlines()[-1]
    assert resource in last
    assert ": the broker does not allow it" in last


def test_an_old_password_is_refused_despite_an_old_connection(new_study: NewStudy, guarded_broker: SecureBroker) -> None:
    study = new_study()
    study.do(STEWARD, "init")
    topic = study.topics.rejects

    async def attempts() -> None:
        async with study.connect(OPERATOR) as log:
            await (await log.reader(topic, 0, Offset(0))).close()
            await asyncio.to_thread(guarded_broker.change_password, OPERATOR, "another-password")
            assert await log.high_watermark(topic, 0) == 0
            with pytest.raises(NotAllowed, match="does not accept user operator with the password"):
                await log.reader(topic, 0, Offset(0))

    run(attempts())
    assert study.read(OPERATOR, topic) == []  # with the new password


def test_a_running_role_that_is_denied_ends_with_5(new_study: NewStudy, guarded_broker: SecureBroker) -> None:
    study = new_study()
    panel = study.deployed.write_panel(random_symbols("01", PEOPLE, HORIZON, seed=6))
    study.do(STEWARD, "init")
    study.do(REPORTER, "send", panel, "--period", 1)
    study.do(STEWARD, "close", "--period", 1)
    gatherer, synthesizer = study.start(GATHERER, "gather"), study.start(SYNTHESIZER, "synthesize")
    synthesizer.says("period released")

    with without(guarded_broker, GATHERER, "Read", "--topic", "guarded.reports"):
        check_denied(gatherer, "guarded.reports")
    with without(guarded_broker, SYNTHESIZER, "Read", "--topic", "guarded.tallies"):
        check_denied(synthesizer, "guarded.tallies")

    # Given back what they need, they go on where they were.
    gatherer, synthesizer = study.start(GATHERER, "gather"), study.start(SYNTHESIZER, "synthesize")
    study.do(REPORTER, "send", panel, "--period", 2)
    study.do(STEWARD, "close", "--period", 2)
    assert (gatherer.end().code, synthesizer.end().code) == (0, 0)
    study.do(STEWARD, "verify")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("principal", "operation", "resource"),
    [
        (GATHERER, "Read", "--topic guarded.control"),
        (GATHERER, "Read", "--topic guarded.ledger"),
        (GATHERER, "Write", "--topic guarded.tallies"),
        (SYNTHESIZER, "Write", "--transactional-id guarded.synthesizer"),
        (SYNTHESIZER, "Write", "--topic guarded.synthetic.ever"),
        (SYNTHESIZER, "Read", "--topic guarded.ledger"),
    ],
)
def test_whatever_it_is_denied_while_it_runs(
    new_study: NewStudy, guarded_broker: SecureBroker, principal: str, operation: str, resource: str
) -> None:
    study = new_study()
    panel = study.deployed.write_panel(random_symbols("01", PEOPLE, HORIZON, seed=7))
    study.do(STEWARD, "init")
    roles = {GATHERER: study.start(GATHERER, "gather"), SYNTHESIZER: study.start(SYNTHESIZER, "synthesize")}
    study.do(REPORTER, "send", panel, "--period", 1)
    study.do(STEWARD, "close", "--period", 1)
    roles[SYNTHESIZER].says("period released")

    with without(guarded_broker, principal, operation, *resource.split()):
        study.do(REPORTER, "send", panel, "--period", 2)
        study.do(STEWARD, "close", "--period", 2)
        check_denied(roles[principal], resource.split()[1])


@pytest.mark.slow
def test_a_gatherer_without_its_group_ends_at_a_heartbeat(new_study: NewStudy, guarded_broker: SecureBroker) -> None:
    """No period is closed, so the study cannot end before the heartbeat."""
    study = new_study()
    study.do(STEWARD, "init")
    gatherer = study.start(GATHERER, "gather")
    gatherer.says("partition assigned", times=study.deployed.parameters.partitions)

    with without(guarded_broker, GATHERER, "Read", "--group", "guarded.gather"):
        check_denied(gatherer, "guarded.gather")
