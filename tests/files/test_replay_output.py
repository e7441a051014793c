"""The folder of a replay: also a release that noise has left without anybody is a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from streamproc.files.release_files import write_results
from streamproc.panel import Panel
from streamproc.releases.contracts import stated_contracts
from streamproc.study import parse_study
from tests.bad_input import PANEL_STUDY
from tests.offline.test_summary import STUDY, summarised


def test_a_release_without_synthetic_people_is_a_header(tmp_path: Path) -> None:
    contract = stated_contracts(parse_study(PANEL_STUDY), 2, insecure=True)["pairs"]
    nobody = Panel(contract, (np.zeros(0, dtype=np.uint8),) * 3, measurements=None)

    paths = write_results(tmp_path, {"pairs": nobody}, summarised(STUDY), repeated=False)

    assert [path.name for path in paths] == ["pairs.csv", "summary.json"]
    assert (tmp_path / "pairs.csv").read_text() == "synthetic,1,2,3\n"
