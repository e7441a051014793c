"""Padding: fake people added to every bin, in public numbers, so that noise hardly ever makes a count negative.

The error of a bin's count is Gaussian noise of variance `v'` plus the rounding errors of its last `k` steps, which fade by a
factor of `q` a step and each lie within an interval of length 1 (sub-Gaussian with variance 1/4). With

    n_pad = (sqrt(2 v') + sqrt((1 - q^-k) / (2 (1 - 1/q)))) sqrt(ln(m R / beta)),

each of the `m R` bins of a study falls below zero with probability at most `beta / (m R)`, so none does with probability
`1 - beta`.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal, localcontext

from streamproc.privacy.window import WindowMechanism


def padding(mechanism: WindowMechanism, beta: float) -> int:
    """`n_pad`, in people per bin. In decimals: every machine must come to the same public number."""
    with localcontext(Context(prec=40)):
        q, k, m = Decimal(mechanism.q), mechanism.k, Decimal(mechanism.bins)
        noise = (2 * Decimal(mechanism.bin_variance)).sqrt()
        rounding = ((1 - q**-k) / (2 * (1 - 1 / q))).sqrt()
        tail = (m * mechanism.steps / Decimal(beta)).ln().sqrt()
        return int(((noise + rounding) * tail).to_integral_value(ROUND_CEILING))
