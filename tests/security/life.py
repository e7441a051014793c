"""A whole study, from `init` to `purge`, in which everybody does their own part and nothing else."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass

from streamproc.errors import NotAllowed
from tests.security.principals import ANALYST, GATHERER, OPERATOR, REPORTER, STEWARD, SYNTHESIZER, Secured
from tests.stream.places import random_symbols
from tests.stream.programs import PATIENCE, Program

PEOPLE, HORIZON = 40, 2


class Ended(Exception):
    """Somebody could not do their part."""

    def __init__(self, principal: str, command: str, code: int, complaint: str) -> None:
        self.principal, self.command, self.code, self.complaint = principal, command, code, complaint
        super().__init__(f"{principal}: {command} ended with {code}: {complaint}")


@dataclass(frozen=True)
class Lived:
    """What came out."""

    rejects: int
    """As the operator counts them."""
    seen: list[dict[str, object]]
    """What the analyst watched."""
    status: dict[str, object]
    """As the analyst is shown it."""


def live(study: Secured, allow_purge: Callable[[], None] | None = None) -> Lived:
    """Raises Ended at the first part that fails. Nothing is purged if that is not allowed first."""
    panel = study.place.write_panel(random_symbols("01", PEOPLE, HORIZON, seed=5))
    for _ in ("to create the topics", "to check them"):
        do(study, STEWARD, "init")
    roles = {
        GATHERER: study.start(GATHERER, "gather"),
        SYNTHESIZER: study.start(SYNTHESIZER, "synthesize"),
    }
    try:
        for period in range(1, HORIZON + 1):
            do(study, REPORTER, "send", panel, "--period", period)
            if period == 1:
                do_quietly(study, REPORTER, study.topics.reports, b"not a report")
            do(study, STEWARD, "close", "--period", period)
        until_over(roles)
    finally:
        for role in roles.values():
            if role.runs:
                role.stop()
    shutil.rmtree(study.state(SYNTHESIZER))
    do(study, SYNTHESIZER, "restore")
    rejects = len(reading(study, OPERATOR, study.topics.rejects))
    watched = do(study, ANALYST, "watch", "--json")
    do(study, ANALYST, "pull", "--out", study.place.folder / "pulled")
    status = do(study, ANALYST, "status", "--json")
    do(study, ANALYST, "verify")
    do(study, STEWARD, "verify")
    if allow_purge is not None:
        allow_purge()
        do(study, STEWARD, "purge", "--yes")
        do(study, ANALYST, "verify")
    return Lived(rejects, [json.loads(line) for line in watched.splitlines()], json.loads(status))


def do(study: Secured, principal: str, command: str, *arguments: object) -> str:
    ended = study.call(principal, command, *arguments)
    if ended.code != 0:
        raise Ended(principal, command, ended.code, ended.complaint)
    return ended.out


def do_quietly(study: Secured, principal: str, topic: str, value: bytes) -> None:
    try:
        study.append(principal, topic, value)
    except NotAllowed as denied:
        raise Ended(principal, "append", denied.exit_code, str(denied)) from None


def reading(study: Secured, principal: str, topic: str) -> list[bytes | None]:
    try:
        return study.read(principal, topic)
    except NotAllowed as denied:
        raise Ended(principal, "read", denied.exit_code, str(denied)) from None


def until_over(roles: dict[str, Program]) -> None:
    """Until all have ended well, or one has not."""
    deadline = time.monotonic() + PATIENCE
    while any(role.runs for role in roles.values()):
        for principal, role in roles.items():
            if not role.runs:
                check(principal, role)
        assert time.monotonic() < deadline, {principal: role.log for principal, role in roles.items()}
        time.sleep(0.05)
    for principal, role in roles.items():
        check(principal, role)


def check(principal: str, role: Program) -> None:
    ended = role.end()
    if ended.code != 0:
        raise Ended(principal, "role", ended.code, ended.complaint)
