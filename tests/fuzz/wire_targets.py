"""The decoders of the topics: single records, and whole topics through those who put records together."""

from __future__ import annotations

from contextlib import suppress

from streamproc.errors import LedgerConflict, Malformed, VerificationFailed
from streamproc.gatherer.byte_hash_table import ByteHashTable
from streamproc.gatherer.logic import GathererLogic, PartitionContext
from streamproc.panel import column_packing as packing
from streamproc.privacy.types import Period
from streamproc.protocol import codec as message
from streamproc.protocol.columns import (
    ColumnAssembler,
    ColumnChunk,
    ContractRecord,
    LongContract,
    MatrixChunk,
    decode_contract,
    decode_synthetic,
)
from streamproc.protocol.control import Cut, CutSequence, decode_control
from streamproc.protocol.ledger import decode_ledger, decode_measurement, decode_study_record
from streamproc.protocol.ledger_verifier import LedgerVerifier, verify_chain
from streamproc.protocol.rejects import decode_reject
from streamproc.protocol.reports import (
    MAX_ID,
    ByteStrings,
    ReportBatch,
    decode_any,
    encode_report,
    home_partition,
    murmur2,
    split_reports,
    tail_of,
)
from streamproc.protocol.snapshots import SnapshotChunk, decode_snapshot, pack_gaps, unpack_gaps
from streamproc.protocol.tallies import Tally, TallyAssembler, decode_tally
from tests.fuzz import mutators, seeds
from tests.fuzz.trial import MIB, Bound, Target
from tests.protocol.examples import CONTRACTS
from tests.stream_model.open_study import published
from tests.stream_model.reference_model import Closed, Model, rejected_reports
from tests.stream_model.report_sequences import LogRecord

RECORD = Bound(32, 4 * MIB)
"""As the wire format's page has it, for one record."""

MANY = Bound(64, 4 * MIB)
"""Of what many records are put together from: each is decoded, and what came of it is kept."""

TAILS = {tail_of(period, symbol): (period, symbol) for period in (1, 2, 3) for symbol in "ab"}
PARTITIONS = 3
_SOME = 40
"""Records of an input; more of them say nothing new, and take long."""


def _report(data: bytes) -> None:
    decoded = decode_any(data)
    if not isinstance(decoded, ReportBatch):
        individual, period, symbol = decoded
        assert decode_any(encode_report(individual, period, symbol)) == decoded


def _report_parts(data: bytes) -> None:
    """The fast classification agrees with decoding."""
    values = mutators.frames(data)
    ids, tails = split_reports(ByteStrings.of(values))
    for index, value in enumerate(values):
        tail = _span(tails, index)
        if tail in TAILS:
            individual = _span(ids, index)
            # Nobody is known by an id that is no UTF-8, so the whole record is decoded, and rejected.
            with suppress(UnicodeDecodeError):
                assert decode_any(value) == (individual.decode(), *TAILS[tail])
    lookup = ByteHashTable(bytes(32))
    lookup.put(ids, ids.lengths)
    found = lookup.find(ids)
    assert all(found[index] in (-1, ids.lengths[index]) for index in range(len(values)))


def _span(spans: ByteStrings, index: int) -> bytes:
    return spans.data[spans.starts[index] : spans.ends[index]]


def _home(data: bytes) -> None:
    texts = [value.decode("utf-8", "replace")[:MAX_ID] for value in mutators.frames(data)[:_SOME]]
    assert all(0 <= home_partition(text, PARTITIONS) < PARTITIONS for text in texts)
    assert all(0 <= murmur2(text.encode()) < 2**32 for text in texts)


