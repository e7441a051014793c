"""The rows of `errors.csv` say what an analyst's panel says, and the truth that the tallies say."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from streamproc.offline import ReplayResult, replay_study, tallies_of
from streamproc.offline.evaluation import Answers, Evaluator, Questions, Score, answers_of, questions_of, rows_of, score_of
from streamproc.privacy.noise import Entropy
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.query import AtLeast, InSpell, Matched, Query, exactly
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import Study, parse_study
from streamproc.testing import SilentEntropy

PEOPLE = 40

STUDY = """
[study]
name = "small"
alphabet = ["a", "b", "c"]
horizon = 6

[privacy]
rho = 0.4

[[release]]
name = "window"
kind = "window"
k = 2

[[release]]
name = "count"
kind = "cumulative"
event = ["c"]
"""

SPELLS_AND_PATTERNS = """
[[release]]
name = "spells"
kind = "spell"
event = ["c"]
length = 2

[[release]]
name = "relapse"
kind = "pattern"
pattern = "c[ab]+c"
"""


def replayed_with(text: str, entropy: Entropy) -> tuple[ReplayResult, dict[str, Questions]]:
    study: Study = parse_study(text)
    symbols = np.random.default_rng(1).integers(0, study.q, (PEOPLE, study.last_period)).astype(np.uint8)
    tallies = tallies_of(study, symbols)
    promised = stated_contracts(study, PEOPLE, insecure=True)
    replayed = replay_study(study, promised, tallies, entropy)
    return replayed, {name: questions_of(contract, tallies) for name, contract in promised.items()}


def cells(rows: str) -> list[list[str]]:
    return list(csv.reader(rows.splitlines()))


def asked_of(query: str) -> Query:
    kind, _, label = query.partition(":")
    match kind:
        case "bin":
            return exactly(*label)
        case "atleast":
            return AtLeast(int(label))
        case "spell":
            return InSpell(int(label))
    assert query == "matched"
    return Matched()


def assert_answers_are_those_of_the_panel(replayed: ReplayResult, asked: Questions, expected_rows: int) -> None:
    name = asked.contract.name
    rows = cells(rows_of(5, asked, answers_of(asked, [period[name] for period in replayed.steps])))
    assert len(rows) == expected_rows
    for run, release, period, query, _, estimate, stderr, low, high in rows:
        answer = replayed.panels[name].fraction(asked_of(query), int(period))
        assert (run, release) == ("5", name)
        assert float(estimate) == pytest.approx(answer.value, abs=1e-12)
        assert float(stderr) == pytest.approx(answer.stderr, rel=1e-9)
        assert [float(low), float(high)] == pytest.approx([answer.low, answer.high], abs=1e-9)


@pytest.mark.parametrize("window", ["flow", "paper"])
@pytest.mark.parametrize("count", ["flow", "paper"])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_every_answer_is_the_one_the_panel_gives(window: str, count: str, k: int) -> None:
    text = STUDY.replace("k = 2", f'k = {k}\nmeasure = "{window}"') + f'measure = "{count}"\n'
    replayed, questions = replayed_with(text, SeededEntropy(3))
    first = 1 if window == "flow" else k
    bins = sum(3 ** min(period, k) for period in range(first, 7))
    assert_answers_are_those_of_the_panel(replayed, questions["window"], bins)
    assert_answers_are_those_of_the_panel(replayed, questions["count"], 21)


def test_every_answer_about_spells_and_patterns_is_the_one_the_panel_gives() -> None:
    replayed, questions = replayed_with(STUDY + SPELLS_AND_PATTERNS, SeededEntropy(3))
    assert_answers_are_those_of_the_panel(replayed, questions["spells"], 1 + 2 * 5)
    assert_answers_are_those_of_the_panel(replayed, questions["relapse"], 6)


def test_without_noise_every_estimate_is_the_truth() -> None:
    """Rounding is exact where nothing needs to be rounded."""
    replayed, questions = replayed_with(STUDY + SPELLS_AND_PATTERNS, SilentEntropy(3))
    assert questions.keys() == {"window", "count", "spells", "relapse"}
    for name, asked in questions.items():
        answers = answers_of(asked, [period[name] for period in replayed.steps])
        np.testing.assert_allclose(answers.estimate, asked.truth, atol=1e-12)


def test_floats_read_back_as_they_were() -> None:
    replayed, questions = replayed_with(STUDY, SeededEntropy(3))
    asked = questions["count"]
    answers = answers_of(asked, [period["count"] for period in replayed.steps])
    rows = cells(rows_of(0, asked, answers))
    for place, expected in ((4, asked.truth), (5, answers.estimate), (6, asked.stderr), (7, answers.low), (8, answers.high)):
        assert [float(row[place]) for row in rows] == expected.tolist()


def test_a_label_with_a_comma_or_a_quote_is_one_cell() -> None:
    text = STUDY.replace('["a", "b", "c"]', '["a,a", "b\'\'", "c"]').replace("''", '\\"')
    replayed, questions = replayed_with(text, SeededEntropy(3))
    rows = cells(rows_of(0, questions["window"], answers_of(questions["window"], [p["window"] for p in replayed.steps])))
    assert {len(row) for row in rows} == {9}
    assert [row[3] for row in rows[:3]] == ["bin:a,a", 'bin:b"', "bin:c"]
    assert [row[3] for row in rows[3:7]] == ["bin:a,a|a,a", 'bin:a,a|b"', "bin:a,a|c", 'bin:b"|a,a']


def test_scores_add_up_over_runs() -> None:
    _, questions = replayed_with(STUDY, SeededEntropy(3))
    asked = questions["window"]
    near = Answers(asked.truth + 0.01, asked.truth - 0.01, asked.truth + 0.03)
    far = Answers(asked.truth - 0.07, asked.truth - 0.09, asked.truth - 0.05)
    score = score_of(asked, near) + score_of(asked, far)
    assert score.coverage == 0.5
    assert score.rms_error == pytest.approx(0.05)
    assert score.answers == 2 * (3 + 5 * 9)
    assert Score() + score == score


def test_only_run_0_travels_whole() -> None:
    replayed, questions = replayed_with(STUDY, SeededEntropy(3))
    examine = Evaluator(questions)
    assert examine(0, replayed).replayed is replayed
    later = examine(1, replayed)
    assert later.replayed is None
    assert later.rows.count(b"\n1,") == len(later.rows.splitlines()) - 1
    assert later.scores.keys() == {"window", "count"}
