"""A whole study, from `init` to `purge`, in which each principal runs only its own commands."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass

from streamproc.errors import NotAllowed
from tests.security.principals import ANALYST, GATHERER, OPERATOR, REPORTER, STEWARD, SYNTHESIZER, Secured
from tests.stream.deployed_study import random_symbols
from tests.stream.programs import PATIENCE, Program

PEOPLE, HORIZON = 40, 2


class PartFailed(Exception):
    """A command of a principal failed."""

    def __init__(self, principal: str, command: str, code: int, complaint: str) -> None:
        self.principal, self.command, self.code, self.complaint = principal, command, code, complaint
        super().__init__(f"{principal}: {command} ended with {code}: {complaint}")


@dataclass(frozen=True)
class StudyResult:
    """The results that the principals see."""

    rejects: int
    """Number of rejects that the operator reads."""
    seen: list[dict[str, object]]
    """Output of the analyst's `watch`."""
    status: dict[str, object]
    """Output of the analyst's `status`."""


def run_study(study: Secured, allow_purge: Callable[[], None] | None = None) -> StudyResult:
    """Run the study. Raises PartFailed at the first command that fails. Without `allow_purge` nothing is purged."""
    panel = study.deployed.write_panel(random_symbols("01", PEOPLE, HORIZON, seed=5))
    for _ in ("to create the topics", "to check them"):
        run_command(study, STEWARD, "init")
    roles = {
        GATHERER: study.start(GATHERER, "gather"),
        SYNTHESIZER: study.start(SYNTHESIZER, "synthesize"),
    }
    try:
        for period in range(1, HORIZON + 1):
            run_command(study, REPORTER, "send", panel, "--period", period)
            if period == 1:
                append_record(study, REPORTER, study.topics.reports, b"not a report")
            run_command(study, STEWARD, "close", "--period", period)
        wait_for_roles(roles)
    finally:
        for role in roles.values():
            if role.runs:
                role.stop()
    shutil.rmtree(study.state(SYNTHESIZER))
    run_command(study, SYNTHESIZER, "restore")
    rejects = len(read_values(study, OPERATOR, study.topics.rejects))
    watched = run_command(study, ANALYST, "watch", "--json")
    run_command(study, ANALYST, "pull", "--out", study.deployed.folder / "pulled")
    status = run_command(study, ANALYST, "status", "--json")
    run_command(study, ANALYST, "verify")
    run_command(study, STEWARD, "verify")
    if allow_purge is not None:
        allow_purge()
        run_command(study, STEWARD, "purge", "--yes")
        run_command(study, ANALYST, "verify")
    return StudyResult(rejects, [json.loads(line) for line in watched.splitlines()], json.loads(status))


def run_command(study: Secured, principal: str, command: str, *arguments: object) -> str:
    ended = study.call(principal, command, *arguments)
    if ended.code != 0:
        raise PartFailed(principal, command, ended.code, ended.complaint)
    return ended.out


def append_record(study: Secured, principal: str, topic: str, value: bytes) -> None:
    try:
        study.append(principal, topic, value)
    except NotAllowed as denied:
        raise PartFailed(principal, "append", denied.exit_code, str(denied)) from None


def read_values(study: Secured, principal: str, topic: str) -> list[bytes | None]:
    try:
        return study.read(principal, topic)
    except NotAllowed as denied:
        raise PartFailed(principal, "read", denied.exit_code, str(denied)) from None


def wait_for_roles(roles: dict[str, Program]) -> None:
    """Wait until all roles have ended. Raises PartFailed if one failed."""
    deadline = time.monotonic() + PATIENCE
    while any(role.runs for role in roles.values()):
        for principal, role in roles.items():
            if not role.runs:
                check_exit(principal, role)
        assert time.monotonic() < deadline, {principal: role.log for principal, role in roles.items()}
        time.sleep(0.05)
    for principal, role in roles.items():
        check_exit(principal, role)


def check_exit(principal: str, role: Program) -> None:
    ended = role.end()
    if ended.code != 0:
        raise PartFailed(principal, "role", ended.code, ended.complaint)
