"""Hypothesis strategies for studies, for the records of one partition, and for the order in which a gatherer reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgpack
import numpy as np
from hypothesis import strategies as st

from streamproc.protocol.reports import ReportBatch, encode_report
from streamproc.study import CumulativeRelease, Missing, Population, Study, WindowRelease
from tests.studies import build_study

ALPHABET = ("a", "b", "c")
IDS = (*(f"p{number}" for number in range(6)), "ö" * 20, "l" * 31, "l" * 300)
WRONG_SYMBOLS = ("", "d", "A", "aa")

Action = Literal["ingest", "learn", "settle", "resume"]


@dataclass(frozen=True)
class LogRecord:
    """One record of a log, as a gatherer reads it."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    timestamp: int = 0


@dataclass(frozen=True)
class ReportSequence:
    study: Study
    partition: int
    roster: Sequence[str] | None
    records: Sequence[LogRecord]
    ends: Sequence[int]
    """Where each period ends that is closed."""
    position: int
    """Where a reader stands that has read everything."""
    eager: bool = False
    """Whether it settles after everything it does."""
    actions: Sequence[tuple[Action, int]] = field(default=())
    """What happens in which order; the number says how many records or cuts, or, if odd, that a resume forgets the cuts."""


@st.composite
def studies(draw: st.DrawFn) -> Study:
    horizon = draw(st.integers(1, 4))
    population = Population(
        initial=draw(st.sampled_from(ALPHABET)),
        size=draw(st.none() | st.integers(1, 4)),
        missing=Missing(draw(st.none() | st.sampled_from(ALPHABET))),
        duplicates=draw(st.sampled_from(["first", "last"])),
        ahead=draw(st.none() | st.integers(1, 3)),
    )
    windows = [WindowRelease(f"w{k}", k) for k in range(1, min(3, horizon) + 1)]
    some = draw(st.lists(st.sampled_from(windows), unique=True))
    return build_study(
        *some,
        CumulativeRelease("c", event=("b", "c")),
        horizon=horizon,
        partitions=draw(st.integers(1, 3)),
        population=population,
        alphabet=ALPHABET,
    )


@st.composite
def values_of(draw: st.DrawFn, study: Study) -> bytes | None:
    """The value of one record: mostly a report that means well."""
    ids = st.sampled_from(IDS)
    periods = st.integers(1, study.last_period)
    kind = draw(st.sampled_from(["good"] * 6 + ["odd", "batch", "batch", "broken"]))
    if kind == "good":
        report = draw(ids), draw(periods), draw(st.sampled_from(ALPHABET))
        return draw(st.sampled_from([encode_report, encode_report, unusually_encoded]))(*report)
    if kind == "odd":
        strange = st.sampled_from([0, -1, study.last_period + 1, 65_536, 2**63 - 1, -(2**63)])
        return encode_report(draw(ids), draw(periods | strange), draw(st.sampled_from(ALPHABET + WRONG_SYMBOLS)))
    if kind == "batch":
        packed = st.tuples(ids, st.integers(0, study.last_period + 1), st.sampled_from([0, 1, 2, 0, 1, 2, 3, 255]))
        batch = draw(st.lists(packed, min_size=1, max_size=5))
        names, times, symbols = zip(*batch, strict=True)
        return ReportBatch(names, np.array(times, dtype=np.uint16), np.array(symbols, dtype=np.uint8)).encode()
    whole = encode_report(draw(ids), draw(periods), draw(st.sampled_from(ALPHABET)))
    place = draw(st.integers(0, len(whole) - 1))
    return draw(
        st.none()
        | st.binary(max_size=8)
        | st.sampled_from([whole[:place], whole + whole[place:]])
        | st.binary(min_size=1, max_size=1).map(lambda byte: whole[:place] + byte + whole[place + 1 :])
    )


def unusually_encoded(individual: str, period: int, symbol: str) -> bytes:
    """A report that nobody of us would write like that, but which is one."""
    value: bytes = msgpack.packb({"s": symbol, "more": 1, "t": period, "id": individual, "v": 1})
    return value


@st.composite
def report_sequences(draw: st.DrawFn) -> ReportSequence:
    study = draw(studies())
    values = draw(st.lists(values_of(study), max_size=40))
    # Offsets have gaps where transaction markers and aborted records stand.
    gaps = draw(st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=len(values) + 1, max_size=len(values) + 1))
    offsets = np.cumsum(np.array(gaps) + 1)
    records = [LogRecord(offset, value) for offset, value in zip(offsets[:-1].tolist(), values, strict=True)]
    position = int(offsets[-1])
    ends = sorted(draw(st.lists(st.integers(0, position), max_size=study.last_period, min_size=study.last_period)))
    closed = draw(st.sampled_from([study.last_period, study.last_period, draw(st.integers(0, study.last_period))]))
    roster = draw(st.none() | st.permutations(IDS).map(lambda ids: tuple(ids[:6])))
    kinds: list[Action] = ["ingest", "ingest", "learn", "settle", "resume"]
    action = st.tuples(st.sampled_from(kinds), st.integers(0, 9))
    actions = draw(st.lists(action, max_size=25))
    partition = draw(st.integers(0, study.broker.partitions - 1))
    return ReportSequence(study, partition, roster, records, ends[:closed], position, draw(st.booleans()), actions)


def large_report_sequence(seed: int) -> ReportSequence:
    """Hundreds of records of dozens of people, some more than the partition admits; quick to make, the same for a seed."""
    rng = np.random.default_rng(seed)
    horizon, partitions = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    people = [f"person-{number}" for number in range(int(rng.integers(5, 60)))]
    population = Population(
        initial="b",
        size=int(rng.integers(5, 40)),
        missing=Missing(None if rng.random() < 0.5 else "c"),
        duplicates="first" if rng.random() < 0.5 else "last",
        ahead=None if seed % 2 else int(rng.integers(1, 4)),
    )
    study = build_study(
        WindowRelease("w", 2),
        CumulativeRelease("c", ("c",)),
        alphabet=ALPHABET,
        horizon=horizon,
        partitions=partitions,
        population=population,
    )

    def report() -> tuple[str, int, int]:
        period = int(rng.integers(0, horizon + 2)) if rng.random() < 0.1 else int(rng.integers(1, horizon + 1))
        return str(rng.choice(people)), period, int(rng.integers(0, 4 if rng.random() < 0.1 else 3))

    def value() -> bytes | None:
        if rng.random() < 0.05:
            return rng.bytes(12)
        if rng.random() < 0.2:
            names, times, symbols = zip(*[report() for _ in range(int(rng.integers(1, 30)))], strict=True)
            return ReportBatch(names, np.array(times, dtype=np.uint16), np.array(symbols, dtype=np.uint8)).encode()
        individual, period, symbol = report()
        return encode_report(individual, period, "abc?"[symbol])

    offsets = np.cumsum(rng.integers(1, 3, size=int(rng.integers(50, 300)))).tolist()
    records = [LogRecord(offset, value()) for offset in offsets[:-1]]
    ends = sorted(rng.integers(0, offsets[-1] + 1, size=horizon).tolist())
    roster = tuple(people[::2]) if rng.random() < 0.3 else None
    kinds: list[Action] = ["ingest", "ingest", "ingest", "learn", "settle", "resume"]
    actions: list[tuple[Action, int]] = [
        (kind, int(rng.integers(0, 2 if kind == "learn" else 40))) for kind in rng.choice(np.array(kinds), size=30)
    ]
    return ReportSequence(
        study, int(rng.integers(partitions)), roster, records, ends, offsets[-1], bool(rng.integers(2)), actions
    )
