"""A whole study over complete histories."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.offline import replay_study, tallies_of
from streamproc.offline.people import MISSING, People
from streamproc.privacy.types import Period
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.step import Step
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, Missing, Population, Study, WindowRelease
from streamproc.testing import SilentEntropy
from tests.releases.random_studies import contracts_of, histories_of, sticky_panel, studies
from tests.studies import build_study

STUDY = build_study(WindowRelease("w", 2), CumulativeRelease("c", ("1",)), horizon=4)
PEOPLE = sticky_panel(30, 4, seed=61)


def test_every_period_is_passed_to_the_callback_in_turn() -> None:
    progress: list[tuple[Period, float, list[str]]] = []

    def on_period(period: Period, synthesis: Synthesis, steps: Mapping[str, Step]) -> None:
        progress.append((period, synthesis.spent, list(steps)))

    made = stated_contracts(STUDY, 30, insecure=True)
    done = replay_study(STUDY, made, tallies_of(STUDY, PEOPLE), SeededEntropy(1), on_period)
    assert [period for period, _, _ in progress] == [1, 2, 3, 4]
    assert all(names == ["w", "c"] for _, _, names in progress)
    spent = [spent for _, spent, _ in progress]
    assert spent == sorted(spent)
    assert done.synthesis.spent == spent[-1]
    assert done.study is STUDY


@given(studies(), st.data())
def test_a_replay_gathers_steps_panels_and_spending(study: Study, data: st.DataObject) -> None:
    filled = data.draw(histories_of(study))
    made = data.draw(contracts_of(study, len(filled)))
    done = replay_study(study, made, tallies_of(study, filled), SilentEntropy(1))
    assert done.synthesis.period == len(done.steps) == study.last_period
    for name, contract in made.items():
        columns = [column for steps in done.steps for column in steps[name].columns]
        assert all(a is b for a, b in zip(done.panels[name].columns, columns, strict=True))
        spent = [float(rho) for rho in done.spent[name]]
        assert spent == sorted(spent)
        assert spent[-1] == done.synthesis.accountants[name].spent == pytest.approx(contract.rho, rel=1e-12)


def test_a_seed_repeats_a_study_and_another_does_not() -> None:
    made, tallies = stated_contracts(STUDY, 30, insecure=True), tallies_of(STUDY, PEOPLE)
    once, again, other = (replay_study(STUDY, made, tallies, SeededEntropy(seed)).panels for seed in (1, 1, 2))
    for name in made:
        assert all((a == b).all() for a, b in zip(once[name].columns, again[name].columns, strict=True))
        assert not all(np.array_equal(a, b) for a, b in zip(once[name].columns, other[name].columns, strict=True))


@given(st.data(), st.sampled_from([None, "0", "1"]))
def test_what_one_person_reports_changes_what_is_filled_in_for_nobody_else(data: st.DataObject, fill: str | None) -> None:
    study = build_study(WindowRelease("w", 2), horizon=5, population=Population(initial="0", missing=Missing(fill)))
    row = st.lists(st.integers(MISSING, 1), min_size=5, max_size=5)
    rows = data.draw(st.lists(row, min_size=2, max_size=8))
    person = data.draw(st.integers(0, len(rows) - 1))
    others = [place for place in range(len(rows)) if place != person]
    changed = [data.draw(row) if place == person else reports for place, reports in enumerate(rows)]
    before, after = (People(None, np.array(each, dtype=np.int8)).filled(study) for each in (rows, changed))
    assert (before[others] == after[others]).all()
