"""The summary states the noise that was promised and counts what had to be clamped."""

from __future__ import annotations

import numpy as np
import pytest

from streamproc.offline import replay_study, tallies_of
from streamproc.offline.summary import Summary, summary_of
from streamproc.privacy.types import Period
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.cumulative import CumulativeContract
from streamproc.releases.cumulative_paper import CumulativePaperContract
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import parse_study

STUDY = """
[study]
name = "small"
alphabet = ["0", "1"]
horizon = 12

[privacy]
rho = 0.005
adjacency = "zero-out"

[[release]]
name = "window"
kind = "window"
k = 3
measure = "paper"
share = 0.5

[[release]]
name = "count"
kind = "cumulative"
"""


def summarised(text: str, people: int = 500, *, ones: float = 0.2) -> Summary:
    study = parse_study(text)
    symbols = (np.random.default_rng(5).random((people, study.last_period)) < ones).astype(np.uint8)
    promised = stated_contracts(study, people, insecure=True)
    return summary_of(replay_study(study, promised, tallies_of(study, symbols), SeededEntropy(2)))


@pytest.fixture(params=["flow", "paper"])
def measured(request: pytest.FixtureRequest) -> str:
    """The study with its cumulative release measured in each way."""
    return f'{STUDY}measure = "{request.param}"\n'


def test_the_variance_of_a_window_is_the_papers() -> None:
    """`R / (2 rho)` with `R = 10` steps, under zero-out."""
    assert summarised(STUDY)["releases"]["window"]["variance"] == pytest.approx(10 / (2 * 0.0025), rel=1e-12)


def test_the_variance_of_a_window_by_flow_is_0_448_of_that() -> None:
    variance = summarised(STUDY.replace("paper", "flow"))["releases"]["window"]["variance"]
    assert variance == pytest.approx(0.448 * 2000, rel=0.001)


def test_a_cumulative_release_states_the_largest_variance_of_each_number_of_events(measured: str) -> None:
    contract = stated_contracts(parse_study(measured), 500, insecure=True)["count"]

    def variance(b: int, t: int) -> float:
        if isinstance(contract, CumulativePaperContract):
            return contract.mechanism.variance(b, Period(t))
        assert isinstance(contract, CumulativeContract)
        return float(contract.mechanism.state_covariance(Period(t))[b:, b:].sum())

    stated = summarised(measured)["releases"]["count"]["variance"]
    assert stated == pytest.approx([max(variance(b, t) for t in range(b, 13)) for b in range(1, 13)], rel=1e-12)


def test_under_paper_n_star_is_what_was_released() -> None:
    window = summarised(STUDY)["releases"]["window"]
    assert {sum(period["bins"].values()) for period in window["periods"]} == {window["n_star"]}
    assert window["n_star"] != 500 + 8 * window["n_pad"]


def test_by_flow_n_star_is_known_beforehand_and_released_in_every_period() -> None:
    window = summarised(STUDY.replace("paper", "flow"))["releases"]["window"]
    assert [sum(period["bins"].values()) for period in window["periods"]] == 12 * [window["n_star"]]
    assert window["n_star"] == 500 + 8 * window["n_pad"]


def test_clamped_counts_add_up_over_periods(measured: str) -> None:
    """On a flat stream of nobody, noise below zero has to be moved up."""
    count = summarised(measured, ones=0)["releases"]["count"]
    assert count["clamped"] == sum(period["clamped"] for period in count["periods"]) > 0


def test_bins_of_a_cumulative_release_are_labelled_from_1_to_the_period(measured: str) -> None:
    periods = summarised(measured)["releases"]["count"]["periods"]
    assert [period["period"] for period in periods] == list(range(1, 13))
    for period in periods:
        assert list(period["bins"]) == [str(b) for b in range(1, period["period"] + 1)]
