"""The table of start-up moves, row by row."""

from __future__ import annotations

import pytest

from streamproc.errors import Refused
from streamproc.privacy.types import Period
from streamproc.synthesizer.recovery import LocalState, PublishedState, RecoveryAction, decide

ZERO, ONE, TWO, THREE, OTHER = (name * 32 for name in (b"0", b"1", b"2", b"3", b"x"))


def disk(
    period: int, digest: bytes, previous: bytes, *, settled: bool = False, abandoned: tuple[bytes, ...] = ()
) -> LocalState:
    return LocalState(Period(period), digest, previous, settled, abandoned)


def ledger(period: int, digest: bytes, *intents: bytes) -> PublishedState:
    return PublishedState(Period(period), digest, intents)


@pytest.mark.parametrize(
    ("on_disk", "in_ledger", "move"),
    [
        pytest.param(None, None, RecoveryAction.BEGIN, id="nothing anywhere"),
        pytest.param(None, ledger(0, ZERO), RecoveryAction.GO_ON, id="only the study record"),
        pytest.param(disk(2, TWO, ONE, settled=True), ledger(2, TWO), RecoveryAction.GO_ON, id="disk and ledger agree"),
        pytest.param(disk(2, TWO, ONE), ledger(2, TWO), RecoveryAction.MARK_PUBLISHED, id="published, not settled"),
        pytest.param(disk(3, THREE, TWO), ledger(2, TWO), RecoveryAction.PUBLISH, id="drawn, not announced"),
        pytest.param(disk(3, THREE, TWO), ledger(2, TWO, THREE), RecoveryAction.PUBLISH, id="drawn and announced"),
        pytest.param(disk(1, ONE, ZERO), ledger(0, ZERO, ONE), RecoveryAction.PUBLISH, id="the first period"),
        pytest.param(
            disk(2, TWO, ONE, settled=True, abandoned=(OTHER,)),
            ledger(2, TWO, OTHER),
            RecoveryAction.GO_ON,
            id="an accepted loss",
        ),
        pytest.param(
            disk(3, THREE, TWO, abandoned=(OTHER,)),
            ledger(2, TWO, OTHER),
            RecoveryAction.PUBLISH,
            id="drawn after an accepted loss",
        ),
        pytest.param(
            disk(3, THREE, TWO, abandoned=(OTHER,)), ledger(2, TWO, OTHER, THREE), RecoveryAction.PUBLISH, id="and announced"
        ),
        pytest.param(
            disk(0, ZERO, ZERO, settled=True, abandoned=(ONE,)), ledger(0, ZERO, ONE), RecoveryAction.GO_ON, id="at period 0"
        ),
    ],
)
def test_what_fits_together_goes_on(
    on_disk: LocalState | None, in_ledger: PublishedState | None, move: RecoveryAction
) -> None:
    assert decide(on_disk, in_ledger, used=()) is move


@pytest.mark.parametrize(
    ("on_disk", "in_ledger", "reason"),
    [
        pytest.param(disk(1, ONE, ZERO), None, "the ledger is empty, but the state folder holds period 1", id="no ledger"),
        pytest.param(disk(0, ZERO, ZERO), None, "the ledger is empty, but the state folder", id="no ledger, restored disk"),
        pytest.param(None, ledger(2, TWO), "ends at period 2, but the state folder holds nothing", id="no disk"),
        pytest.param(None, ledger(0, ZERO, ONE), "the next was announced, but", id="no disk, announced"),
        pytest.param(disk(1, ONE, ZERO, settled=True), ledger(2, TWO), "the state folder is old", id="disk one older"),
        pytest.param(disk(1, ONE, ZERO), ledger(3, THREE), "the state folder is old", id="disk two older"),
        pytest.param(disk(3, THREE, TWO, settled=True), ledger(2, TWO), "the ledger is old", id="settled, but not there"),
        pytest.param(disk(3, THREE, TWO), ledger(1, ONE), "the ledger is old", id="ledger two older"),
        pytest.param(disk(2, TWO, ONE), ledger(2, OTHER), "different histories", id="same period, other digest"),
        pytest.param(disk(3, THREE, OTHER), ledger(2, TWO), "different histories", id="another chain"),
        pytest.param(disk(3, THREE, TWO), ledger(2, TWO, OTHER), "announced with another draw", id="another's intent"),
        pytest.param(disk(3, THREE, TWO), ledger(2, TWO, OTHER, THREE), "with another draw", id="theirs was first"),
        pytest.param(disk(3, THREE, TWO), ledger(2, TWO, THREE, OTHER), "or with both", id="ours was given up for theirs"),
        pytest.param(disk(2, TWO, ONE, settled=True), ledger(2, TWO, THREE), "its draw is not in", id="intent without draw"),
        pytest.param(
            disk(2, TWO, ONE, abandoned=(OTHER,)), ledger(2, TWO, OTHER, THREE), "its draw is not in", id="one loss too many"
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(
    on_disk: LocalState | None, in_ledger: PublishedState | None, reason: str
) -> None:
    with pytest.raises(Refused, match=reason) as refused:
        decide(on_disk, in_ledger, used=())

    assert refused.value.exit_code == 3
    assert "\n" not in str(refused.value)


def test_topics_that_were_used_without_a_ledger_are_named() -> None:
    with pytest.raises(Refused, match="study.tallies, study.rejects held records before"):
        decide(None, None, used=("study.tallies", "study.rejects"))


def test_topics_that_were_used_are_no_wonder_once_the_study_has_begun() -> None:
    assert decide(None, ledger(0, ZERO), used=("study.tallies",)) is RecoveryAction.GO_ON
