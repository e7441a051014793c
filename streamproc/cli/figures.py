"""Costs and other numbers, as people read them in every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.exact import decimal_up
from streamproc.privacy.zcdp import epsilon_of_rho

if TYPE_CHECKING:
    from streamproc.wire.site_registry import Composition

INSECURE = "INSECURE: the noise came from a seed. It protects nobody."
"""Said wherever a person sees what a seeded run released."""


def epsilon_shown(epsilon: float) -> str:
    """Every epsilon that a person is shown: to three significant digits, as on the status page, never smaller than it is."""
    return rounded_up(epsilon, digits=3)


def rounded_up(cost: float, digits: int = 4) -> str:
    """A cost to so many significant digits, never shown smaller than it is."""
    return decimal_up(cost, digits)


def composition_shown(total: Composition, delta: float) -> str:
    """What the registered releases of the same people cost together."""
    what = f"{counted(total.releases, 'release')} of the same people"
    if total.rho is None or total.rho_replace_one is None:
        return f"{what} have a cost without a bound, since {total.seeded} came from a seed"
    rho = f"rho {rounded_up(total.rho)} ({total.adjacency.value})"
    epsilon = f"epsilon {epsilon_shown(epsilon_of_rho(total.rho, delta))} at delta {delta_shown(delta)}"
    beside = ""
    if total.adjacency is not Adjacency.REPLACE_ONE:
        beside = beside_replace_one(total.rho_replace_one, epsilon_of_rho(total.rho_replace_one, delta))
    return f"{what} cost {rho}, {epsilon}{beside}"


def unknown_shown(streams: int) -> str:
    """How many registered streams have people whom the registry cannot compare with others."""
    return f"registry: {counted(streams, 'stream')} without a roster, whose people it cannot recognise, may add to the cost"


def delta_shown(delta: float) -> str:
    """As a study file writes it: 1e-6, not 1e-06."""
    return f"{delta:g}".replace("e-0", "e-")


def counted(count: int, name: str) -> str:
    """So many of something: "1 period", "2,000 periods"."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def number_shown(value: float) -> str:
    """Three significant digits, thousands apart."""
    return f"{value:,.0f}" if 100 <= value < 1e8 else f"{value:.3g}"


def beside_replace_one(rho: float | None, epsilon: float | None) -> str:
    """What a sentence about a zero-out study's cost goes on with; nothing for a study that declares replace-one."""
    if rho is None or epsilon is None:
        return ""
    return f"; the same noise under replace-one: rho {rounded_up(rho)}, epsilon {epsilon_shown(epsilon)}"
