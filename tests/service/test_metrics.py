"""Metrics of several studies can be distinguished in one Prometheus."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from streamproc.service.metrics import OperatorMetrics, PublicMetrics, Spending
from tests.status_page.open_snapshot import open_snapshot, open_tallies
from tests.studies import build_open_study


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


def test_people_who_are_present_entered_and_left_are_gauges_and_no_bins() -> None:
    study = build_open_study()
    metrics = PublicMetrics(study.name)
    snapshot = open_snapshot(study, open_tallies(study, 6))
    for name, history in snapshot.histories.items():
        metrics.show_counts(history.contract, history.period, history.counts[-1])
        labels = {"study": study.name, "release": name}
        shown = [
            metrics.registry.get_sample_value(f"streamproc_{key}_people", labels) for key in ("present", "entered", "left")
        ]
        assert shown == history.counts[-1][-3:].tolist()
    bins = {
        sample.labels["bin"] for family in metrics.registry.collect() for sample in family.samples if "bin" in sample.labels
    }
    assert bins == {"^0", "^1", "00", "01", "10", "11", "1", "2"}
    assert (
        metrics.registry.get_sample_value("streamproc_padding_headroom_rows", {"study": study.name, "release": "w"}) is None
    )


def test_the_gauge_of_the_horizon_is_not_there_until_a_study_without_one_ends() -> None:
    def horizon(metrics: OperatorMetrics) -> float | None:
        return metrics.registry.get_sample_value("streamproc_horizon_periods", {"study": "poverty"})

    known, unknown = OperatorMetrics("poverty"), OperatorMetrics("poverty")
    known.show_study(12, 4)
    unknown.show_study(None, 4)
    assert (horizon(known), horizon(unknown)) == (12, None)
    unknown.show_end(31)
    assert horizon(unknown) == 31
