"""The invariants, judged from the topics alone by the documented formats: nothing of the program under test is imported.

With a budget as large as that of the chaos study the noise is zero but for a chance that `chance_of_noise` bounds, so the
columns are the exact data, while the order of their rows is random: a second draw would show in their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tests.chaos import public_checks, secret_checks
from tests.chaos.history import History
from tests.chaos.model import Model

Check = Callable[[], Iterator[str]]


def checks(history: History) -> dict[str, Check]:
    """Each invariant in words, with what finds its violations."""
    model = Model(history)

    def without(check: Callable[[History], Iterator[str]]) -> Check:
        return partial(check, history)

    def with_model(check: Callable[[History, Model], Iterator[str]]) -> Check:
        return partial(check, history, model)

    return {
        "the ledger begins with the study that was asked for": without(public_checks.study_is_the_one_asked_for),
        "1: every reader of a column always reads the same bytes": without(public_checks.readers_saw_the_same),
        "1: every column is the one in the ledger": without(public_checks.columns_match_the_ledger),
        "2: every column comes once, in order, without a gap": without(public_checks.columns_come_once),
        "2: the ledger has every period, announced and chained": without(public_checks.ledger_is_chained),
        "3: one draw leaves, for uncommitted readers too": without(public_checks.one_draw_leaves),
        "4: the spending is the exact cost, within the budget": without(public_checks.spending_is_the_cost),
        "5: tallies are a function of the log and the cuts": with_model(secret_checks.tallies_are_the_models),
        "6: without noise the columns are the exact data": with_model(secret_checks.columns_are_the_data),
        "6: acknowledged reports count": with_model(secret_checks.acknowledged_reports_count),
        "7: what does not count is rejected, and only that": with_model(secret_checks.rejects_say_little_and_truly),
        "8: the watermark never goes back": without(secret_checks.watermark_never_goes_back),
        "11: nobody is named": without(secret_checks.nobody_is_named),
        "no process met a bug": without(secret_checks.nothing_was_a_bug),
    }


def violations(history: History) -> dict[str, list[str]]:
    """For each invariant what speaks against it; that it cannot even be judged does so too."""
    found: dict[str, list[str]] = {}
    for name, check in checks(history).items():
        try:
            found[name] = list(check())
        except Exception as error:
            found[name] = [f"cannot be judged: {type(error).__name__}: {error}"]
    return found
