"""Metrics in two registries: what anybody may see, and what only the operator may.

The public one holds nothing but functions of public parameters and released data. Counts of reports, lag, rejects, sizes and
latencies are functions of private data: they are in the operator's registry only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streamproc.privacy.types import Epsilon, IntArray, Period, Rho
from streamproc.protocol.rejects import Reason
from streamproc.releases.kind import Contract


@dataclass(frozen=True)
class Spending:
    """One release as the study and its ledger show it."""

    rho: Rho
    """Its budget."""
    spent: Rho
    clamped: int
    """Counts ever moved by clamping."""


class StudyRegistry(CollectorRegistry):
    """A registry that adds the label `study` to every sample, those of the process included.

    Added here once, no metric can lack it. Prometheus keeps it where the scrape has `honor_labels: true`.
    """

    def __init__(self, study: str) -> None:
        super().__init__()
        self._study = study

    def collect(self) -> Iterator[Metric]:
        for metric in super().collect():
            metric.samples = [sample._replace(labels={**sample.labels, "study": self._study}) for sample in metric.samples]
            yield metric


class _OnceKnown(Collector):
    """A gauge that is not there until it has a value: any other would be taken for one."""

    def __init__(self, name: str, meaning: str, registry: CollectorRegistry) -> None:
        self._name, self._meaning = name, meaning
        self._value: float | None = None
        registry.register(self)

    def set(self, value: float) -> None:
        self._value = value

    def collect(self) -> Iterator[Metric]:
        if self._value is not None:
            yield GaugeMetricFamily(self._name, self._meaning, self._value)


class _ClampedBins(Collector):
    """A counter whose value comes from the ledger, so that it continues after a restart."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.by_release: dict[str, int] = {}
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily("streamproc_clamped_bins", "Counts moved by clamping so far", labels=["release"])
        for release, clamped in self.by_release.items():
            family.add_metric([release], clamped)
        yield family


PEOPLE_GAUGES = {
    "#present": "Open studies: synthetic people who are present after the last period",
    "#entered": "Open studies: synthetic people who entered in the last period",
    "#left": "Open studies: synthetic people who left in the last period",
}
"""For the label of each count that every release of an open study has, the meaning of its gauge."""


class PublicMetrics:
    """What the public listener shows."""

    def __init__(self, study: str) -> None:
        self.version = 0
        """Grows with every change, so that the metrics are encoded once for each."""
        self.registry = StudyRegistry(study)
        registry = self.registry
        self._budget = Gauge("streamproc_budget_rho", "Budget in zCDP", ["release"], registry=registry)
        self._spent = Gauge("streamproc_budget_spent_rho", "Spent so far in zCDP", ["release"], registry=registry)
        self._epsilon = _OnceKnown("streamproc_epsilon_spent", "Spent so far as epsilon at the study's delta", registry)
        self._periods = _OnceKnown("streamproc_periods_released", "Last period released", registry)
        self._bins = Gauge("streamproc_bin_rows", "Released count, padding included", ["release", "bin"], registry=registry)
        self._padding = Gauge("streamproc_padding_rows", "Padding in that bin", ["release", "bin"], registry=registry)
        self._headroom = Gauge("streamproc_padding_headroom_rows", "The smallest bin", ["release"], registry=registry)
        self._clamped = _ClampedBins(registry)
        self._people = {
            label: Gauge(f"streamproc_{label.removeprefix('#')}_people", meaning, ["release"], registry=registry)
            for label, meaning in PEOPLE_GAUGES.items()
        }
        self._labels: dict[str, set[str]] = {}
        """The bins of each release that are shown."""

    def show_spending(self, period: int, epsilon: Epsilon, releases: Mapping[str, Spending]) -> None:
        """What the ledger says after `period`."""
        self._periods.set(period)
        self._epsilon.set(epsilon)
        for name, spending in releases.items():
            self._budget.labels(name).set(spending.rho)
            self._spent.labels(name).set(spending.spent)
            self._clamped.by_release[name] = spending.clamped
        self.version += 1

    def show_counts(self, contract: Contract, period: Period, counts: IntArray) -> None:
        """The released counts of a release at `period`, the last one with a column."""
        name, padding = contract.name, contract.padding(period)
        if padding:
            self._headroom.labels(name).set(int(counts.min()))
        shown = dict(zip(contract.labels(period), counts.tolist(), strict=True))
        if contract.is_open:
            for label, gauge in self._people.items():
                gauge.labels(name).set(shown.pop(label))
        for label in self._labels.get(name, set()) - shown.keys():  # windows grow until they are full
            self._bins.remove(name, label)
            self._padding.remove(name, label)
        self._labels[name] = set(shown)
        for label, count in shown.items():
            self._bins.labels(name, label).set(count)
            self._padding.labels(name, label).set(padding)
        self.version += 1


