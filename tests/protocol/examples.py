"""One small example of every message, the same as on the page, with the decoder of its topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamproc.panel.column_packing import column_digest
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.automaton import Automaton, event_counter, spell_counter
from streamproc.privacy.counters import tree_counter
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.flow import FlowMechanism
from streamproc.privacy.open_automaton import open_windows
from streamproc.privacy.open_flow import OpenFlowMechanism
from streamproc.privacy.types import Period, Rho
from streamproc.privacy.window import WindowPaperMechanism
from streamproc.privacy.window_flow import WindowFlowMechanism
from streamproc.protocol.columns import ContractRecord, MatrixChunk, NewRows, column_chunks, decode_synthetic
from streamproc.protocol.control import Cut, Key, decode_control
from streamproc.protocol.ledger import (
    Intent,
    PeriodRecord,
    ReleasePeriod,
    ReleaseSummary,
    StudyRecord,
    Summary,
    decode_ledger,
    digest,
    measurement_chunks,
    measurements_digest,
)
from streamproc.protocol.rejects import Reason, Reject, decode_reject
from streamproc.protocol.reports import ReportBatch, decode_any, encode_report
from streamproc.protocol.snapshots import snapshot_chunks, snapshot_digest
from streamproc.protocol.tallies import Tally, decode_tally
from streamproc.releases.cumulative import CumulativeContract
from streamproc.releases.cumulative_paper import CumulativePaperContract
from streamproc.releases.open_kinds import OpenWindowContract
from streamproc.releases.pattern import PatternContract
from streamproc.releases.spell import SpellContract
from streamproc.releases.step import PresentPeople
from streamproc.releases.window_flow import WindowFlowContract
from streamproc.releases.window_paper import WindowPaperContract
from streamproc.study.pattern import compile_pattern

DECODERS: tuple[Callable[[bytes | None], Any], ...] = (
    decode_any,
    decode_control,
    decode_tally,
    decode_reject,
    decode_synthetic,
    decode_ledger,
)


@dataclass(frozen=True)
class Example:
    """A record's value and how it is read."""

    encoded: bytes
    decode: Callable[[bytes | None], Any]


def flow_mechanism(automaton: Automaton, *matrices: list[list[int]]) -> FlowMechanism:
    """A mechanism over as many periods as there are matrices."""
    arrays = tuple(np.array(matrix, dtype=np.int64) for matrix in matrices)
    return FlowMechanism(automaton, len(arrays), Adjacency.REPLACE_ONE, arrays, 70000.5)


QUARTERLY = ContractRecord(
    WindowFlowContract(
        name="quarterly",
        alphabet=("0", "1"),
        n=1000,
        n_pad=250,
        rho=Rho(0.0025),
        mechanism=WindowFlowMechanism(2, 1, 2, Adjacency.REPLACE_ONE, (0.000625, 0.0005)),
        insecure=False,
    ),
    n_star=1500,
)

PAPER_QUARTERLY = ContractRecord(
    WindowPaperContract(
        name="quarterly",
        alphabet=("0", "1"),
        n=1000,
        n_pad=250,
        rho=Rho(0.0025),
        mechanism=WindowPaperMechanism(2, 1, 2, Adjacency.REPLACE_ONE, 56.5),
        insecure=False,
    ),
    n_star=1497,
)

MONTHS_POOR = ContractRecord(
    CumulativeContract(
        name="months-poor",
        alphabet=("0", "1"),
        event=("1",),
        n=10,
        rho=Rho(0.0025),
        mechanism=flow_mechanism(event_counter(2), [[-100, 100]], [[-90, 90, 30, -30], [0, 0, -80, 80]]),
        insecure=False,
    ),
    n_star=10,
)

PAPER_MONTHS_POOR = ContractRecord(
    CumulativePaperContract(
        name="months-poor",
        alphabet=("0", "1"),
        event=("1",),
        n=10,
        rho=Rho(0.0025),
        mechanism=CumulativeMechanism(tree_counter(2), Adjacency.REPLACE_ONE, (70000.5, 58000.25)),
        insecure=False,
    ),
    n_star=10,
)

