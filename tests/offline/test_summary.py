"""The summary states the noise that was promised and counts what had to be clamped."""

from __future__ import annotations

import numpy as np
import pytest

from streamproc.offline import replay_study, tallies_of
from streamproc.offline.summary import Summary, summary_of
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.cumulative import CumulativeContract
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
measure = "histogram"
share = 0.5

[[release]]
name = "count"
kind = "cumulative"
"""


def summarised(text: str, people: int = 500, *, ones: float = 0.2) -> Summary:
    study = parse_study(text)
    symbols = (np.random.default_rng(5).random((people, study.horizon)) < ones).astype(np.uint8)
    promised = stated_contracts(study, people, insecure=True)
    return summary_of(replay_study(study, promised, tallies_of(study, symbols), SeededEntropy(2)))


def test_the_variance_of_a_histogram_is_the_papers() -> None:
    """`R / (2 rho)` with `R = 10` steps, under zero-out."""
    assert summarised(STUDY)["releases"]["window"]["variance"] == pytest.approx(10 / (2 * 0.0025), rel=1e-12)


def test_the_variance_of_a_contrast_is_0_47_of_that() -> None:
    variance = summarised(STUDY.replace("histogram", "contrast"))["releases"]["window"]["variance"]
    assert variance == pytest.approx(0.47 * 2000, rel=0.01)


def test_a_cumulative_release_states_the_largest_variance_of_each_weight() -> None:
    study = parse_study(STUDY)
    contract = stated_contracts(study, 500, insecure=True)["count"]
    assert isinstance(contract, CumulativeContract)
    variance = summarised(STUDY)["releases"]["count"]["variance"]
    assert variance == [
        max(contract.mechanism.variance(b, t) for t in range(b, 13))  # type: ignore[arg-type]
        for b in range(1, 13)
    ]


def test_under_histogram_n_star_is_what_was_released() -> None:
    window = summarised(STUDY)["releases"]["window"]
    assert {sum(period["bins"].values()) for period in window["periods"]} == {window["n_star"]}
    assert window["n_star"] != 500 + 8 * window["n_pad"]


def test_clamped_counts_add_up_over_periods() -> None:
    """On a flat stream of nobody, noise below zero has to be moved up."""
    count = summarised(STUDY, ones=0)["releases"]["count"]
    assert count["clamped"] == sum(period["clamped"] for period in count["periods"]) > 0


def test_bins_of_a_cumulative_release_are_labelled_from_1_to_the_period() -> None:
    for period in summarised(STUDY)["releases"]["count"]["periods"]:
        assert list(period["bins"]) == [str(b) for b in range(1, period["period"] + 1)]
