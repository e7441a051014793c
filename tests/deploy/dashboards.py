"""The Grafana dashboards, as far as tests look into them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
FILES = sorted((FOLDER / "dashboards").glob("*.json"))

Dashboard = dict[str, Any]


def read(path: Path) -> Dashboard:
    return dict(json.loads(path.read_text()))


def panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    """All but the headings."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries(dashboard: Dashboard) -> list[str]:
    """Every query, with all studies and releases chosen."""
    found = [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            label_values = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
            assert label_values is not None
            found.append(f'{label_values[1]}{{{label_values[2]}!=""}}')
            found = [query.replace(f"${variable['name']}", variable["allValue"]) for query in found]
    assert not any("$" in query for query in found)
    return found