LONG_SPELLS = ContractRecord(
    SpellContract(
        name="long-spells",
        alphabet=("0", "1"),
        event=("1",),
        n=10,
        rho=Rho(0.0025),
        mechanism=flow_mechanism(spell_counter(1), [[-100, 100]], [[-90, 90, 30, -30], [0, 0, -80, 80]]),
        insecure=False,
    ),
    n_star=10,
)

EVER_TWICE = ContractRecord(
    PatternContract(
        name="ever-twice",
        alphabet=("0", "1"),
        pattern="11",
        n=10,
        rho=Rho(0.0025),
        mechanism=flow_mechanism(
            Automaton.of_table(compile_pattern("11", ("0", "1"))), [[-100, 100]], [[-90, 90, 30, -30], [0, 0, -80, 80]]
        ),
        insecure=False,
    ),
    n_star=10,
)

VISITS = ContractRecord(
    OpenWindowContract(
        name="visits",
        alphabet=("0", "1"),
        k=1,
        rho=Rho(0.0025),
        mechanism=OpenFlowMechanism(
            open_windows(2, 1),
            2,
            Adjacency.ADD_REMOVE,
            np.array([[90, 0, 0, 0, 0], [0, 90, 0, 0, 0], [0, 0, 80, -80, 0], [0, 0, 40, 40, -70]]),
            70000.5,
        ),
        insecure=False,
        max_entrants=20,
    ),
    n_star=0,
)

CONTRACTS = {
    "contract-window": QUARTERLY,
    "contract-window-paper": PAPER_QUARTERLY,
    "contract-cumulative": MONTHS_POOR,
    "contract-cumulative-paper": PAPER_MONTHS_POOR,
    "contract-spell": LONG_SPELLS,
    "contract-pattern": EVER_TWICE,
    "contract-open": VISITS,
}
"""A contract of each kind and measure, each of one record."""

TALLY = Tally(
    partition=3,
    period=Period(1),
    people=5,
    counts={"quarterly": np.array([3, 2], dtype=np.int64), "months-poor": np.array([2, 0], dtype=np.int64)},
)

OPEN_TALLY = Tally(
    partition=0,
    period=Period(8),
    people=4,
    counts={"quarterly": np.array([1, 0, 0, 2, 1, 5], dtype=np.int64)},
    last=True,
)

COLUMN = np.array([1, 0, 0, 1, 1, 1, 0, 0, 1, 1], dtype=np.uint8)
WIDER_COLUMN = np.array([3, 0, 1, 2, 2], dtype=np.uint8)
MEASURED = [np.array([-7, 12], dtype=np.int64)]

STUDY = StudyRecord(
    {"name": "poverty", "horizon": 2, "alphabet": ["0", "1"], "rho": 0.005}, bytes(range(32)), insecure=False
)

PERIOD = PeriodRecord(
    period=Period(1),
    releases={
        "months-poor": ReleasePeriod(
            rho=Rho(0.0015),
            rho_spent=Rho(0.0015),
            clamped=1,
            n_star=10,
            columns=((Period(1), column_digest(COLUMN, 1)),),
            measurements=measurements_digest(MEASURED),
            contract=MONTHS_POOR.digest(),
        )
    },
    rho_spent=Rho(0.0015),
    previous=digest(STUDY.encode()),
)

SALTED = replace(PERIOD, salt=bytes(range(32, 64)))

OPEN_STUDY = StudyRecord(
    {"name": "visitors", "horizon": None, "alphabet": ["0", "1"], "rho": 0.005, "population": {"open": True, "tenure": 2}},
    bytes(range(32)),
    insecure=False,
)

OPEN_COLUMN = np.array([1, 2, 0, 1, 0], dtype=np.uint8)
"""Three people were present; the second of them has left, and two enter."""

