"""An unexpected error shows its traceback if asked to, and never the data that caused it."""

from __future__ import annotations

import pytest

from streamproc.service.registration import NOT_CHECKED
from tests.secrets.planted import marks_in
from tests.stream.conftest import DeployStudy
from tests.stream.report_traffic import report, send_raw


@pytest.mark.parametrize("debug", ["", "1"], ids=["in a line", "in full"])
def test_a_bug_that_quotes_a_report_is_shown_without_the_quote(deploy_study: DeployStudy, debug: str) -> None:
    deployed = deploy_study("embedded", partitions=1, people=3)
    deployed.do("init")
    send_raw(deployed, [report("SECRET-ID-1", 1, "1")])

    ended = deployed.programs.start(
        "run", deployed.file, module="tests.secrets.faulty", environ={"STREAMPROC_DEBUG": debug}
    ).end()

    assert ended.code == 1
    assert "ValueError" in ended.complaint
    assert marks_in(ended.complaint) == set()
    if debug:
        for told in ("KeyError", "Traceback", "in ingest", 'raise ValueError(f"cannot use {quoted}")'):
            assert told in ended.complaint
    else:
        connected, *steps, line = ended.complaint.splitlines()
        assert "connected" in connected and "this is a bug" in line
        assert [step for step in steps if " partition" not in step and NOT_CHECKED not in step] == []
