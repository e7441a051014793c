"""The questions a steward is likely to be asked, and how accurately each release will answer them."""

from __future__ import annotations

from collections.abc import Iterator

from streamproc.panel import AtLeast, LastSymbols, count_of, exactly, in_a_row
from streamproc.panel.accuracy import quantile, ratchet_halfwidth, window_stderr
from streamproc.planning.values import LEVEL, ExpectedError, QueryPlan
from streamproc.privacy.quantities import FloatArray, Period
from streamproc.study import bin_label
from streamproc.synth.contract import Contract, CumulativeContract, WindowContract


def query_plans(contract: Contract) -> tuple[QueryPlan, ...]:
    """Typical questions to this release, with their errors by period."""
    return tuple(_window_plans(contract) if isinstance(contract, WindowContract) else _cumulative_plans(contract))


def _window_plans(contract: WindowContract) -> Iterator[QueryPlan]:
    k, horizon = contract.mechanism.k, contract.mechanism.horizon
    seen: list[bytes] = []
    for name, label, query in _window_questions(contract):
        weights = query.weights(contract, k)
        # For a small k several of the questions are one.
        if weights.tobytes() in seen:
            continue
        seen.append(weights.tobytes())
        early = [_error(contract, query.weights(contract, t), Period(t)) for t in range(query.width, k)]
        rest = [_error(contract, weights, Period(t)) for t in range(k, min(2 * k, horizon) + 1)]
        # A rounding error is summed away after k steps, so from period 2k on nothing changes.
        steady = [_at(Period(t), rest[-1].stderr_people, contract.n) for t in range(2 * k + 1, horizon + 1)]
        yield QueryPlan(name, label, (*early, *rest, *steady))


def _window_questions(contract: WindowContract) -> Iterator[tuple[str, str, LastSymbols]]:
    """Name, label and question. By symmetry every bin, and every symbol, has the error of the one asked about."""
    k, alphabet = contract.mechanism.k, contract.alphabet
    first, one = alphabet[0], alphabet[1]
    yield "bin", f"one bin, such as {bin_label([first] * k, alphabet)}", exactly(*[first] * k)
    yield f"last:{one}", f"last symbol is {one!r}" if len(alphabet) == 2 else f"last symbol, such as {one!r}", exactly(one)
    if len(alphabet) == 2 and k >= 2:
        yield from (
            (query.name, f"{one!r} {how} the last {k}", query)
            for how, query in (
                ("in all of", count_of([one], at_least=k, of=k)),
                ("at least once in", count_of([one], at_least=1, of=k)),
                ("at least twice in", count_of([one], at_least=2, of=k)),
                ("twice in a row in", in_a_row([one], length=2, of=k)),
            )
        )


def _cumulative_plans(contract: CumulativeContract) -> Iterator[QueryPlan]:
    mechanism, horizon = contract.mechanism, contract.mechanism.horizon
    event = " or ".join(map(repr, contract.event)) if len(contract.event) <= 3 else "the event"
    for b in sorted({b for b in (1, 2, 3, horizon) if b <= horizon}):
        errors = [_at(Period(t), mechanism.variance(b, Period(t)) ** 0.5, contract.n) for t in range(b, horizon + 1)]
        columns_only = ratchet_halfwidth(mechanism, b, Period(horizon), LEVEL)
        times = {1: "once", 2: "twice"}.get(b, f"{b} times")
        yield QueryPlan(AtLeast(b).name, f"{event} at least {times}", tuple(errors), columns_only)


def _error(contract: WindowContract, weights: FloatArray, period: Period) -> ExpectedError:
    return _at(period, window_stderr(contract.mechanism, weights, period), contract.n)


def _at(period: Period, stderr: float, n: int) -> ExpectedError:
    return ExpectedError(period, stderr, quantile(LEVEL) * stderr, n)
