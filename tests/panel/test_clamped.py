"""An answer says whether clamping moved a count that it is made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamproc.panel import AtLeast, Panel, exactly
from streamproc.privacy.noise import Entropy
from streamproc.privacy.window import Measure
from streamproc.releases.contract import WindowContract, make_contracts
from streamproc.releases.synthesis import Synthesis
from streamproc.releases.tally_state import TallyState
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, Release, WindowRelease
from streamproc.testing import SilentEntropy
from tests.stream_model.report_sequences import small_study

T = 8
N = 60


def released(release: Release, entropy: Entropy, *, rho: float = 0.05, padded: bool = True) -> tuple[Panel, list[int]]:
    """A panel of random histories, and how many counts its synthesis clamped in each period."""
    study = small_study(release, horizon=T, alphabet=("0", "1"), rho=rho)
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
def test_a_running_count_is_clamped_if_it_is_not_its_estimate_rounded(seed: int) -> None:
    panel, clamped = released(CumulativeRelease("c", event=("1",)), SeededEntropy(seed))

    answers = [[panel.fraction(AtLeast(b), t).clamped for b in range(1, T + 1)] for t in range(1, T + 1)]

    assert [sum(map(bool, row)) for row in answers] == clamped
    assert any(clamped)
    assert all(said is False for t, row in enumerate(answers, start=1) for said in row[t:])


@pytest.mark.parametrize("measure", ["contrast", "histogram"])
@pytest.mark.parametrize("seed", range(3))
def test_a_bin_is_clamped_only_where_synthesis_clamped(measure: Measure, seed: int) -> None:
    release = WindowRelease("w", 1, measure=measure)
    panel, clamped = released(release, SeededEntropy(seed), rho=0.002, padded=False)

    for period, moved in enumerate(clamped, start=1):
        assert len(clamped_bins(panel, period)) <= moved
    assert any(clamped_bins(panel, period) for period in range(1, T + 1))


@pytest.mark.parametrize("measure", ["contrast", "histogram"])
def test_with_padding_no_bin_is_clamped(measure: Measure) -> None:
    panel, clamped = released(WindowRelease("w", 3, measure=measure), SeededEntropy(1))

    assert not any(clamped)
    assert all(panel.fraction(exactly(*label), t).clamped is False for label in panel.bins() for t in range(3, T + 1))


def test_a_clamped_bin_counts_as_long_as_its_newest_symbol_is_in_the_window() -> None:
    panel, _ = released(WindowRelease("w", 3), SilentEntropy(1), padded=False)
    assert panel.measurements is not None
    measured = [[rows.copy() for rows in period] for period in panel.measurements]
    measured[4][0][2:4] = [1000, -1000]  # period 5, windows 010 and 011: as if clamping had moved these two
    panel = replace(panel, measurements=tuple(measured))

    every = list(panel.bins())
    assert clamped_bins(panel, 4) == []
    assert clamped_bins(panel, 5) == ["010", "011"]
    assert clamped_bins(panel, 6) == ["100", "101", "110", "111"]
    assert clamped_bins(panel, 7) == every
    assert clamped_bins(panel, 8) == []
    assert panel.fraction(exactly("0", "0"), 5).clamped is False
    assert panel.fraction(exactly("1"), 5).clamped is True


def test_without_measurements_it_is_not_known() -> None:
    window, _ = released(WindowRelease("w", 2), SeededEntropy(1))
    cumulative, _ = released(CumulativeRelease("c", event=("1",)), SeededEntropy(1))
    for panel, query in ((window, exactly("1")), (cumulative, AtLeast(1)), (cumulative, AtLeast(5))):
        without = replace(panel, measurements=None)
        assert [without.fraction(query, t).clamped for t in (1, 2, T)] == [None] * 3
    assert Panel(window.contract, window.columns).fraction(exactly("1")).clamped is None


def test_a_panel_that_was_saved_says_the_same() -> None:
    panel, _ = released(CumulativeRelease("c", event=("1",)), SeededEntropy(2))

    again = Panel.from_arrow(panel.to_arrow())

    for b in range(1, T + 1):
        assert again.fraction(AtLeast(b)) == panel.fraction(AtLeast(b))
