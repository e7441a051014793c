"""Under a supervisor: `--stay` keeps the listeners up when the work is over, so that anybody can see how it ended."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

from tests.stream.conftest import DeployStudy
from tests.stream.deployed_study import random_symbols
from tests.stream.test_listeners import (
    LAST_BIN,
    Listeners,
    ask,
    check_public,
    names,
    samples,
    samples_when,
    two_are_released,
)

OVER = "the last period is released; the study is over"


def test_a_role_that_refuses_stays_to_say_so_and_can_be_restored_in_place(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded")
    panel = deployed.write_panel(random_symbols("01", 200, 4, seed=3))
    roles = deployed.start("run")
    deployed.do("send", panel, "--period", 1)
    deployed.do("close", "--period", 1, "--wait")
    assert roles.stop().code == 0
    shutil.rmtree(deployed.state)

    refusing = deployed.start("synthesize", "--stay", *Listeners.ARGUMENTS)
    refusing.says("waiting for a signal to stop")
    listeners = Listeners(refusing)
    assert samples(listeners.operator)["streamproc_refused", ()] == 1
    assert samples(listeners.operator)["streamproc_ready", ()] == 0
    assert ask(listeners.operator, "/livez")[0] == 200
    assert ask(listeners.operator, "/readyz")[0] == 503

    deployed.do("restore")
    ended = refusing.stop()
    assert ended.code == 3
    assert "restore" in ended.complaint.splitlines()[-1]
    deployed.start("synthesize").says("going on after what is released")


def test_a_role_that_refuses_before_it_starts_shows_what_is_spent_and_what_is_due(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded")
    panel = deployed.write_panel(random_symbols("01", 200, 4, seed=6))
    roles = deployed.start("run")
    deployed.do("send", panel, "--through", 2, "--close")
    deployed.do("close", "--period", 2, "--wait")
    assert roles.stop().code == 0
    deployed.file.write_text(deployed.file.read_text() + '\n[schedule]\nstart = 2001-01-01T00:00:00Z\nevery = "month"\n')

    refusing = deployed.start("synthesize", "--stay", *Listeners.ARGUMENTS)
    refusing.says("--catch-up")
    listeners = Listeners(refusing)
    check_public(deployed, samples_when(listeners.public, two_are_released), released=2)
    april = datetime(2001, 4, 1, tzinfo=UTC).timestamp()
    assert samples(listeners.operator)["streamproc_next_release_timestamp_seconds", ()] == april
    assert refusing.stop().code == 3


def test_a_study_that_is_over_is_still_shown(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded", horizon=2, partitions=1)
    panel = deployed.write_panel(random_symbols("01", 200, 2, seed=4))
    deployed.do("send", panel, "--close")
    deployed.start("run", "--until-done").done()
    status = deployed.status()

    for command in ("synthesize", "gather"):
        role = deployed.start(command, "--stay", *Listeners.ARGUMENTS)
        role.says(OVER)
        shown = samples_when(Listeners(role).public, lambda found: ("streamproc_bin_rows", LAST_BIN) in found)
        assert shown["streamproc_periods_released", ()] == 2
        assert shown["streamproc_epsilon_spent", ()] == status["epsilon_spent"]
        assert samples(Listeners(role).operator)["streamproc_ready", ()] == 1
        assert role.stop().code == 0


def test_what_is_shown_of_a_partition_ends_when_another_process_gathers_it(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded", partitions=2)
    panel = deployed.write_panel(random_symbols("01", 200, 4, seed=5))
    deployed.do("init")
    deployed.start("synthesize")
    first = deployed.start("gather", *Listeners.ARGUMENTS)
    operator = Listeners(first).operator
    deployed.do("send", panel, "--period", 1)
    deployed.do("close", "--period", 1, "--wait")
    settled = {("streamproc_period_settled", (("partition", str(partition)),)) for partition in range(2)}
    samples_when(operator, lambda found: found.keys() >= settled)

    deployed.start("gather", "--state", deployed.folder / "second.state")
    shared = samples_when(operator, lambda found: len(found.keys() & settled) == 1)
    assert len({labels for name, labels in shared if name == "streamproc_lag_records"}) == 1
    assert "streamproc_reports_total" in names(shared)
