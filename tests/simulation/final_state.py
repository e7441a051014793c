"""The state at the end of a run for the checker: the decoded topics, and what the reference model computes from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np

from streamproc.privacy.types import IntArray
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.kind import Contract
from streamproc.study import Study
from tests.simulation.cluster import Cluster
from tests.simulation.history import ObservedColumns
from tests.simulation.records import Line
from tests.stream_model.reference_model import Closed, Model


class FinalState:
    """The final state of a cluster. Create it when the run is over."""

    def __init__(self, cluster: Cluster, observed: ObservedColumns) -> None:
        self.cluster = cluster
        self.workload = cluster.workload
        self.study = cluster.study
        self.records = cluster.records
        self.seen = observed.columns

    @cached_property
    def ledger(self) -> Sequence[Line]:
        """The records of the ledger as a read_committed consumer sees them."""
        return self.records.ledger()

    @cached_property
    def released(self) -> int:
        """The last period with a ledger record."""
        return max((line.fields["period"] for line in self.ledger if line.fields["type"] == "period"), default=0)

    @cached_property
    def announced(self) -> Mapping[int, set[bytes]]:
        """For each period, the draws that were announced."""
        announced: dict[int, set[bytes]] = defaultdict(set)
        for line in self.ledger:
            if line.fields["type"] == "intent":
                announced[line.fields["period"]].add(line.fields["digest"])
        return announced

    @cached_property
    def cuts(self) -> list[list[int]]:
        """Where each closed period ends, in each partition."""
        return self.records.cuts()

    @cached_property
    def models(self) -> Sequence[Model]:
        """The reference model of each partition."""
        return [self.model(partition, self.records.reports(partition)) for partition in range(self.study.broker.partitions)]

    def model(self, partition: int, records: Sequence[tuple[int, bytes | None]]) -> Model:
        """Return the reference model of a partition with these records."""
        return Model(self.study, partition, self.workload.roster, records, [ends[partition] for ends in self.cuts])

    @cached_property
    def tallies(self) -> Mapping[tuple[int, int], Closed]:
        """The tallies of the reference model by partition and period."""
        return {
            (partition, period): closed
            for partition, model in enumerate(self.models)
            for period, closed in enumerate(model.tallies(), start=1)
        }

    @cached_property
    def people(self) -> int:
        """`n`, the number of individuals in the study."""
        return sum(len(model.members) for model in self.models) if self.cuts else 0

    @cached_property
    def contracts(self) -> Mapping[str, Contract]:
        """The contract of every release; empty if the study has no individuals."""
        return _contracts(self.study, self.people) if self.people else {}

    @cached_property
    def columns(self) -> Mapping[str, Mapping[int, IntArray]]:
        """The columns by release and period, unpacked from the chunks that a read_committed consumer sees."""
        return {release.name: _columns(self.records.synthetic(release.name)) for release in self.study.releases}


def _columns(lines: Sequence[Line]) -> dict[int, IntArray]:
    parts: dict[int, list[IntArray]] = defaultdict(list)
    for line in lines:
        fields = line.fields
        if fields["type"] == "column":
            bits = np.unpackbits(np.frombuffer(fields["data"], dtype=np.uint8)).reshape(-1, fields["bits"])
            symbols = bits @ (1 << np.arange(fields["bits"])[::-1])
            parts[fields["period"]].append(symbols[: fields["rows"]].astype(np.int64))
    return {period: np.concatenate(chunks) for period, chunks in parts.items()}


@lru_cache(maxsize=4096)
def _contracts(study: Study, people: int) -> Mapping[str, Contract]:
    return stated_contracts(study, people, insecure=True)
