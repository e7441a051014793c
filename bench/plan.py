"""How long it takes to plan a study: the design of its measurements, their exact costs, errors and alternatives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from time import perf_counter

from bench.result import Result
from bench.studies import letters, study_text

TUNED_LIMIT = 5.0
"""Seconds to plan 12 periods with tuned weights."""
RULE_LIMIT = 10.0
"""Seconds to plan 100 periods with the weights of the rule."""

_RELEASES = {
    "cumulative": 'kind = "cumulative"\nevent = ["b"]',
    "spell": 'kind = "spell"\nevent = ["b"]\nlength = 6',
    "pattern": 'kind = "pattern"\npattern = "b{6}"',
}

_PLAN = """
import sys
from streamproc.planning import plan_study
from streamproc.study import parse_study
plan_study(parse_study(sys.stdin.read()), 100_000)
"""


def measure(quick: bool = False) -> Iterator[Result]:
    """Each kind over 12 periods with tuned weights, and over 100 by the rule; windows have one way to choose weights."""
    short, long = (6, 8) if quick else (12, 100)
    for kind, release in _RELEASES.items():
        yield _planned(f"plan, {kind} T={short}, tuned", f'{release}\nweights = "tuned"', short, TUNED_LIMIT)
        yield _planned(f"plan, {kind} T={long}, by the rule", f'{release}\nweights = "rule"', long, RULE_LIMIT)
    yield _planned(f"plan, window k=3 T={long}", 'kind = "window"\nk = 3', long, RULE_LIMIT)


def _planned(name: str, release: str, horizon: int, limit: float) -> Result:
    """From the start of a process, in which no design is in a cache yet, to the end of its plan."""
    text = study_text(letters(2), horizon, release)
    start = perf_counter()
    subprocess.run([sys.executable, "-c", _PLAN], input=text, text=True, check=True, stdout=subprocess.DEVNULL)
    return Result(name=name, value=perf_counter() - start, unit="s", limit=limit)
