"""The page over a real broker, whose topics have the markers of transactions between their records."""

from __future__ import annotations

import json
import time
import urllib.request
import uuid
from pathlib import Path

import pytest

from streamproc.protocol.ledger_verifier import verify_chain
from tests.broker import KafkaBroker
from tests.status_page.shown_study import ShownStudy, sticky
from tests.stream.programs import PATIENCE, Programs
from tests.studies import StudyParameters

pytestmark = pytest.mark.kafka


def get(url: str) -> tuple[dict[str, str], bytes]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return dict(answer.headers), answer.read()


def test_records_come_whole_from_a_broker_whatever_offset_they_begin_at(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    parameters = StudyParameters(f"page-{uuid.uuid4().hex[:8]}", people=100, partitions=2)
    with Programs(tmp_path) as programs:
        shown = ShownStudy(tmp_path / "study", programs, parameters, kafka_broker.url)
        panel = shown.deployed.write_panel(sticky("01", 100, 4, stays=0.8, first=(0.7, 0.3), seed=9))
        shown.serve()
        shown.release(panel, 1, 2)
        deadline = time.monotonic() + PATIENCE
        while json.loads(get(f"{shown.url}/api/v1/status")[1])["releases"][0]["columns"] < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        headers, body = get(f"{shown.url}/api/v1/records/ledger?offset=0")
        assert headers["Streamproc-Next"] == headers["Streamproc-End"]
        ledger = verify_chain(unframed(body))
        assert ledger is not None
        assert ledger.period == 2
        assert int(headers["Streamproc-End"]) > len(unframed(body))  # there are markers
        rest = get(f"{shown.url}/api/v1/records/ledger?offset={headers['Streamproc-End']}")
        assert (rest[0]["Streamproc-Next"], rest[1]) == (headers["Streamproc-End"], b"")
        assert unframed(get(f"{shown.url}/api/v1/records/ledger?offset=1")[1]) == unframed(body)[1:]


def unframed(body: bytes) -> list[bytes]:
    """Records, each after its length in 4 bytes."""
    values = []
    while body:
        length = int.from_bytes(body[:4], "big")
        values.append(body[4 : 4 + length])
        body = body[4 + length :]
    return values
