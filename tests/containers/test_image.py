"""What the image guarantees for every user and every command."""

from __future__ import annotations

import time

import pytest
from testcontainers.core.docker_client import DockerClient

from tests.containers.conftest import NewStudy
from tests.containers.engine import STREAMPROC
from tests.stream.programs import PATIENCE

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]


def test_a_healthy_role_is_unprivileged_writes_only_its_state_and_stops(new_study: NewStudy) -> None:
    role = new_study().role("run", "--operator", "127.0.0.1:9101")

    role.becomes_healthy()
    assert role.asks("id -u; id -g") == (0, "10001\n10001\n")
    for place in ("/", "/etc", "/opt/streamproc/bin", "/usr/bin"):
        assert role.asks(f"touch {place}/x")[0] != 0
    assert role.asks("touch /tmp/x && stat -c '%a %U' /state")[1] == "700 streamproc\n"
    # The highest capability set it could ever get back is empty too.
    assert role.asks("grep CapBnd /proc/1/status")[1].split() == ["CapBnd:", "0000000000000000"]
    assert role.stop().code == 0


def test_a_role_without_a_broker_lives_but_is_not_healthy(new_study: NewStudy) -> None:
    study = new_study()
    role = study.role("gather", "--operator", "127.0.0.1:9101", environ={"STREAMPROC_BROKER": "kafka://127.0.0.1:1"})

    role.says("the broker is away")

    deadline = time.monotonic() + PATIENCE
    while len(checks := role.checks) < 2:
        assert role.runs and time.monotonic() < deadline, role.log
        time.sleep(0.2)
    assert 0 not in checks
    assert role.asks("python -c 'import urllib.request as r; r.urlopen(\"http://127.0.0.1:9101/livez\")'")[0] == 0
    assert role.stop().code == 0


def test_the_image_holds_the_project_and_nothing_of_how_it_was_built(images: None) -> None:
    client = DockerClient().client
    try:
        image = client.images.get(STREAMPROC)
        settings = image.attrs["Config"]
        history = image.history()
    finally:
        client.close()

    assert settings["User"] == "10001:10001"
    assert settings["StopSignal"] == "SIGTERM"
    assert settings["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert not any(variable.startswith("PIP_") for variable in settings["Env"])
    assert "PIP_" not in str(history)
    # A change of the program is a layer of its own, beside which what it needs is large.
    last, before, *_ = (layer["Size"] for layer in history)
    assert 0 < last < 10_000_000 < before
