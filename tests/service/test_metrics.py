"""Metrics of several studies can be distinguished in one Prometheus."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from streamproc.service.metrics import OperatorMetrics, PublicMetrics, Spending


def public() -> CollectorRegistry:
    metrics = PublicMetrics("poverty")
    metrics.show_spending(1, 0.1, {"quarterly": Spending(0.005, 0.001, 2)})  # type: ignore[arg-type]
    return metrics.registry


def operator() -> CollectorRegistry:
    metrics = OperatorMetrics("poverty")
    metrics.show_due(None)
    metrics.begin(0)
    metrics.release_seconds.observe(1.0)
    return metrics.registry


@pytest.mark.parametrize("registry", [public(), operator()], ids=["public", "operator"])
def test_every_sample_has_the_study(registry: CollectorRegistry) -> None:
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    assert len(lines) > 4
    assert [line for line in lines if not re.search(r'[{,]study="poverty"[,}]', line)] == []


def test_the_metrics_of_the_process_have_the_study() -> None:
    assert operator().get_sample_value("process_start_time_seconds", {"study": "poverty"}) is not None