class OperatorMetrics:
    """What only the operator's listener shows."""

    def __init__(self, study: str) -> None:
        self.registry = StudyRegistry(study)
        registry = self.registry
        self.gathering = Gauge("streamproc_gathering", "1 while this process gathers it", ["partition"], registry=registry)
        self.reports = Counter("streamproc_reports", "Records read from the reports topic", ["partition"], registry=registry)
        self.rejects = Counter("streamproc_rejects", "Reports rejected", ["partition", "reason"], registry=registry)
        self.lag = Gauge("streamproc_lag_records", "Records not read yet", ["partition"], registry=registry)
        self.people = Gauge("streamproc_people", "Rows in the gatherer's state", ["partition"], registry=registry)
        self.settled = Gauge("streamproc_period_settled", "Last period settled", ["partition"], registry=registry)
        self.state_bytes = Gauge("streamproc_state_bytes", "Size of the last checkpoint", ["state"], registry=registry)
        self.release_seconds = Histogram(
            "streamproc_release_seconds",
            "Time from a period's last tally to its release, without the wait for its release time",
            registry=registry,
        )
        self.watermark = Gauge("streamproc_watermark", "Last period tallied by every partition", registry=registry)
        self._released = _OnceKnown("streamproc_released_period", "Last period released, as this process read it", registry)
        self.held = Gauge("streamproc_held_period", "Period that waits for its release time; 0: none", registry=registry)
        self.fenced = Counter("streamproc_fenced", "Times the synthesizer was fenced", registry=registry)
        self.refused = Gauge("streamproc_refused", "1 if the role refused to go on", registry=registry)
        self.troubles = Counter("streamproc_troubles", "Times the broker was away or an outcome unknown", registry=registry)
        self._ready = Gauge("streamproc_ready", "1 if the process does its work, as /readyz says", registry=registry)
        self._away = Gauge("streamproc_broker_away", "1 while a part of the process waits for the broker", registry=registry)
        self._horizon = _OnceKnown("streamproc_horizon_periods", "Periods the study has in all", registry)
        self._partitions = Gauge("streamproc_partitions", "Partitions the study has in all", registry=registry)
        self._due = _OnceKnown(
            "streamproc_next_release_timestamp_seconds",
            "When the schedule releases the first period that is not released; +Inf without a schedule, and after the last",
            registry,
        )
        ProcessCollector(registry=registry)

    def show_study(self, horizon: int | None, partitions: int) -> None:
        """What does not change. Without a horizon its gauge is not there until `show_end`."""
        if horizon is not None:
            self._horizon.set(horizon)
        self._partitions.set(partitions)

    def show_end(self, period: int) -> None:
        """That the study is over, with this period as its last."""
        self._horizon.set(period)

    def show_process(self, *, ready: Callable[[], bool], away: Callable[[], bool]) -> None:
        """Whether the process is ready, and whether it waits for the broker: asked for each time they are shown."""
        self._ready.set_function(lambda: float(ready()))
        self._away.set_function(lambda: float(away()))

    def show_released(self, period: int) -> None:
        """The last period in the ledger that this process read, without regard to what a status page shows."""
        self._released.set(period)

    def show_due(self, at: datetime | None) -> None:
        """When the next period is to be released by the schedule; None if none is."""
        self._due.set(math.inf if at is None else at.timestamp())

    def begin(self, partition: int) -> None:
        """Count from zero for a partition gathered here from now on: Prometheus sees no rise in a counter's first value."""
        self.gathering.labels(partition).set(1)
        self.reports.labels(partition)
        for reason in Reason:
            self.rejects.labels(partition, reason.value)

    def forget(self, partition: int) -> None:
        """Remove the gauges of a partition that this process does not gather any more. Counters stay."""
        shown = ((gauge, partition) for gauge in (self.gathering, self.lag, self.people, self.settled))
        for gauge, label in (*shown, (self.state_bytes, f"gather-{partition}")):
            with suppress(KeyError):
                gauge.remove(label)
