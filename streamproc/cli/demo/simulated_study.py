"""The people of the demo, who are simulated, and the questions about them. Their true values may therefore be printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamproc.offline.people import MISSING, People
from streamproc.panel import AtLeast, count_of
from streamproc.releases.query import Query

MONTHS = 12
MISSING_SHARE = 0.03
"""Share of people who do not report in a month after the first."""

ASKED_FROM = 3
"""The first month in which both questions can be asked."""

_SEED = 2024
"""Seed of the simulation: every run has the same people, and different noise."""


def study_text(people: int) -> str:
    """Return the text of the demo's study file."""
    return f"""\
[study]
name = "poverty"
alphabet = ["0", "1"]        # 1: poor this month
horizon = {MONTHS}

[population]
size = {people}
missing = "carry"            # without a report, a person counts as in the month before

[privacy]
rho = 0.01                   # for the whole history of a person

[[release]]
name = "quarterly"           # poor when, within any three months in a row
kind = "window"
k = 3

[[release]]
name = "months-poor"         # poor in how many months so far
kind = "cumulative"

[broker]
url = "embedded:log"         # a folder; or "kafka://host:port"
partitions = 4
"""


@dataclass(frozen=True)
class Question:
    """A question that is asked every month from `ASKED_FROM` on, and its true answer for each person."""

    release: str
    heading: tuple[str, str]
    query: Query
    holds: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.bool_]]
    """Function from the symbols so far, an array of shape (people, months), to whether the event holds for each person."""


QUESTIONS = (
    Question(
        "quarterly",
        ("% poor in one or more", "of the last three months"),
        count_of({"1"}, at_least=1, of=3),
        lambda poor: np.count_nonzero(poor[:, -3:], axis=1) >= 1,
    ),
    Question(
        "months-poor",
        ("% poor in three or more", "months so far"),
        AtLeast(3),
        lambda poor: np.count_nonzero(poor, axis=1) >= 3,
    ),
)


def simulate_reports(people: int) -> People:
    """Return simulated reports: 12% are poor at first; every month 2% of the others become poor, and 15% of the poor stop.

    Everybody reports in the first month, which makes them part of the study. Later 3% of the reports are missing.
    """
    rng = np.random.default_rng(_SEED)
    poor = np.empty((people, MONTHS), dtype=np.int8)
    poor[:, 0] = rng.random(people) < 0.12
    for month in range(1, MONTHS):
        poor[:, month] = rng.random(people) < np.where(poor[:, month - 1] == 1, 0.85, 0.02)
    missing = rng.random((people, MONTHS)) < MISSING_SHARE
    missing[:, 0] = False
    return People(tuple(f"person-{row}" for row in range(1, people + 1)), np.where(missing, np.int8(MISSING), poor))


def panel_csv(reports: People) -> bytes:
    """Return the reports as the bytes of a panel file."""
    assert reports.ids is not None
    cells = np.array(["0", "1", ""])[reports.symbols].tolist()  # MISSING is -1, which selects the last entry
    rows = [f"{individual},{','.join(history)}" for individual, history in zip(reports.ids, cells, strict=True)]
    return "\n".join([",".join(["individual", *map(str, range(1, reports.periods + 1))]), *rows, ""]).encode()
