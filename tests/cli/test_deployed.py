"""Where a deployed study keeps its state, and how a command ends when several of its tasks fail together."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from streamproc.cli.event_loop import run_until_stopped
from streamproc.errors import BrokerUnavailable, Refused
from streamproc.service.deployment import Deployment
from tests.bad_input import PANEL_STUDY
from tests.cli.conftest import Command


async def fails(*errors: Exception) -> None:
    """Each error comes from a task of its own, at the same time."""

    async def fail(error: Exception) -> None:
        raise error

    async with asyncio.TaskGroup() as group:
        for error in errors:
            group.create_task(fail(error))


@pytest.mark.parametrize(
    "beside", [(), (BrokerUnavailable("away"),), (ValueError(),), (ValueError(), BrokerUnavailable("away"))]
)
def test_a_refusal_is_what_is_shown_whatever_fails_beside_it(beside: tuple[Exception, ...]) -> None:
    with pytest.raises(Refused, match="no"):
        run_until_stopped(fails(*beside, Refused("no")))


def test_what_is_none_of_our_errors_is_shown_as_it_is() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        run_until_stopped(fails(ValueError()))

    assert isinstance(raised.value.exceptions[0], ValueError)


@pytest.mark.parametrize("command", ["run", "gather", "synthesize", "restore", "purge"])
def test_the_help_says_where_the_state_is_by_default(tmp_path: Path, streamproc: Command, command: str) -> None:
    study = tmp_path / "any.toml"
    study.write_text(PANEL_STUDY)

    assert Deployment.of(study, environ={}).state == study.parent / "small.state"
    assert "else NAME.state beside STUDY" in " ".join(streamproc(command, "--help").out.split())


@pytest.mark.parametrize(
    ("command", "meaning"),
    [
        ("status", "Seconds before giving up. [default"),
        ("pull", "Seconds before giving up on a broker that does not answer. The work itself has no time limit."),
        ("watch", "Seconds before giving up on a broker that is away. Waiting for columns has no time limit."),
        ("close", "Seconds before giving up on closing the period, or on a broker that is away. --wait has no time limit."),
    ],
)
def test_the_help_says_what_is_given_up_after_the_time_allowed(streamproc: Command, command: str, meaning: str) -> None:
    assert meaning in " ".join(streamproc(command, "--help").out.split())
