"""A ledger whose chain holds but whose figures do not is found by `verify`, by `pull` and by the status page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamproc.protocol.ledger import PeriodRecord
from tests.forged import cheaper, rechained, with_column, with_measurements, with_release, with_unpaid_redraw
from tests.status_page.serving import served
from tests.stream.deployed_study import DeployedStudy

Topics = Mapping[str, Sequence[bytes]]
"""The values of the ledger (under "ledger") and of each release's topic."""


def published(deployed: DeployedStudy) -> Topics:
    names = {"ledger": deployed.topics.ledger} | {name: deployed.topics.synthetic(name) for name in ("recent", "ever")}
    return {name: list(deployed.values(topic)) for name, topic in names.items()}


def copy_of(honest: DeployedStudy, folder: Path, topics: Topics) -> DeployedStudy:
    """A study whose public topics hold these values, and whose other topics are empty."""
    deployed = DeployedStudy(folder, honest.url, honest.parameters, honest.programs)
    folder.mkdir()
    deployed.write_study()
    deployed.do("init")

    async def append() -> None:
        async with deployed.connect() as log:
            for name, values in topics.items():
                topic = deployed.topics.ledger if name == "ledger" else deployed.topics.synthetic(name)
                for value in values:
                    await log.append(topic, 0, value)

    asyncio.run(append())
    return deployed


@dataclass(frozen=True)
class Forgery:
    change: Callable[[Topics], Topics]
    finding: str


def all_ones(symbols: Any) -> Any:
    return np.ones_like(symbols)


def changed_column(topics: Topics, release: str, period: int) -> Topics:
    ledger, columns = with_column(topics["ledger"], topics[release], release, period, all_ones)
    return {**topics, "ledger": ledger, release: columns}


def without_columns(record: PeriodRecord) -> PeriodRecord:
    return with_release("recent", columns=(), n_star=None)(record)


FORGERIES = {
    "a spending 125,000 times too low": Forgery(
        lambda topics: {**topics, "ledger": cheaper(topics["ledger"], "recent", 1 / 125_000)},
        "ledger, period 1: release recent states that it has spent rho",
    ),
    "a cumulative spending a little too low": Forgery(
        lambda topics: {**topics, "ledger": cheaper(topics["ledger"], "ever", 0.999999)},
        "ledger, period 1: release ever states that it has spent rho",
    ),
    "a lost draw that nobody paid for": Forgery(
        lambda topics: {**topics, "ledger": with_unpaid_redraw(topics["ledger"], 3)},
        "3 periods with 1 repeated draws cost rho",
    ),
    "a column that does not follow from the measurements": Forgery(
        lambda topics: changed_column(topics, "recent", 3), "release recent, period 3: 4 of its 4 counts do not follow"
    ),
    "a cumulative column that does not": Forgery(
        lambda topics: changed_column(topics, "ever", 2), "release ever, period 2: "
    ),
    "measurements that are not behind the column": Forgery(
        lambda topics: {**topics, "ledger": with_measurements(topics["ledger"], "ever", 3, lambda data: data + 10**6)},
        "release ever, period 3: 6 of its 6 counts do not follow",
    ),
    "measurements without a column and its contract": Forgery(
        lambda topics: {**topics, "ledger": rechained(topics["ledger"], without_columns), "recent": ()},
        "ledger, period 3: release recent must have 3 columns by then",
    ),
}


def test_the_same_values_in_another_log_verify(honest: DeployedStudy, tmp_path: Path) -> None:
    copy_of(honest, tmp_path / "copy", published(honest)).do("verify")


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_ledger_is_found_by_every_reader(honest: DeployedStudy, tmp_path: Path, what: str) -> None:
    forgery = FORGERIES[what]
    deployed = copy_of(honest, tmp_path / "copy", forgery.change(published(honest)))

    verified = deployed.call("verify", "--json")
    assert verified.code == 4
    said = json.loads(verified.out)
    assert (said["study"], said["verified"]) == (deployed.parameters.name, False)
    assert forgery.finding in said["problem"]
    assert verified.complaint == f"streamproc: {said['problem']}\n"
    assert len(verified.complaint.splitlines()) == 1

    pulled = deployed.call("pull", "--out", tmp_path / "pulled")
    assert (pulled.code, pulled.complaint) == (4, verified.complaint)
    assert not (tmp_path / "pulled").exists()

    async def shown() -> str:
        async with deployed.connect() as log, served(log, deployed.study) as asking:
            return str((await asking.status_when(lambda status: status["problem"] is not None))["problem"])

    assert asyncio.run(shown()) == said["problem"]