def _gathering(data: bytes) -> None:
    """Whatever records hold, tallies and rejects are those of the model."""
    study, values = seeds.left().study, mutators.frames(data)[:_SOME]
    lines = [LogRecord(offset, value) for offset, value in enumerate(values)]
    ends = [len(values) // 2, len(values), len(values)]
    gathering = GathererLogic(PartitionContext(study, 0, bytes(32)))
    gathering.ingest(lines[: ends[0]])
    for period, end in enumerate(ends, start=1):
        gathering.add_cut(Cut(Period(period), (end,)))
    gathering.ingest(lines[ends[0] :])
    tallies = gathering.close_periods(len(values))
    model = Model(study, 0, None, [(line.offset, line.value) for line in lines], ends)
    counted = [Closed(t.people, {name: counts.tolist() for name, counts in t.counts.items()}) for t in tallies]
    assert counted == model.tallies()
    assert rejected_reports(gathering.drain_rejects()) == model.rejected()


def _cuts(data: bytes) -> None:
    sequence = CutSequence(1, 3)
    for value in mutators.frames(data):
        try:
            decoded = decode_control(value)
        except Malformed:
            continue
        if isinstance(decoded, Cut):
            sequence.offer(decoded)
    ends = [cut.ends[0] for cut in sequence.cuts]
    assert ends == sorted(ends)
    assert [cut.period for cut in sequence.cuts] == list(range(1, len(ends) + 1))


def _tallies(data: bytes) -> None:
    assembler = TallyAssembler()
    for value in mutators.frames(data):
        tally = assembler.add(decode_tally(value))
        if isinstance(tally, Tally):
            assert [decode_tally(part).digest for part in tally.encode()] == [part.digest for part in tally.chunks]


def _synthetic(data: bytes) -> None:
    decoded = decode_synthetic(data)
    if isinstance(decoded, ColumnChunk):
        assert len(decoded.symbols()) == decoded.rows
    elif isinstance(decoded, MatrixChunk):
        assert decode_synthetic(decoded.encode()) == decoded
    elif isinstance(decoded, ContractRecord):
        again, _ = _begun([decode_synthetic(value) for value in decoded.encode()])
        assert again.encode() == decoded.encode()
    elif isinstance(decoded, SnapshotChunk):
        assert decode_synthetic(decoded.encode()) == decoded
        assert pack_gaps(unpack_gaps(decoded.numbers, decoded.rows)) == decoded.numbers


_Synthetic = ContractRecord | LongContract | MatrixChunk | ColumnChunk | SnapshotChunk


def _begun(records: list[_Synthetic]) -> tuple[ContractRecord, list[_Synthetic]]:
    """The contract with which a topic begins, and the records after it."""
    first, rest = (records[0], records[1:]) if records else (None, [])
    if isinstance(first, ContractRecord):
        return first, rest
    if isinstance(first, LongContract):
        for place, chunk in enumerate(rest, start=1):
            if not isinstance(chunk, MatrixChunk):
                break
            if (complete := first.add(chunk)) is not None:
                return complete, rest[place:]
    raise Malformed("a topic begins with its contract")


def _columns(data: bytes) -> None:
    first, rest = _begun([decode_synthetic(value) for value in mutators.frames(data)])
    assembler = ColumnAssembler(first)
    for chunk in rest:
        if isinstance(chunk, ColumnChunk | SnapshotChunk):
            column = assembler.add(chunk)
            assert column is None or first.contract.is_open or len(column.symbols) == first.n_star


def _chain(data: bytes) -> None:
    ledger = verify_chain(mutators.frames(data))
    if ledger is not None:
        spent = [record.rho_spent for record in ledger.periods]
        assert spent == sorted(spent)


def _records() -> list[bytes]:
    return [mutators.framed(seeds.reports()), mutators.framed(seeds.left().topics["reports"])]


_RECORD = (mutators.of_message, (Malformed,), RECORD)

WIRE_TARGETS = (
    Target(
        "report",
        (decode_any, ReportBatch, message.unpack_any, message.tree),
        _report,
        lambda: [*seeds.examples_of("report", "reports"), *seeds.topic("reports")],
        *_RECORD,
    ),
    Target(
        "report-parts",
        (split_reports, ByteStrings, ByteHashTable),
        _report_parts,
        _records,
        mutators.of_records,
        (Malformed,),
        MANY,
    ),
    Target("home", (home_partition, murmur2), _home, _records, mutators.of_records, (), MANY),
    Target("gathering", (GathererLogic.ingest, tail_of), _gathering, _records, mutators.of_records, (), Bound(256, 4 * MIB)),
    Target(
        "control",
        (decode_control, message.unpack),
        decode_control,
        lambda: [*seeds.examples_of("key", "cut"), *seeds.topic("control")],
        *_RECORD,
    ),
    Target("cuts", (CutSequence,), _cuts, lambda: seeds.whole_topics("control"), mutators.of_records, (), MANY),
    Target("tally", (decode_tally,), decode_tally, lambda: seeds.examples_of("tally-1", "tally-2"), *_RECORD),
    Target(
        "tallies",
        (TallyAssembler,),
        _tallies,
        lambda: seeds.whole_topics("tallies"),
        mutators.of_records,
        (Malformed,),
        MANY,
    ),
    Target("reject", (decode_reject,), decode_reject, lambda: seeds.examples_of("reject"), *_RECORD),
    Target(
        "synthetic",
        (decode_synthetic, decode_contract, decode_snapshot, packing.unpack_symbols, unpack_gaps),
        _synthetic,
        lambda: [
            *seeds.examples_of(*CONTRACTS, "matrices", "column-1-bit", "column-2-bits", "column-open", "snapshot"),
            *(value for release in seeds.left().study.releases for value in seeds.topic(f"synthetic.{release.name}")),
            *(value for records in seeds.contract_records() for value in records),
        ],
        *_RECORD,
    ),
    Target(
        "columns",
        (ColumnAssembler, LongContract),
        _columns,
        lambda: [
            *seeds.whole_topics(*(f"synthetic.{release.name}" for release in seeds.left().study.releases)),
            *(mutators.framed(records) for records in seeds.divided_contracts()),
            *(mutators.framed(records) for records in published().columns.values()),
        ],
        mutators.of_records,
        (Malformed, VerificationFailed),
        MANY,
    ),
    Target(
        "ledger",
        (decode_ledger, decode_measurement),
        decode_ledger,
        lambda: [
            *seeds.examples_of("study", "intent", "measurement", "period", "study-open", "period-last", "period-summary"),
            *seeds.topic("ledger"),
        ],
        *_RECORD,
    ),
    Target(
        "study-record",
        (decode_study_record,),
        lambda data: decode_study_record("ledger", data),
        lambda: seeds.examples_of("study"),
        mutators.of_message,
        (LedgerConflict,),
        RECORD,
    ),
    Target(
        "chain",
        (verify_chain, LedgerVerifier),
        _chain,
        lambda: [*seeds.ledgers(), mutators.framed(published().ledger)],
        mutators.of_ledger,
        (VerificationFailed,),
        MANY,
    ),
)
