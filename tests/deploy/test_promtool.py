"""promtool accepts the rules and the configuration, and the rules' own tests pass."""

from __future__ import annotations

import subprocess

from tests.deploy.prometheus import FOLDER, NEEDS_PROMETHEUS, RULE_TESTS, RULES

pytestmark = NEEDS_PROMETHEUS


def promtool(*arguments: object) -> str:
    command = ["promtool", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_rules_and_configuration() -> None:
    assert promtool("check", "rules", "--lint-fatal", *RULES).count("SUCCESS") == len(RULES)
    # The credentials are a file of the container.
    assert "SUCCESS" in promtool("check", "config", "--syntax-only", FOLDER / "prometheus.yml")


def test_the_unit_tests_of_the_rules_pass() -> None:
    assert promtool("test", "rules", *RULE_TESTS).count("SUCCESS") == len(RULE_TESTS)
