"""The benchmark measures what it says, and says it in a shape that can be kept and compared. How fast is not tested."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import bench.__main__ as command
import bench.brokers
import bench.step
from bench.gathering import Topic
from bench.help import cpu_seconds
from bench.memory import kept_bytes, peak_bytes
from bench.result import Result
from bench.step import step_ratio
from bench.streamed import Plan
from bench.studies import Case, cumulative, first_window, later_window
from streamproc.protocol.reports import ReportBatch, decode_any


@pytest.mark.parametrize("topic", command.TOPICS)
def test_every_topic_gives_results_at_tiny_size(topic: str, tmp_path: Path) -> None:
    out = tmp_path / "out" / "bench.json"

    assert command.main([topic, "--quick", "--out", str(out)]) == 0

    document = json.loads(out.read_text())
    assert document["quick"] is True
    assert document["machine"].keys() == {"architecture", "cores", "python", "numpy"}
    assert document["results"]
    for result in document["results"]:
        assert result.keys() == {"name", "value", "unit", "limit", "at_least", "ratio_of", "within"}
        assert result["value"] >= 0
        assert (result["within"] is None) == (result["limit"] is None)
        assert (result["unit"] == "x") == (result["ratio_of"] is not None)
    assert len({result["name"] for result in document["results"]}) == len(document["results"])


def test_all_topics_are_measured_if_none_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def one(quick: bool) -> Iterator[Result]:
        yield Result(name="one", value=1.0, unit="s")

    monkeypatch.setattr(command, "TOPICS", {"first": one, "second": one})

    assert command.main(["--out", str(tmp_path / "all.json")]) == 0
    assert len(json.loads((tmp_path / "all.json").read_text())["results"]) == 2


@pytest.mark.parametrize(
    ("value", "at_least", "verdict"),
    [(5.0, False, True), (6.0, False, True), (7.0, False, False), (5.0, True, False), (6.0, True, True), (7.0, True, True)],
)
def test_a_limit_is_the_most_or_the_least_a_number_may_be(value: float, at_least: bool, verdict: bool) -> None:
    assert Result(name="thing", value=value, unit="s", limit=6.0, at_least=at_least).within is verdict


@pytest.mark.parametrize(("value", "arguments", "code"), [(7.0, [], 0), (7.0, ["--check"], 1), (6.0, ["--check"], 0)])
def test_only_a_check_fails_when_a_limit_is_exceeded(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    value: float,
    arguments: list[str],
    code: int,
) -> None:
    def measured(quick: bool) -> Iterator[Result]:
        yield Result(name="thing", value=value, unit="x", limit=6.0, ratio_of="another")

    monkeypatch.setattr(command, "TOPICS", {"thing": measured})

    assert command.main([*arguments, "--out", str(tmp_path / "bench.json")]) == code
    assert ("above" if value > 6 else "within") in capsys.readouterr().out


def test_an_unknown_topic_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(["speed"])
    assert "no measurement is called 'speed'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda rows: first_window(rows, 2, 3), id="first"),
        pytest.param(lambda rows: later_window(rows, 4, 2), id="later"),
        pytest.param(cumulative, id="cumulative"),
    ],
)
def test_a_case_steps_a_release_of_exactly_its_rows_as_often_as_wanted(make: Callable[[int], Case]) -> None:
    case = make(20_000)

    for _ in range(2):
        state, step = case.step()
        assert {len(column) for column in step.columns} == {20_000}
        assert state.period == step.period == case.state.period + 1


def test_a_ratio_is_the_median_over_rounds_without_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    durations = iter([1, 100, 2, 6, 2, 8, 5, 5])  # drawing, stepping, drawing, ...
    ticks = iter([tick for duration in durations for tick in (0, duration)])
    monkeypatch.setattr(bench.step, "process_time", lambda: next(ticks))

    assert step_ratio(Case("any", 10, None, lambda: (None, None)), rounds=3) == 3


def test_memory_is_that_of_all_arrays_kept_and_of_all_allocated_on_top() -> None:
    class State:
        def __init__(self) -> None:
            self.period = 3
            self.rows = np.zeros(1000, dtype=np.uint16)
            self.measured = (np.zeros(10, dtype=np.int64), np.zeros(5, dtype=np.int64))

    def step() -> tuple[None, None]:
        np.zeros(100_000, dtype=np.uint8)
        return None, None

    assert kept_bytes(State()) == 2000 + 80 + 40
    assert peak_bytes(Case("zeros", 1000, State(), step)) == pytest.approx(2120 + 100_000, abs=2000)


def test_reports_are_counted_by_the_position_read_up_to(tmp_path: Path) -> None:
    """Of two periods of 100 reports the first has one record, the second four."""
    topic = Topic(Plan("any", 100, 2), "embedded:none", tmp_path)
    topic.__dict__["ends"] = [1, 5]

    assert [topic.reports_below(position) for position in range(6)] == [0, 100, 125, 150, 175, 200]


@pytest.mark.parametrize(("packed", "records"), [(False, 50), (True, 1)])
def test_everybody_reports_once_in_a_period(packed: bool, records: int) -> None:
    plan = Plan("any", 50, 2, packed=packed)

    decoded = [decode_any(value) for _, value in plan.records(plan.ids(), 2)]

    assert len(decoded) == records
    individuals = [each for report in decoded for each in (report.ids if isinstance(report, ReportBatch) else report[:1])]
    assert sorted(individuals) == plan.ids()


def test_without_a_broker_there_is_a_line_and_no_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench.brokers, "missing_programs", lambda: "install Java")

    assert list(command.TOPICS["gathering"](False)) == list(command.TOPICS["cut-to-column"](False)) == []
    assert capsys.readouterr().out.splitlines() == [
        "gathering is not measured: install Java",
        "the time from cut to column is not measured: install Java",
    ]


def test_processor_time_is_that_of_the_process_and_not_of_its_sleep() -> None:
    idle = cpu_seconds([sys.executable, "-S", "-c", "import time; time.sleep(0.5)"])
    busy = cpu_seconds([sys.executable, "-S", "-c", "import time\nwhile time.process_time() < 0.5: pass"])

    assert idle < 0.5 <= busy
