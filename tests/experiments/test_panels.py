"""The people that are made up."""

from __future__ import annotations

import numpy as np

from experiments import panels


def test_the_simulated_people_are_the_same_every_time() -> None:
    assert np.array_equal(panels.poverty(500), panels.poverty(500))


def test_one_household_in_eight_is_poor_in_any_month() -> None:
    poor = panels.poverty().mean(axis=0)

    assert panels.poverty().shape == (23_374, 12)
    assert np.all(np.abs(poor - 0.125) < 0.01)


def test_poverty_is_sticky() -> None:
    symbols = panels.poverty()
    before, after = symbols[:, :-1], symbols[:, 1:]

    assert after[before == 1].mean() > 0.9
    assert after[before == 0].mean() < 0.02


def test_households_differ_by_more_than_chance() -> None:
    """Entries from not-poor would be the same after one and after eleven quiet months if all households were alike."""
    symbols = panels.poverty()
    soon = symbols[symbols[:, 0] == 0, 1].mean()
    late = symbols[(symbols[:, :11] == 0).all(axis=1), 11].mean()

    assert late < 0.8 * soon


def test_a_flat_panel_has_ones_in_period_1_only() -> None:
    symbols = panels.once(90, 12, 1 / 3)

    assert symbols[:, 0].sum() == 30
    assert symbols[:, 1:].sum() == 0


def test_a_constant_panel_is_constant() -> None:
    assert np.unique(panels.constant(10, 4, 1)).tolist() == [1]
