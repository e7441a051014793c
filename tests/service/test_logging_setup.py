"""Every log line names the study, for people and for machines."""

from __future__ import annotations

import json
import logging

import pytest

from streamproc.service.logging_setup import event, set_up_logs


def test_a_plain_line_names_the_study_before_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("poverty", as_json=False)
    event("tallied", partition=0, period=3)
    assert capsys.readouterr().err.rstrip().endswith(" info    study=poverty tallied partition=0 period=3")


def test_a_line_of_json_names_the_study(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("poverty", as_json=True)
    event("fenced", logging.WARNING, period=3)
    line = json.loads(capsys.readouterr().err)
    assert (line["study"], line["event"], line["period"]) == ("poverty", "fenced", 3)
