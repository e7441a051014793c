"""A stream of a panel and a replay of it, under the same seed, release the same bytes."""

from __future__ import annotations

import pytest

from tests.stream.conftest import BROKERS, DeployStudy
from tests.stream.deployed_study import random_symbols


@pytest.mark.parametrize("broker", BROKERS)
def test_a_stream_releases_what_a_replay_releases(deploy_study: DeployStudy, broker: str) -> None:
    deployed = deploy_study(broker)
    panel = deployed.write_panel(random_symbols("01", 200, 4, seed=1, missing=0.1))
    roles = deployed.start("run", "--until-done", "--seed", 7)
    deployed.do("send", panel, "--close")
    roles.done()
    deployed.do("pull", "--out", deployed.folder / "pulled")

    deployed.do("replay", panel, "--out", deployed.folder / "replayed", "--seed", 7)
    for release in ("recent", "ever"):
        replayed = (deployed.folder / "replayed" / f"{release}.csv").read_bytes()
        assert (deployed.folder / "pulled" / f"{release}.csv").read_bytes() == replayed
