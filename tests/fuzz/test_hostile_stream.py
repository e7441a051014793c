"""A stream of broken records through a real gatherer: each is a reject that says where and why, tallies are the model's."""

from __future__ import annotations

import asyncio
from random import Random

import msgpack

from streamproc.privacy.types import Period
from streamproc.protocol.ledger import StudyRecord
from streamproc.protocol.rejects import Reason
from streamproc.protocol.reports import encode_report
from streamproc.study.fingerprint import public_values
from streamproc.testing import in_virtual_time
from tests.fuzz import mutators, seeds
from tests.stream_model.reference_model import Model, rejected_reports
from tests.stream_model.simulated_study import SimulatedStudy
from tests.studies import build_study

MARK = "MARKED-PERSON"
BROKEN = 400


def hostile(rng: Random) -> list[bytes]:
    """Reports that mean well between what a fuzzer makes of them, and of a person whose name must never be seen."""
    good = [encode_report(f"p{rng.randrange(20)}", rng.randint(1, 3), rng.choice("abc")) for _ in range(BROKEN)]
    bad = [mutators.of_message(rng.choice(seeds.reports()), rng) for _ in range(BROKEN)]
    marked = [mutators.of_bytes(encode_report(MARK, 1, "RARE-SYMBOL"), rng) for _ in range(BROKEN // 4)]
    deep = [
        b"\x91" * 5_000,
        b"\xdd\xff\xff\xff\xff",
        b"",
        b"\xc1",
        bytes(100),
        msgpack.packb({"v": 1, "id": MARK, "t": [[]]}),
    ]
    values = [*good, *bad, *marked, *deep]
    rng.shuffle(values)
    return values


async def gathered(values: list[bytes]) -> SimulatedStudy:
    study = build_study(horizon=3, partitions=1, alphabet="abc")
    simulated = await SimulatedStudy(study).begin()
    begun = StudyRecord(public_values(study), simulated.fingerprint, insecure=True).encode()
    await simulated.log.append(simulated.topics.ledger, 0, begun)
    gatherer = asyncio.create_task(simulated.gatherer(0).run())
    for period in range(1, 4):
        part = values[(period - 1) * len(values) // 3 : period * len(values) // 3]
        await simulated.log.append_many(simulated.topics.reports, 0, [(None, value) for value in part])
        await simulated.close_period(Period(period))
        await simulated.clock.sleep(5)
    await gatherer
    return simulated


def test_every_broken_record_is_a_reject_and_the_tallies_are_those_of_the_model() -> None:
    simulated = in_virtual_time(gathered(hostile(Random(5))))

    records = [(stored.offset, stored.value) for stored in simulated.broker.partition(simulated.topics.reports, 0).stored]
    ends = [cut.ends[0] for cut in simulated.cuts()]
    model = Model(simulated.study, 0, None, records, ends)
    found = [simulated.tallies()[0, period] for period in (1, 2, 3)]
    assert [({name: counts.tolist() for name, counts in tally.counts.items()}, tally.people) for tally in found] == [
        (closed.counts, closed.people) for closed in model.tallies()
    ]
    rejects = simulated.rejects()
    assert rejected_reports(rejects) == model.rejected()
    assert all(reject.partition == 0 and set(reject.by_reason) <= model.true_reasons()[reject.offset] for reject in rejects)
    assert sum(reject.reason is Reason.UNDECODABLE for reject in rejects) > BROKEN // 4
    assert sum(tally.people for tally in found) > 0


def test_rejects_of_broken_records_say_nothing_of_what_was_in_them() -> None:
    simulated = in_virtual_time(gathered(hostile(Random(6))))

    said = (
        b"".join(value or b"" for value in simulated.committed(simulated.topics.rejects))
        + repr(simulated.observer.events).encode()
    )
    assert MARK.encode() not in said
    assert b"RARE" not in said
    keys = {key for value in simulated.committed(simulated.topics.rejects) for key in msgpack.unpackb(value)}
    assert keys == {"v", "type", "partition", "offset", "reason", "counts"}
