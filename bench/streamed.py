"""A study whose reports are all sent and whose periods are all closed, waiting to be gathered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamproc.log.control_topic import append_cut
from streamproc.log.port import Log
from streamproc.log.topic_setup import set_up_topics
from streamproc.privacy.types import Period
from streamproc.protocol.ledger import StudyRecord
from streamproc.protocol.reports import encode_batches, encode_report
from streamproc.service.deployment import Deployment
from streamproc.study.fingerprint import fingerprint, public_values

_CHUNK = 10_000
"""Records sent at once."""


@dataclass(frozen=True)
class Plan:
    """What is sent: everybody reports once in every period, in an order of its own."""

    name: str
    people: int
    periods: int
    packed: bool = False
    """Many reports to a record."""
    id_prefix: str = "person-"

    def study(self, url: str) -> str:
        """The study file: a window and a cumulative release, one partition."""
        return (
            f'[study]\nname = "{self.name}"\nalphabet = ["A", "B", "C", "D"]\nhorizon = {self.periods}\n'
            f"[population]\nsize = {self.people}\n[privacy]\nrho = 0.005\n"
            '[[release]]\nname = "recent"\nkind = "window"\nk = 2\n'
            '[[release]]\nname = "ever"\nkind = "cumulative"\nevent = ["C", "D"]\n'
            f'[broker]\nurl = "{url}"\npartitions = 1\n'
        )

    def deploy(self, url: str, folder: Path) -> Deployment:
        """The study as a file in this folder, with a state folder beside it."""
        path = folder / f"{self.name}.toml"
        path.write_text(self.study(url))
        return Deployment.of(path)

    def ids(self) -> list[str]:
        """Everybody."""
        return [f"{self.id_prefix}{row:08}" for row in range(self.people)]

    def records(self, ids: list[str], period: int) -> Iterator[tuple[bytes | None, bytes]]:
        """A period's reports, as keys and values."""
        rng = np.random.default_rng(period)
        shuffled = [ids[row] for row in rng.permutation(self.people).tolist()]
        symbols = rng.integers(4, size=self.people, dtype=np.uint8)
        if self.packed:
            for value in encode_batches(shuffled, np.full(self.people, period, dtype=np.uint16), symbols):
                yield None, value
        else:
            for individual, symbol in zip(shuffled, symbols.tolist(), strict=True):
                yield individual.encode(), encode_report(individual, period, "ABCD"[symbol])


async def fill(deployment: Deployment, plan: Plan) -> list[int]:
    """Begin the study, send every period's reports and close it; answers with the offset at which each period ends."""
    study, topics = deployment.study, deployment.topics
    ids = plan.ids()
    ends: list[int] = []
    async with deployment.connect() as log:
        await set_up_topics(log, study)
        record = StudyRecord(public_values(study), fingerprint(study, None), insecure=False)
        await log.append(topics.ledger, 0, record.encode())
        for period in range(1, plan.periods + 1):
            await send(log, topics.reports, plan.records(ids, period))
            await append_cut(log, study, Period(period))
            ends.append(await log.high_watermark(topics.reports, 0))
    return ends


async def send(log: Log, topic: str, records: Iterable[tuple[bytes | None, bytes]]) -> None:
    """Append records to partition 0."""
    everything = list(records)
    for start in range(0, len(everything), _CHUNK):
        await log.append_many(topic, 0, everything[start : start + _CHUNK])
