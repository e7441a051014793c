"""An answer says whether clamping moved a count that it is made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamproc.panel import AtLeast, Panel, exactly
from streamproc.privacy.noise import Entropy
from streamproc.privacy.types import Period
from streamproc.releases.contracts import make_contracts
from streamproc.releases.synthesis import Synthesis
from streamproc.releases.tally_state import TallyState
from streamproc.releases.window import WindowContract
from streamproc.releases.window_measurements import measure_window
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, Release, WindowRelease
from streamproc.study.releases import Measure
from streamproc.testing import SilentEntropy
from tests.releases.random_studies import KINDS, MEASURES, release_of
from tests.studies import build_study

T = 8
N = 60


def released(release: Release, entropy: Entropy, *, rho: float = 0.05, padded: bool = True) -> tuple[Panel, list[int]]:
    """A panel of random histories, and how many counts its synthesis clamped in each period."""
    study = build_study(release, horizon=T, rho=rho)
    made = make_contracts(study, N, entropy)
    contract = made[release.name]
    if isinstance(contract, WindowContract) and not padded:
        contract = replace(contract, n_pad=0)
    cohort, synthesis, panel = TallyState.of(study, N), Synthesis.start({release.name: contract}), Panel(contract)
    symbols = np.random.default_rng(2).integers(0, 2, (N, T)).astype(np.uint8)
    clamped = []
    for period in range(T):
        cohort, tally = cohort.fold(symbols[:, period])
        synthesis, steps = synthesis.step(tally, entropy)
        panel = panel.extended(steps[release.name])
        clamped.append(steps[release.name].clamped)
    return panel, clamped


def clamped_bins(panel: Panel, period: int) -> list[str]:
    return [label for label in panel.bins() if panel.fraction(exactly(*label), period).clamped]


@pytest.mark.parametrize("seed", range(3))
def test_a_running_count_of_the_paper_is_clamped_if_it_is_not_its_estimate_rounded(seed: int) -> None:
    panel, clamped = released(CumulativeRelease("c", event=("1",), measure="paper"), SeededEntropy(seed))

    answers = [[panel.fraction(AtLeast(b), t).clamped for b in range(1, T + 1)] for t in range(1, T + 1)]

    assert [sum(map(bool, row)) for row in answers] == clamped
    assert any(clamped)
    assert all(said is False for t, row in enumerate(answers, start=1) for said in row[t:])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["cumulative-flow", "spell", "pattern"])
def test_a_count_by_flow_is_clamped_only_if_it_is_further_from_its_estimate_than_rounding_goes(kind: str, seed: int) -> None:
    """A projection that moves a count by less than rounding may do cannot be told from rounding afterwards."""
    panel, clamped = released(release_of(kind), SeededEntropy(seed), rho=0.005)
    contract = panel.contract
    assert panel.measurements is not None

    for period, moved in enumerate(clamped, start=1):
        estimates = contract.estimates(panel.measurements, Period(period))
        assert estimates is not None
        queries = [contract.parse_query(contract.query_of(label)).query for label in contract.labels(Period(period))]
        said = [panel.fraction(query, period).clamped for query in queries]
        distances = np.abs(panel.counts(period) - estimates)
        assert sum(map(bool, said)) <= moved
        assert all(distance > 1 for distance, is_clamped in zip(distances, said, strict=True) if is_clamped)
        # Rounding moves a count by less than 1 for each state that it can split, of which there are at most 4.
        assert all(distance < 4 for distance, is_clamped in zip(distances, said, strict=True) if not is_clamped)
    assert any(clamped)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("seed", range(3))
def test_a_bin_is_clamped_only_where_synthesis_clamped(measure: Measure, seed: int) -> None:
    release = WindowRelease("w", 1, measure=measure)
    panel, clamped = released(release, SeededEntropy(seed), rho=0.002, padded=False)

    for period, moved in enumerate(clamped, start=1):
        assert len(clamped_bins(panel, period)) <= moved
    assert any(clamped_bins(panel, period) for period in range(1, T + 1))


@pytest.mark.parametrize("measure", MEASURES)
def test_with_padding_no_bin_is_clamped(measure: Measure) -> None:
    panel, clamped = released(WindowRelease("w", 3, measure=measure), SeededEntropy(1))

    assert not any(clamped)
    assert all(panel.fraction(exactly(*label), t).clamped is False for label in panel.bins() for t in range(3, T + 1))


@pytest.mark.parametrize("measure", MEASURES)
def test_a_clamped_bin_counts_as_long_as_its_newest_symbol_is_in_the_window(measure: Measure) -> None:
    panel, _ = released(WindowRelease("w", 3, measure=measure), SilentEntropy(1), padded=False)
    assert panel.measurements is not None
    measured = [[rows.copy() for rows in period] for period in panel.measurements]
    # Period 5, windows 010 and 011: as if clamping had moved these two.
    moved = np.array([0, 0, 1000, -1000, 0, 0, 0, 0])
    changes = measure_window(moved, 2, 3) if measure == "flow" else [moved]
    measured[4] = [rows + change for rows, change in zip(measured[4], changes, strict=True)]
    panel = replace(panel, measurements=tuple(measured))

    every = list(panel.bins())
    assert clamped_bins(panel, 4) == []
    assert clamped_bins(panel, 5) == ["010", "011"]
    assert clamped_bins(panel, 6) == ["100", "101", "110", "111"]
    assert clamped_bins(panel, 7) == every
    assert clamped_bins(panel, 8) == []
    assert panel.fraction(exactly("0", "0"), 5).clamped is False
    assert panel.fraction(exactly("1"), 5).clamped is True


@pytest.mark.parametrize("kind", KINDS)
def test_without_measurements_it_is_not_known(kind: str) -> None:
    panel, _ = released(release_of(kind), SeededEntropy(1))
    query = panel.contract.parse_query(next(iter(panel.contract.suggested_queries()))).query

    without = replace(panel, measurements=None)

    assert [without.fraction(query, t).clamped for t in (1, 2, T)] == [None] * 3
    assert all(panel.fraction(query, t).clamped is not None for t in (1, 2, T))


def test_a_panel_whose_first_columns_come_together_may_have_measurements_of_no_period() -> None:
    panel, _ = released(release_of("window-paper"), SeededEntropy(1))
    assert Panel(panel.contract, panel.columns).fraction(exactly("1")).clamped is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_panel_that_was_saved_says_the_same(kind: str) -> None:
    panel, _ = released(release_of(kind), SeededEntropy(2))

    again = Panel.from_arrow(panel.to_arrow())

    for name in panel.contract.suggested_queries():
        query = panel.contract.parse_query(name).query
        assert again.fraction(query) == panel.fraction(query)
