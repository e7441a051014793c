"""Answers of open studies: intervals cover as often as they say, and errors are as large as stated, however long it has run.

The errors of periods that are `APART` or more apart have a correlation below 0.01. So the runs of a test share all periods
but the last ones: the noise of those decides about the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from streamproc.offline import tallies_of
from streamproc.panel import Answer, Panel
from streamproc.privacy.types import FloatArray, Period
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.open_flow import OpenContract
from streamproc.releases.query import Query, entered, exactly, left, present
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import Study, WindowRelease
from tests.panel.open_panels import QUESTIONS, RELEASES, Truth
from tests.releases.open_histories import Reports, open_study
from tests.releases.statistical_checks import assert_covariance, assert_share_at_least, assert_share_is

APART = 6
TENURE = 4
EARLY, LATE = 20, 500


def reports_of(periods: int, ones: float, seed: int, entrants: int = 120) -> Reports:
    """So many people enter in each of the last periods; some are silent, so that they leave before the tenure is over."""
    rng, first = np.random.default_rng(seed), max(periods - 4 * TENURE, 0)
    reports = np.full((entrants * (periods - first), periods), 255, dtype=np.uint8)
    for place, start in enumerate(range(first, periods)):
        rows = slice(place * entrants, (place + 1) * entrants)
        spoke = (rng.random((entrants, periods - start)) < ones).astype(np.uint8)
        spoke[rng.random(spoke.shape) < 0.2] = 255
        spoke[:, 0] = rng.random(entrants) < ones
        reports[rows, start:] = spoke
    return reports


def panels_of(study: Study, reports: Reports, runs: int, free: int) -> Iterator[Panel]:
    """Panels after the last period, whose last `free` periods have noise of their own."""
    [contract] = stated_contracts(study, 0, insecure=True).values()
    tallies = tallies_of(study, reports)
    synthesis, panel = Synthesis.start({"r": contract}), Panel(contract)
    for tally in tallies[:-free]:
        synthesis, steps = synthesis.step(tally, SeededEntropy(0))
        panel = panel.extended(steps["r"])
    for seed in range(1, runs + 1):
        ahead, grown = synthesis, panel
        for tally in tallies[-free:]:
            ahead, steps = ahead.step(tally, SeededEntropy(seed))
            grown = grown.extended(steps["r"])
        yield grown


Asked = tuple[Callable[[Panel], Answer], float]
"""A question and its true answer."""


def all_questions(kind: str, truth: Truth, period: int) -> list[Asked]:
    asked: list[Asked] = []
    flows: Sequence[Query] = (present(), entered(), left())
    for query, number in zip(flows, truth.flows(period), strict=True):
        asked.append((lambda panel, query=query: panel.people(query), number))  # type: ignore[misc]
    for query in QUESTIONS[kind]:
        people, among = truth.people(query, period)
        asked.append((lambda panel, query=query: panel.people(query), people))  # type: ignore[misc]
        asked.append((lambda panel, query=query: panel.fraction(query), people / among))  # type: ignore[misc]
    here, since = truth.retention(period, TENURE)
    return [*asked, (lambda panel: panel.retention(), here / since)]


def count_covered(panels: Iterator[Panel], asked: list[Asked]) -> list[int]:
    covered = np.zeros(len(asked), dtype=int)
    for panel in panels:
        answers = [ask(panel) for ask, _ in asked]
        covered += [answer.low <= truth <= answer.high for answer, (_, truth) in zip(answers, asked, strict=True)]
    return covered.tolist()


@pytest.mark.parametrize("absent_after", [None, 2])
@pytest.mark.parametrize("kind", RELEASES)
def test_intervals_cover_as_often_as_they_say_at_period_20(kind: str, absent_after: int | None) -> None:
    """100 runs, two-sided binomial tests; false alarm 1e-6 in all, the seeds are fixed."""
    check_coverage(kind, EARLY, absent_after, ones=0.4, rho=0.2, runs=100, at_least=False)


@pytest.mark.parametrize("kind", RELEASES)
def test_intervals_cover_at_least_as_often_where_counts_are_clamped(kind: str) -> None:
    """Events are rare, so most counts are smaller than the noise. 100 runs; false alarm 1e-6, the seeds are fixed."""
    check_coverage(kind, EARLY, 2, ones=0.02, rho=0.05, runs=100, at_least=True)


@pytest.mark.slow
@pytest.mark.parametrize("ones", [0.4, 0.02])
@pytest.mark.parametrize("kind", RELEASES)
def test_intervals_cover_as_often_as_they_say_at_period_500(kind: str, ones: float) -> None:
    """200 runs; false alarm 1e-6 in all, the seeds are fixed."""
    check_coverage(kind, LATE, 2, ones=ones, rho=0.2, runs=200, at_least=ones < 0.1)


def check_coverage(
    kind: str, period: int, absent_after: int | None, *, ones: float, rho: float, runs: int, at_least: bool
) -> None:
    study = open_study(RELEASES[kind], tenure=TENURE, absent_after=absent_after, rho=rho)
    reports = reports_of(period, ones, seed=9)
    asked = all_questions(kind, Truth(study, reports), period)
    check: Any = assert_share_at_least if at_least else assert_share_is
    for hits in count_covered(panels_of(study, reports, runs, APART + TENURE), asked):
        check(hits, runs, 0.95, of=len(asked))


def test_a_change_covers_as_often_as_it_says() -> None:
    """200 runs; false alarm 1e-6 in all, the seeds are fixed."""
    study, period, runs = open_study(RELEASES["k2"], tenure=TENURE, rho=0.2), EARLY, 150
    reports = reports_of(period, 0.4, seed=9)
    truth = Truth(study, reports)
    before, after = (truth.people(exactly("1"), at) for at in (period - 1, period))
    here = [truth.flows(at)[0] for at in (period - 1, period)]
    asked: list[Asked] = [
        (lambda panel: panel.change(exactly("1"), period - 1, period), after[0] / after[1] - before[0] / before[1]),
        (lambda panel: panel.change(present(), period - 1, period), here[1] - here[0]),
    ]
    for hits in count_covered(panels_of(study, reports, runs, APART), asked):
        assert_share_at_least(hits, runs, 0.95, of=2)


STATED = {
    (1, 12): {"cell": 59, "ones": 59, "present": 60, "entered": 58},
    (2, 12): {"cell": 43, "ones": 58, "present": 76, "entered": 64},
    (3, 12): {"cell": 42, "ones": 84, "present": 111, "entered": 61},
    (1, 52): {"cell": 120, "present": 121},
    (2, 52): {"cell": 86, "present": 154},
    (3, 52): {"cell": 85, "present": 225},
}
"""Standard deviations in people at rho 0.005 for `k` and a tenure, as the specification of the mechanism has them."""


def window_contract(k: int, tenure: int) -> OpenContract:
    study = open_study(WindowRelease("r", k), tenure=tenure, rho=0.005)
    contract = stated_contracts(study, 0, insecure=True)["r"]
    assert isinstance(contract, OpenContract)
    return contract


@pytest.mark.parametrize(("k", "tenure"), STATED)
@pytest.mark.parametrize("period", [EARLY, LATE])
def test_standard_errors_are_those_of_the_specification(k: int, tenure: int, period: int) -> None:
    contract = window_contract(k, tenure)
    asked = {"cell": exactly(*"0" * k), "ones": exactly("1"), "present": present(), "entered": entered()}
    for name, stated in STATED[k, tenure].items():
        weights = contract.query_weights(asked[name], Period(period))
        if name == "cell":
            weights = np.eye(len(weights))[contract.labels(Period(period)).index("0" * k)]
        assert contract.stderr(weights, Period(period)) == pytest.approx(stated, abs=1.0)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(("period", "runs"), [(EARLY, 1_000), (LATE, 200)])
def test_measured_errors_have_the_stated_covariance(k: int, period: int, runs: int) -> None:
    """Means, variances and covariances of the errors of all counts; false alarm 1e-6, the seeds are fixed."""
    contract = window_contract(k, 12)
    covariance = contract.questions @ contract.mechanism.transition_covariance(Period(period)) @ contract.questions.T
    assert_covariance(errors_of(contract, period, runs), covariance)


def errors_of(contract: OpenContract, period: int, runs: int) -> FloatArray:
    """The errors of the estimates of a period: the estimates in a study without people, as many times as there are runs."""
    mechanism, transitions = contract.mechanism, contract.transitions
    states = np.zeros((transitions.states, runs))
    moved = np.zeros((len(transitions), runs))
    for t in range(1, period + 1):
        nobody = np.zeros(transitions.free * runs, dtype=np.int64)
        noise = SeededEntropy(5).draw("r", Period(t)).gaussian(nobody, mechanism.sigma).reshape(-1, runs)
        moved = mechanism.estimator.carried @ states + mechanism.estimator.measured @ noise
        states = transitions.entering_totals(moved)
    errors: FloatArray = (contract.questions @ moved).T
    return errors
