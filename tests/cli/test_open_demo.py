"""The simulated people of `demo --open` sign up and leave, and its screen shows who is present and what it costs them."""

from __future__ import annotations

import numpy as np
import pytest

from streamproc.cli.declarations import DEMO_PEOPLE
from streamproc.cli.demo.open_population import (
    ABSENT_AFTER,
    MISSING_SHARE,
    MONTHS,
    PRICE_RISE,
    TENURE,
    open_study_text,
    simulate_open_reports,
    true_months,
)
from streamproc.cli.demo.open_screen import OpenMonth, OpenScreen
from streamproc.cli.demo.progress import AnswerVsTruth
from streamproc.cli.demo.simulated_study import panel_csv
from streamproc.offline.people import MISSING
from streamproc.panel import count_of
from streamproc.panel.open_series import COUNT_QUERIES, Estimate, last_people_estimates
from streamproc.panel.series import HistoryBuilder
from streamproc.privacy.types import Period, Rho
from streamproc.releases.contracts import make_contracts
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import parse_study

STUDY = parse_study(open_study_text(DEMO_PEOPLE))
REPORTS = simulate_open_reports(DEMO_PEOPLE)


def first_and_last() -> tuple[np.ndarray, np.ndarray]:
    reported = REPORTS.symbols != MISSING
    return reported.argmax(axis=1), MONTHS - 1 - reported[:, ::-1].argmax(axis=1)


def test_people_sign_up_in_every_month_and_report_for_a_tenure_at_most() -> None:
    first, last = first_and_last()
    assert set(first) == set(range(MONTHS))
    stays = last - first + 1
    assert stays.max() == TENURE
    early = first <= MONTHS - TENURE
    assert 0.5 < (stays[early] >= TENURE - 1).mean() < 0.9


def test_every_run_has_the_same_people() -> None:
    again = simulate_open_reports(DEMO_PEOPLE)
    assert again.ids == REPORTS.ids
    assert (again.symbols == REPORTS.symbols).all()
    assert simulate_open_reports(1).size >= 1


def test_few_reports_are_missing_between_the_first_and_the_last() -> None:
    first, last = first_and_last()
    month = np.arange(MONTHS)
    between = (month > first[:, None]) & (month < last[:, None])
    assert (REPORTS.symbols[between] == MISSING).mean() == pytest.approx(MISSING_SHARE, abs=0.004)


def test_the_truth_follows_from_the_reports_alone() -> None:
    """Counted once more in plain Python, person by person."""
    contract = make_contracts(STUDY, 0, SeededEntropy(1))["quarterly"]
    counted = [{"present": 0, "entered": 0, "left": 0} for _ in range(MONTHS + 1)]
    asked = np.zeros((MONTHS + 1, 2), dtype=int)
    for row in REPORTS.symbols.tolist():
        filled: list[int] = []
        missed = 0
        for month, symbol in enumerate(row, start=1):
            if not filled:
                if symbol == MISSING:
                    continue
                counted[month]["entered"] += 1
            missed = missed + 1 if symbol == MISSING else 0
            if len(filled) == TENURE or missed == ABSENT_AFTER:
                counted[month]["left"] += 1
                break
            filled.append(filled[-1] if symbol == MISSING else symbol)
            counted[month]["present"] += 1
            if len(filled) >= 3:
                asked[month] += (any(filled[-3:]), 1)
    query = count_of({"1"}, at_least=1, of=3)
    for truth in true_months(STUDY, REPORTS):
        exact = {name: truth.number(contract, one) for name, one in COUNT_QUERIES.items()}
        assert exact == counted[truth.period]
        yes, everybody = asked[truth.period].tolist()
        assert truth.share(contract, query) == pytest.approx(yes / max(everybody, 1))
    after_a_year = [counts["present"] for counts in counted[TENURE + 1 :]]
    assert DEMO_PEOPLE * 0.9 < min(after_a_year) <= max(after_a_year) < DEMO_PEOPLE * 1.1
    assert asked[PRICE_RISE[-1], 0] / asked[PRICE_RISE[-1], 1] > 1.5 * asked[24, 0] / asked[24, 1]


def test_the_estimates_of_a_whole_run_are_near_the_truth() -> None:
    """36 months and 3 numbers. The noise is seeded; of other seeds about 1 in 1,000 would miss more than 20 of the 108."""
    contracts = make_contracts(STUDY, 0, SeededEntropy(1))
    synthesis = Synthesis.start(contracts)
    contract, builder = contracts["quarterly"], HistoryBuilder(contracts["quarterly"])
    held, compared = 0, 0
    for truth in true_months(STUDY, REPORTS):
        synthesis, steps = synthesis.step(truth.tallies, SeededEntropy(1))
        [column] = steps["quarterly"].columns
        builder.add(column, steps["quarterly"].measurements)
        for name, estimate in last_people_estimates(builder.history()).items():
            held += estimate.low <= truth.number(contract, COUNT_QUERIES[name]) <= estimate.high
            compared += 1
    assert compared == 3 * MONTHS
    assert held >= compared - 20
    assert synthesis.spent <= STUDY.privacy.budget


def test_its_panel_file_has_a_column_for_each_month() -> None:
    head = panel_csv(simulate_open_reports(10)).partition(b"\n")[0].decode()
    assert head == ",".join(["individual", *map(str, range(1, MONTHS + 1))])


def month(period: int, spent: float, *, asked: bool = True) -> OpenMonth:
    present = AnswerVsTruth(4_800, Estimate(4_812.4, 50.0, 4_712.0, 4_915.0))
    share = AnswerVsTruth(0.131, Estimate(0.2, 0.01, 0.18, 0.22)) if asked else None
    return OpenMonth(Period(period), 4_000, present, 433.2, -3.0, share, Rho(spent))


def test_the_screen_shows_who_is_present_a_share_and_the_cost_of_one_person(capsys: pytest.CaptureFixture[str]) -> None:
    with OpenScreen(STUDY) as screen:
        screen.introduce(DEMO_PEOPLE, seeded=True)
        screen.add_month(month(1, 0.001, asked=False))
        for period in (2, 3, 4):
            screen.add_month(month(period, 0.02))
        screen.conclude()
    shown = capsys.readouterr().out
    assert max(len(line) for line in shown.splitlines()) <= 80
    first, *others = [line.split() for line in shown.splitlines() if line.startswith("    ") and line[4].isdigit()]
    assert first == ["1", "4,800", "4,812", "4,712-4,915", "433", "-3", "-", "0.183"]
    assert others[0] == ["2", "4,800", "4,812", "4,712-4,915", "433", "-3", "13.1", "20.0", "18.0-22.0", "0.9"]
    text = " ".join(shown.split())
    assert "one person's whole participation costs at most rho 0.02, which is epsilon 0.9 at delta 1e-6" in text
    assert "The noise comes from a seed" in text
    assert "16,000 reports became 8 columns" in text
    assert "It is the same after 2 months and after any number." in text
    assert "4 of 7 intervals hold the truth" in text
