"""The rules: accepted by promtool, each alert shown to fire and to be silent, and each with what to do."""

from __future__ import annotations

import functools
import subprocess
from typing import Any

import pytest
import yaml

from tests.deploy.prometheus import FOLDER, RULES, needs_prometheus, rules

TESTS = sorted((FOLDER / "tests").glob("*.yml"))


def promtool(*arguments: object) -> str:
    command = ["promtool", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_prometheus
def test_promtool_accepts_rules_and_configuration() -> None:
    assert promtool("check", "rules", "--lint-fatal", *RULES).count("SUCCESS") == len(RULES)
    # The credentials are a file of the container.
    assert "SUCCESS" in promtool("check", "config", "--syntax-only", FOLDER / "prometheus.yml")


@needs_prometheus
def test_the_unit_tests_of_the_rules_pass() -> None:
    assert promtool("test", "rules", *TESTS).count("SUCCESS") == len(TESTS)


@functools.cache
def cases() -> list[dict[str, Any]]:
    return [case for path in TESTS for group in yaml.safe_load(path.read_text())["tests"]
            for case in group.get("alert_rule_test", ())]  # fmt: skip


@pytest.mark.parametrize("alert", rules("alert"), ids=lambda rule: rule["alert"])
def test_an_alert_fires_and_is_silent_and_says_what_to_do(alert: dict[str, Any]) -> None:
    fires = {bool(case["exp_alerts"]) for case in cases() if case["alertname"] == alert["alert"]}
    assert fires == {True, False}
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert alert["annotations"]["summary"]
    assert alert["annotations"]["runbook"] == f"docs/operations.md#{alert['alert'].lower()}"


def test_every_recorded_series_is_tested() -> None:
    tested = {test["expr"] for group in yaml.safe_load((FOLDER / "tests" / "recording.yml").read_text())["tests"]
              for test in group["promql_expr_test"]}  # fmt: skip
    assert tested == {rule["record"] for rule in rules("record")}