PRESENT = PresentPeople(
    np.array([2, 3, 300], dtype=np.uint32), np.array([0, 0, 0], dtype=np.uint16), np.array([2, 2, 1], dtype=np.uint16)
)

LAST = PeriodRecord(
    period=Period(2),
    releases={
        "visits": ReleasePeriod(
            rho=Rho(0.0005),
            rho_spent=Rho(0.002),
            clamped=0,
            n_star=7,
            columns=((Period(2), column_digest(OPEN_COLUMN, 2)),),
            measurements=measurements_digest(MEASURED),
        )
    },
    rho_spent=Rho(0.002),
    previous=bytes(range(64, 96)),
    salt=bytes(range(32, 64)),
    last=True,
)

SUMMARISED = replace(
    LAST,
    period=Period(128),
    releases={
        "visits": replace(LAST.releases["visits"], n_star=301, columns=((Period(128), column_digest(OPEN_COLUMN, 2)),))
    },
    last=False,
    summary=Summary(
        digest(OPEN_STUDY.encode()),
        0,
        {
            "visits": ReleaseSummary(
                VISITS.digest(),
                3,
                np.array([2.5]).astype(">f8").tobytes(),
                snapshot_digest(snapshot_chunks("visits", Period(128), PRESENT)),
            )
        },
    ),
)

EXAMPLES: dict[str, Example] = {
    "report": Example(encode_report("ada", 7, "1"), decode_any),
    "reports": Example(
        ReportBatch(["ada", "bob"], np.array([7, 300], dtype=np.uint16), np.array([1, 0], dtype=np.uint8)).encode(),
        decode_any,
    ),
    "key": Example(Key(bytes(range(32))).encode(), decode_control),
    "cut": Example(Cut(Period(7), (1200, 1187, 0, 70000)).encode(), decode_control),
    "cut-last": Example(Cut(Period(8), (1300,), last=True).encode(), decode_control),
    "tally-1": Example(TALLY.encode()[0], decode_tally),
    "tally-2": Example(TALLY.encode()[1], decode_tally),
    "tally-last": Example(OPEN_TALLY.encode()[0], decode_tally),
    "reject": Example(Reject(2, 70000, Reason.LATE).encode(), decode_reject),
    "reject-of-a-batch": Example(Reject.of(2, 70001, {Reason.LATE: 1, Reason.DUPLICATE: 300}).encode(), decode_reject),
    **{name: Example(record.encode()[0], decode_synthetic) for name, record in CONTRACTS.items()},
    "matrices": Example(MatrixChunk("months-poor", 1, "ZP+m").encode(), decode_synthetic),
    "column-1-bit": Example(next(column_chunks("months-poor", Period(1), COLUMN, 2)).encode(), decode_synthetic),
    "column-2-bits": Example(next(column_chunks("activity", Period(1), WIDER_COLUMN, 4)).encode(), decode_synthetic),
    "study": Example(STUDY.encode(), decode_ledger),
    "intent": Example(Intent(Period(1), digest(PERIOD.encode())).encode(), decode_ledger),
    "measurement": Example(measurement_chunks("months-poor", Period(1), MEASURED)[0].encode(), decode_ledger),
    "period": Example(PERIOD.encode(), decode_ledger),
    "period-salted": Example(SALTED.encode(), decode_ledger),
    "intent-salted": Example(Intent(Period(1), digest(SALTED.encode())).encode(), decode_ledger),
    "column-open": Example(
        next(column_chunks("visits", Period(2), OPEN_COLUMN, 3, NewRows(5, 2))).encode(), decode_synthetic
    ),
    "snapshot": Example(next(snapshot_chunks("visits", Period(128), PRESENT)).encode(), decode_synthetic),
    "study-open": Example(OPEN_STUDY.encode(), decode_ledger),
    "period-last": Example(LAST.encode(), decode_ledger),
    "period-summary": Example(SUMMARISED.encode(), decode_ledger),
}
