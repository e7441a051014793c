"""The rules: each alert is shown to fire and to be silent, and says what to do."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.prometheus import RULE_TESTS, rules


@functools.cache
def cases() -> list[dict[str, Any]]:
    return [case for path in RULE_TESTS for group in yaml.safe_load(path.read_text())["tests"]
            for case in group.get("alert_rule_test", ())]  # fmt: skip


@pytest.mark.parametrize("alert", rules("alert"), ids=lambda rule: rule["alert"])
def test_an_alert_fires_and_is_silent_and_says_what_to_do(alert: dict[str, Any]) -> None:
    fires = {bool(case["exp_alerts"]) for case in cases() if case["alertname"] == alert["alert"]}
    assert fires == {True, False}
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert alert["annotations"]["summary"]
    assert alert["annotations"]["runbook"] == f"docs/operations.md#{alert['alert'].lower()}"


def test_every_recorded_series_is_tested() -> None:
    tested = {test["expr"] for path in RULE_TESTS for group in yaml.safe_load(path.read_text())["tests"]
              for test in group.get("promql_expr_test", ())}  # fmt: skip
    assert tested == {rule["record"] for rule in rules("record")}


def test_every_alert_is_explained_on_the_operators_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    assert [rule["alert"] for rule in rules("alert")] == re.findall(r"^### (Streamproc\w+)$", page, re.MULTILINE)
