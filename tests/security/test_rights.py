"""Every right that `init --print` shows is needed: without it a principal's command fails with exit 5."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.broker.secure import SecureBroker
from tests.security.conftest import NewStudy, print_acls
from tests.security.principals import Right, rights
from tests.security.whole_study import PartFailed, run_study

pytestmark = pytest.mark.kafka

QUICK = ("synthesizer-Write-transactional-id", "steward-Describe-reports", "steward-Write-control")
"""Those that a normal run leaves out in turn."""


def all_rights() -> list[Right]:
    with TemporaryDirectory() as folder:
        return rights(print_acls(Path(folder)))


def params() -> list[object]:
    found = all_rights()
    assert {str(right) for right in found} >= set(QUICK)
    return [pytest.param(each, id=str(each), marks=() if str(each) in QUICK else pytest.mark.slow) for each in found]


@pytest.mark.parametrize("right", params())
def test_without_it_a_study_does_not_live(
    right: Right, new_study: NewStudy, guarded_broker: SecureBroker, purge_allowed: Callable[[], None]
) -> None:
    study = new_study()

    def leave_out() -> None:
        guarded_broker.acls("--remove", "--force", *right.arguments)

    def allow_purge() -> None:
        purge_allowed()
        leave_out()

    if not right.to_purge:
        leave_out()
    try:
        with pytest.raises(PartFailed) as ended:
            run_study(study, allow_purge if right.to_purge else None)
    finally:
        if not right.to_purge:
            guarded_broker.acls("--add", *right.arguments)

    assert (ended.value.principal, ended.value.code) == (right.principal, 5)
    last = ended.value.complaint.strip().splitlines()[-1]
    assert right.resource[1] in last
