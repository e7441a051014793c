"""A replay of an open study: people enter and leave as their rows say, and there are as many periods as columns."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.offline import ReplayResult, replay_study, tallies_of
from streamproc.offline.evaluation import Questions, answers_of, questions_of, rows_of, score_of
from streamproc.offline.people import MISSING, People
from streamproc.offline.summary import summary_of
from streamproc.privacy.noise import Entropy
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.open_presence import NO_REPORT, PresenceState
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, SpellRelease, WindowRelease
from streamproc.testing import SilentEntropy
from tests.releases.open_histories import flows_at, open_study, people_of, random_reports

STUDY = open_study(
    WindowRelease("window", 2), SpellRelease("spell", ("1",), length=2), CumulativeRelease("count", ("1",), most=2), rho=3.0
)


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 40))
def test_tallies_are_those_of_all_rows_although_rows_are_dropped(seed: int, periods: int, people: int) -> None:
    reports = random_reports(people, periods, seed)
    presence, expected = PresenceState.of(STUDY, people), []
    for reported in reports.T:
        presence, tally = presence.fold(reported)
        expected.append(tally)
    found = tallies_of(STUDY, reports)
    assert len(found) == periods
    for one, other in zip(found, expected, strict=True):
        assert {name: counts.tolist() for name, counts in one.items()} == {n: c.tolist() for n, c in other.items()}


def test_an_empty_cell_stays_empty_and_others_are_refused() -> None:
    people = People(None, np.array([[0, MISSING], [MISSING, 1]], dtype=np.int8))
    assert people.filled(STUDY).tolist() == [[0, NO_REPORT], [NO_REPORT, 1]]


def replayed(entropy: Entropy, periods: int = 8) -> tuple[ReplayResult, dict[str, Questions]]:
    tallies = tallies_of(STUDY, random_reports(80, periods, seed=6))
    made = stated_contracts(STUDY, 0, insecure=True)
    done = replay_study(STUDY, made, tallies, entropy)
    return done, {name: questions_of(contract, tallies) for name, contract in made.items()}


def test_the_study_has_as_many_periods_as_there_are_columns() -> None:
    done, _ = replayed(SeededEntropy(1), periods=8)
    assert done.synthesis.period == len(done.steps) == 8
    assert {panel.period for panel in done.panels.values()} == {8}


def test_a_summary_has_no_n_and_ends_with_the_people_who_came_and_went() -> None:
    done, _ = replayed(SeededEntropy(1))
    summary = summary_of(done)
    assert json.loads(json.dumps(summary))["n"] is None
    assert summary["rho_spent"] <= summary["rho"] == 3.0
    for name, release in summary["releases"].items():
        panel, contract = done.panels[name], done.synthesis.contracts[name]
        assert release["n_star"] == panel.rows
        assert release["n_pad"] == 0
        assert len(release["periods"]) == 8
        assert release["periods"][3]["bins"] == panel.bins(4)
        assert list(panel.bins(4))[-3:] == ["#present", "#entered", "#left"]
        assert isinstance(release["variance"], list)
        assert len(release["variance"]) == len(contract.labels(panel.period))


@pytest.mark.parametrize("name", ["window", "spell", "count"])
def test_every_answer_is_in_people_and_the_one_the_panel_gives(name: str) -> None:
    done, questions = replayed(SeededEntropy(3))
    asked, panel = questions[name], done.panels[name]
    rows = list(csv.reader(rows_of(5, asked, answers_of(asked, [steps[name] for steps in done.steps])).splitlines()))
    assert len(rows) == 8 * len(panel.bins(1))
    for run, release, period, query, _, estimate, stderr, low, high in rows:
        answer = panel.people(panel.contract.parse_query(query).query, int(period))
        assert (run, release) == ("5", name)
        assert float(estimate) == answer.value
        assert float(stderr) == pytest.approx(answer.stderr, rel=1e-9)
        assert [float(low), float(high)] == pytest.approx([answer.low, answer.high], abs=1e-9)


def test_the_truth_is_that_of_the_people() -> None:
    _, questions = replayed(SilentEntropy(3))
    people = people_of(STUDY, random_reports(80, 8, seed=6))
    asked = questions["spell"]
    truth = asked.truth.reshape(8, -1)
    assert truth[:, -3:].tolist() == [flows_at(people, period) for period in range(1, 9)]


def test_without_noise_every_interval_holds_the_truth() -> None:
    done, questions = replayed(SilentEntropy(3))
    for name, asked in questions.items():
        answers = answers_of(asked, [steps[name] for steps in done.steps])
        assert score_of(asked, answers).coverage == 1.0
