"""Panels that are made up: everybody the same, nobody ever, and one that moves like poverty."""

from __future__ import annotations

import numpy as np

from experiments.trials import Symbols

POVERTY_PEOPLE = 23_374
"""Households in the paper's SIPP panel."""

POVERTY_SEED = 2021
"""Of the simulated people only; the noise of an experiment has no seed."""


def constant(people: int, horizon: int, symbol: int) -> Symbols:
    """Everybody reports `symbol`, always."""
    return np.full((people, horizon), symbol, dtype=np.uint8)


def once(people: int, horizon: int, share: float) -> Symbols:
    """`share` of the people report a one in period 1; nobody does afterwards, so that every running count is flat."""
    symbols = constant(people, horizon, 0)
    symbols[: round(share * people), 0] = 1
    return symbols


def poverty(people: int = POVERTY_PEOPLE, horizon: int = 12) -> Symbols:
    """Monthly poverty of households (1 is poor), as a two-state Markov chain with differences between households.

    Household `i` has a long-run chance of poverty `p_i ~ Beta(0.25, 1.75)`, 12.5% on average: most are never poor, some
    hardly ever anything else. It also has a stickiness `s_i ~ Beta(9, 1)`, 0.9 on average. It starts poor with chance
    `p_i`; each month it stays as it is with chance `s_i`, else it is poor with chance `p_i` afresh. So

        P(poor -> poor) = s_i + (1 - s_i) p_i        P(not poor -> poor) = (1 - s_i) p_i,

    and the share of poor households stays around 12.5%, while the months of one household hang together.
    """
    rng = np.random.default_rng(POVERTY_SEED)
    chance, stickiness = rng.beta(0.25, 1.75, people), rng.beta(9.0, 1.0, people)
    poor = rng.random(people) < chance
    months = [poor]
    for _ in range(horizon - 1):
        stays, afresh = rng.random(people) < stickiness, rng.random(people) < chance
        poor = np.where(stays, poor, afresh)
        months.append(poor)
    return np.stack(months, axis=1).astype(np.uint8)
