"""Another language reads columns from the page alone: a small Node program with the ordinary packages of npm."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streamproc.panel.column_packing import column_digest
from streamproc.privacy.types import Period
from streamproc.protocol import snapshots
from streamproc.protocol.columns import CHUNK_BYTES, ContractRecord, encode_column
from streamproc.protocol.ledger_verifier import verify_chain
from streamproc.releases.step import Column
from tests.broker.broker import KafkaBroker
from tests.fetching import fetch
from tests.protocol.examples import COLUMN, MONTHS_POOR
from tests.protocol.long_contracts import long_contract
from tests.protocol.test_columns import record_of
from tests.protocol.test_open_study import decoded_columns
from tests.stream_model.open_study import OPEN_STUDY, PERIODS, publish

PROGRAM = Path(__file__).parent / "node"


@pytest.fixture(scope="session")
def node() -> Path:
    """The program with its packages, installed once by the first caller."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("reading columns in another language needs Node 18 or newer: apt-get install nodejs npm")
    with (PROGRAM / "package-lock.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = PROGRAM / "node_modules" / ".package-lock.json"
        if not installed.exists() or installed.stat().st_mtime < (PROGRAM / "package-lock.json").stat().st_mtime:
            fetch(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=PROGRAM)
    return PROGRAM / "read-columns.mjs"


def read_columns(program: Path, *arguments: str) -> list[dict[str, Any]]:
    outcome = subprocess.run(["node", str(program), *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert outcome.returncode == 0, outcome.stderr
    return [json.loads(line) for line in outcome.stdout.splitlines()]


def records_of(record: ContractRecord, columns: Sequence[Column]) -> list[bytes]:
    symbols = len(record.contract.alphabet)
    values = record.encode()
    for period, column in enumerate(columns, start=1):
        values += encode_column(record.release, Period(period), column, symbols)
    return values


def expected(record: ContractRecord, columns: Sequence[Column]) -> list[dict[str, Any]]:
    return [
        {
            "type": "contract",
            "release": record.release,
            "kind": record.contract.kind,
            "n": record.contract.n,
            "n_star": record.n_star,
        },
        *(
            {
                "type": "column",
                "release": record.release,
                "period": period,
                "rows": len(column),
                "digest": column_digest(column, record.bits).hex(),
                "symbols": [record.contract.alphabet[symbol] for symbol in column],
            }
            for period, column in enumerate(columns, start=1)
        ),
    ]


@pytest.mark.parametrize(
    ("symbols", "rows"),
    [(2, 10), (3, 9), (4, 1), (16, 33), (64, 17), (64, CHUNK_BYTES + 3)],
    ids=["1 bit", "2 bits", "one row", "4 bits", "8 bits", "two chunks"],
)
def test_node_reads_columns_of_every_width(node: Path, tmp_path: Path, symbols: int, rows: int) -> None:
    record = record_of(symbols, rows)
    columns = [np.random.default_rng(seed).integers(0, symbols, size=rows).astype(np.uint8) for seed in range(2)]
    file = tmp_path / "values"
    file.write_bytes(b"".join(len(value).to_bytes(4) + value for value in records_of(record, columns)))

    assert read_columns(node, "file", str(file)) == expected(record, columns)


def test_node_skips_the_matrices_of_a_long_contract(node: Path, tmp_path: Path) -> None:
    record = long_contract()
    column = np.arange(record.n_star).astype(np.uint8) % 2
    file = tmp_path / "values"
    file.write_bytes(b"".join(len(value).to_bytes(4) + value for value in records_of(record, [column])))

    assert read_columns(node, "file", str(file)) == expected(record, [column])


def test_node_reads_the_columns_of_an_open_study(node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SUMMARY_EVERY", 4)
    public = publish()
    values = public.columns["w"]
    file = tmp_path / "values"
    file.write_bytes(b"".join(len(value).to_bytes(4) + value for value in values))

    contract, *columns = read_columns(node, "file", str(file))

    assert contract == {"type": "contract", "release": "w", "kind": "window", "tenure": 4, "n_star": 0}
    ledger = verify_chain(public.ledger)
    assert ledger is not None and len(columns) == PERIODS
    symbols = [*OPEN_STUDY.alphabet, None]
    for column, decoded in zip(columns, decoded_columns(values), strict=True):
        entry = ledger.record(column["period"]).releases["w"]
        assert (column["digest"], column["rows"]) == (entry.columns[0][1].hex(), len(decoded.symbols))
        assert column["symbols"] == [symbols[code] for code in decoded.symbols]


def test_node_notices_a_column_out_of_order(node: Path, tmp_path: Path) -> None:
    values = records_of(MONTHS_POOR, [COLUMN, COLUMN])
    file = tmp_path / "values"
    file.write_bytes(b"".join(len(value).to_bytes(4) + value for value in [values[0], values[2], values[1]]))

    with pytest.raises(AssertionError, match="expected columns in order"):
        read_columns(node, "file", str(file))


@pytest.mark.kafka
async def test_node_reads_what_is_committed_to_a_topic(node: Path, kafka_broker: KafkaBroker) -> None:
    columns = [COLUMN, 1 - COLUMN]
    contract, *chunks = records_of(MONTHS_POOR, columns)
    topic = f"node-{uuid.uuid4()}.synthetic.months-poor"
    server = f"127.0.0.1:{kafka_broker.port}"
    admin = AIOKafkaAdminClient(bootstrap_servers=server)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=server, transactional_id=topic)
    await producer.start()
    try:
        async with producer.transaction():
            for value in (contract, chunks[0]):
                await producer.send_and_wait(topic, value, partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, chunks[0], partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait(topic, chunks[1], partition=0)
    finally:
        await producer.stop()

    assert read_columns(node, "kafka", server, topic, topic, "2") == expected(MONTHS_POOR, columns)
