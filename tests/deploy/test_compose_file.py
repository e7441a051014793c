"""What `docker-compose.yml` starts, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parents[2] / "docker-compose.yml"


def services() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text())["services"])


def test_roles_wait_until_init_has_created_the_topics() -> None:
    found = services()
    roles = {name: each for name, each in found.items() if each.get("command", [""])[0] in ("gather", "synthesize", "page")}

    assert roles.keys() == {"gatherer-1", "gatherer-2", "synthesizer", "page"}
    for role in roles.values():
        assert role["depends_on"]["topics"] == {"condition": "service_completed_successfully"}
        assert f"streamproc init {role['command'][1]} " in found["topics"]["command"][0]
    assert found["topics"]["depends_on"].keys() == {"kafka", "operator-token"}
