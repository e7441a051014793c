"""The two listeners: everybody's shows what is public, the operator's what is private too."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.stream.conftest import DeployStudy
from tests.stream.deployed_study import DeployedStudy, random_symbols
from tests.stream.programs import PATIENCE, Program

PUBLIC = {
    "streamproc_budget_rho",
    "streamproc_budget_spent_rho",
    "streamproc_epsilon_spent",
    "streamproc_periods_released",
    "streamproc_bin_rows",
    "streamproc_padding_rows",
    "streamproc_padding_headroom_rows",
    "streamproc_clamped_bins_total",
}
"""All that CONTRACT names, and nothing else: whatever is private would have to have another name."""

PRIVATE = {
    "streamproc_reports_total",
    "streamproc_rejects_total",
    "streamproc_lag_records",
    "streamproc_people",
    "streamproc_state_bytes",
    "streamproc_watermark",
    "streamproc_released_period",
    "streamproc_release_seconds_count",
}

LAST_BIN = (("bin", "11"), ("release", "recent"))

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Listeners:
    """Of one program that was started with `--public` and `--operator`, in this order."""

    ARGUMENTS = ("--public", "127.0.0.1:0", "--operator", "127.0.0.1:0")

    def __init__(self, program: Program) -> None:
        lines = [program.says("listening", times) for times in (1, 2)]
        self.public, self.operator = (line.rpartition("address=")[2] for line in lines)


def ask(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def samples(address: str) -> Samples:
    code, text = ask(address, "/metrics")
    assert code == 200
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert len({sample.labels["study"] for sample in found}) <= 1
    return {(s.name, tuple(sorted((k, v) for k, v in s.labels.items() if k != "study"))): s.value for s in found}


def samples_when(address: str, condition: Callable[[Samples], bool]) -> Samples:
    """What is shown once the condition holds; processes work while we look."""
    deadline = time.monotonic() + PATIENCE
    while not condition(found := samples(address)):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def two_are_released(found: Samples) -> bool:
    """The ledger says so, and the counts are those of its last period."""
    return found.get(("streamproc_periods_released", ())) == 2 and ("streamproc_bin_rows", LAST_BIN) in found


def names(found: Samples) -> set[str]:
    return {name for name, _ in found}


def people(found: Samples) -> float:
    return sum(count for (name, _), count in found.items() if name == "streamproc_people")


def check_public(deployed: DeployedStudy, found: Samples, released: int) -> None:
    """What everybody sees is what `status` says."""
    status = deployed.status()
    assert names(found) == PUBLIC
    assert found["streamproc_periods_released", ()] == released == status["released"]
    assert found["streamproc_epsilon_spent", ()] == status["epsilon_spent"]
    for name, release in status["releases"].items():
        labels = (("release", name),)
        assert found["streamproc_budget_rho", labels] == release["rho"]
        assert found["streamproc_budget_spent_rho", labels] == release["rho_spent"]
        assert found["streamproc_clamped_bins_total", labels] == release["clamped"]
    bins = {dict(labels)["bin"]: count for (name, labels), count in found.items() if is_bin(name, labels)}
    assert set(bins) == {"00", "01", "10", "11"}
    assert sum(bins.values()) == status["releases"]["recent"]["n_star"]
    assert found["streamproc_padding_headroom_rows", (("release", "recent"),)] == min(bins.values())
    assert found["streamproc_padding_rows", (("bin", "01"), ("release", "recent"))] == status["releases"]["recent"]["n_pad"]


def is_bin(name: str, labels: tuple[tuple[str, str], ...]) -> bool:
    return name == "streamproc_bin_rows" and ("release", "recent") in labels


def test_what_is_private_is_on_the_operators_listener_only(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded", rho=0.01)
    panel = deployed.write_panel(random_symbols("01", 200, 4, seed=13))
    roles = deployed.start("run", *Listeners.ARGUMENTS)
    listeners = Listeners(roles)
    before = samples_when(listeners.public, lambda found: ("streamproc_periods_released", ()) in found)
    assert before["streamproc_periods_released", ()] == before["streamproc_epsilon_spent", ()] == 0
    assert before["streamproc_budget_rho", (("release", "ever"),)] == pytest.approx(0.005)

    deployed.do("send", panel, "--through", 2, "--close")
    deployed.do("send", panel, "--period", 1)
    private = samples_when(listeners.operator, lambda found: names(found) >= PRIVATE and people(found) == 200)
    assert not names(private) & PUBLIC
    check_public(deployed, samples_when(listeners.public, two_are_released), released=2)
    for address in (listeners.public, listeners.operator):
        assert ask(address, "/livez") == (200, "ok\n")
        assert ask(address, "/readyz") == (200, "ready\n")
        assert ask(address, "/nowhere")[0] == 404

    assert roles.stop().code == 0
    # A process that has just been started shows what was released before it.
    again = deployed.start("run", *Listeners.ARGUMENTS)
    again.says("going on after what is released")
    check_public(deployed, samples_when(Listeners(again).public, two_are_released), released=2)


def test_a_process_that_waits_for_its_broker_lives_but_is_not_ready(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded")
    roles = deployed.start("run", "--broker", "kafka://127.0.0.1:1", *Listeners.ARGUMENTS)
    listeners = Listeners(roles)
    for address in (listeners.public, listeners.operator):
        assert ask(address, "/livez")[0] == 200
        assert ask(address, "/readyz") == (503, "not ready\n")
    # Who knows nothing of the ledger does not say that nothing is spent.
    assert samples(listeners.public) == {}
    assert roles.stop().code == 0


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:99999", "192.0.2.1:9100"])
def test_an_address_where_nobody_can_listen_is_named(deploy_study: DeployStudy, address: str) -> None:
    ended = deploy_study("embedded").call("run", "--public", address)
    assert ended.code == 2
    assert f"listener {address}" in ended.complaint.replace("'", "")
