"""A Parquet file of which one bit is another: Arrow reads many of them without complaint, dangling indices included."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from streamproc.errors import InvalidInput
from streamproc.files.study_files import read_people
from tests.studies import build_study

STUDY = build_study(rho=1.0)


def panel_with_dictionaries() -> bytes:
    symbols = pa.array(["0", "1", "0", "1"]).dictionary_encode()
    columns = {"individual": pa.array(["ada", "bob", "cyd", "dan"])}
    columns |= {str(period): symbols for period in range(1, STUDY.last_period + 1)}
    file = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), file, compression="none", write_statistics=False)
    return file.getvalue()


@pytest.mark.parametrize("bit", range(8))
def test_it_is_read_or_refused(bit: int, tmp_path: Path) -> None:
    whole, path, seen = panel_with_dictionaries(), tmp_path / "panel.parquet", Counter[str]()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << bit
        path.write_bytes(changed)
        try:
            read_people(path, STUDY)
            seen["read"] += 1
        except InvalidInput:
            seen["refused"] += 1

    assert min(seen["read"], seen["refused"]) > 20
