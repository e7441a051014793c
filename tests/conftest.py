"""What holds for every test.

Hypothesis: profile `default` tries a modest number of examples; with CI=true profile `ci` tries the same ones in every
run, so that a red build is about the change and not about luck; `HYPOTHESIS_PROFILE=deep` looks longer.

Skips: a test marked `kafka`, `docker`, `prometheus` or `browser` may be skipped on a machine that lacks these. With CI=true
such a skip is a failure, because a build that silently left out the broker has shown nothing. A whole module that skips
itself is a failure there too: its marks cannot be read, and whatever it might lack is in the lock.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.broker.fixture import kafka_broker  # noqa: F401

IN_CI = os.environ.get("CI") == "true"
NEVER_SKIPPED_IN_CI = ("kafka", "docker", "prometheus", "browser")

settings.register_profile("default", max_examples=50, deadline=None)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.register_profile("deep", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if IN_CI else "default"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    marks = [mark for mark in NEVER_SKIPPED_IN_CI if item.get_closest_marker(mark)]
    # An expected failure is reported as a skip too, but the test did run.
    if IN_CI and report.skipped and marks and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"a test marked {' and '.join(marks)} was skipped, and CI=true: {_reason(report)}"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"a whole module was skipped, and CI=true: {_reason(report)}"
    return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
