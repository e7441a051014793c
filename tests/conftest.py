"""What holds for every test.

Hypothesis: profile `default` tries a modest number of examples; with CI=true profile `ci` tries the same ones in every
run, so that a red build is about the change and not about luck; `HYPOTHESIS_PROFILE=deep` looks longer.

Skips: a test marked `kafka`, `docker`, `prometheus` or `browser` may be skipped on a machine that lacks these. With CI=true
such a skip is a failure, because a build that silently left out the broker has shown nothing. A whole module that skips
itself is a failure there too: its marks cannot be read, and whatever it might lack is in the lock.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

from streamproc.service.logging_setup import LIBRARIES
from tests.broker.fixture import kafka_broker  # noqa: F401
from tests.sharing import SharedServers, longest_first

IN_CI = os.environ.get("CI") == "true"
NEVER_SKIPPED_IN_CI = ("kafka", "docker", "prometheus", "browser")

settings.register_profile("default", max_examples=50, deadline=None)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.register_profile("deep", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if IN_CI else "default"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test with a broker pays for what all share: jars that are fetched, a broker that starts."""
    for item in items:
        if item.get_closest_marker("kafka") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
    longest_first(items)


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A command that runs within a test sends log lines to a standard error that is gone when the test is over."""
    ours, loggers = logging.getLogger("streamproc"), [logging.getLogger(name) for name in ("streamproc", *LIBRARIES)]
    handlers, propagate, levels = ours.handlers[:], ours.propagate, [logger.level for logger in loggers]
    yield
    ours.handlers[:], ours.propagate = handlers, propagate
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedServers:
    return SharedServers(config, log)


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
