"""Costs and other numbers, as people read them in every command."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

INSECURE = "INSECURE: the noise came from a seed. It protects nobody."
"""Said wherever a person sees what a seeded run released."""


def epsilon_shown(epsilon: float) -> str:
    """Every epsilon that a person is shown: to three significant digits, as on the status page, never smaller than it is."""
    return rounded_up(epsilon, digits=3)


def rounded_up(cost: float, digits: int = 4) -> str:
    """A cost to so many significant digits, never shown smaller than it is."""
    return f"{Decimal(repr(cost)).normalize(Context(prec=digits, rounding=ROUND_CEILING)):f}"


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
