"""All releases together, over random studies: what comes out is always a panel, and costs what it says."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import BudgetExceeded, Refused
from streamproc.offline import replay_study, tallies_of
from streamproc.panel import Panel
from streamproc.privacy.noise import Entropy, NoiseSource
from streamproc.privacy.types import IntArray, Period, Rho
from streamproc.releases.contracts import make_contracts, stated_contracts
from streamproc.releases.cumulative import CumulativeContract
from streamproc.releases.cumulative_paper import CumulativePaperContract
from streamproc.releases.cumulative_paper_synthesis import CumulativeState
from streamproc.releases.flow import FlowContract, FlowState
from streamproc.releases.kind import Contract, ReleaseState
from streamproc.releases.pattern import PatternContract
from streamproc.releases.spell import SpellContract
from streamproc.releases.step import Column, Step
from streamproc.releases.synthesis import Synthesis
from streamproc.releases.window import WindowContract
from streamproc.releases.window_synthesis import WindowState
from streamproc.storage.entropy import SeededEntropy, SystemEntropy
from streamproc.study import CumulativeRelease, Study, WindowRelease
from streamproc.testing import SilentEntropy
from tests.releases.random_studies import KINDS, contracts_of, histories_of, release_of, studies, true_counts
from tests.studies import build_study


def digest(column: Column) -> str:
    return hashlib.sha256(column.tobytes()).hexdigest()


def check_window(contract: WindowContract, columns: list[Column], before: IntArray, step: Step, state: ReleaseState) -> None:
    """Counts are those of the rows; the rows of an overlap before are those of it now."""
    q, k = contract.mechanism.q, min(contract.mechanism.k, step.period)
    assert isinstance(state, WindowState)
    if step.period < contract.first_column:
        assert not columns
        assert not step.counts.size
        return
    windows = list(product(range(q), repeat=k))
    rows = Counter(zip(*(column.tolist() for column in columns[-k:]), strict=True))
    assert step.counts.tolist() == [rows[window] for window in windows]
    assert [windows[code] for code in state.windows] == list(zip(*(column.tolist() for column in columns[-k:]), strict=True))
    if contract.measure == "flow":
        assert len(columns[0]) == contract.n + contract.mechanism.bins * contract.n_pad == contract.n_star
    elif step.period == k:
        assert len(columns[0]) == max(int(step.measurements[0].sum()), 0)
    if step.period > contract.first_column:
        windows_before = list(product(range(q), repeat=min(contract.mechanism.k, step.period - 1)))
        for overlap in product(range(q), repeat=k - 1):
            # The last `k - 1` symbols: all of a window that was shorter, without the oldest of a full one.
            ending = [at for at, window in enumerate(windows_before) if window[len(window) - k + 1 :] == overlap]
            earlier = sum(int(before[at]) for at in ending)
            assert earlier == sum(int(step.counts[windows.index((*overlap, a))]) for a in range(q))


def states_of(contract: FlowContract, columns: list[Column]) -> list[int]:
    """For each row, what its counts are about: events so far, the length of the current spell, or whether it has matched."""
    histories = ["".join(contract.alphabet[symbol] for symbol in row) for row in np.stack(columns, axis=1).tolist()]
    if isinstance(contract, PatternContract):
        return [int(re.search(contract.pattern, history) is not None) for history in histories]
    if isinstance(contract, SpellContract):
        return [len(history) - len(history.rstrip("1")) for history in histories]
    assert isinstance(contract, CumulativeContract)
    return [history.count("1") for history in histories]


def check_flow(contract: FlowContract, columns: list[Column], before: IntArray, step: Step, state: ReleaseState) -> None:
    """Counts are those of the rows, of which there are as many as people; nobody loses an event or a match."""
    assert isinstance(state, FlowState)
    found = states_of(contract, columns)
    assert len(found) == contract.n == contract.n_star
    assert step.counts.tolist() == [sum(value >= b for value in found) for b in range(1, len(step.counts) + 1)]
    assert len(step.counts) == len(contract.labels(step.period))
    if not isinstance(contract, PatternContract):
        assert state.states.tolist() == [min(value, contract.automaton.states - 1) for value in found]
    if not isinstance(contract, SpellContract):
        earlier = [contract.n, *before.tolist(), 0]
        for b, now in enumerate(step.counts.tolist(), start=1):
            assert earlier[b] <= now <= earlier[b - 1 if isinstance(contract, CumulativeContract) else 0]


def check_cumulative_paper(
    contract: CumulativePaperContract, columns: list[Column], before: IntArray, step: Step, state: ReleaseState
) -> None:
    """Counts are those of the rows; nobody loses a one, and a `b`-th one needs `b - 1` before it."""
    assert isinstance(state, CumulativeState)
    weights = np.sum(columns, axis=0, dtype=int).tolist()
    assert len(weights) == contract.n == contract.n_star
    assert state.weights.tolist() == weights
    assert step.counts.tolist() == [sum(weight >= b for weight in weights) for b in range(1, step.period + 1)]
    earlier = [contract.n, *before.tolist(), 0]
    for b, now in enumerate(step.counts.tolist(), start=1):
        assert earlier[b] <= now <= earlier[b - 1]


@given(studies(), st.data(), st.integers(0, 2**32))
def test_whatever_the_noise_the_outcome_is_a_panel(study: Study, data: st.DataObject, seed: int) -> None:
    filled = data.draw(histories_of(study))
    made = data.draw(contracts_of(study, len(filled)))
    synthesis = Synthesis.start(made)
    panels = {name: Panel(contract) for name, contract in made.items()}
    digests: dict[str, list[str]] = {name: [] for name in made}
    before = dict.fromkeys(made, np.zeros(0, dtype=np.int64))
    for tally in tallies_of(study, filled):
        synthesis, steps = synthesis.step(tally, SeededEntropy(seed))
        for name, step in steps.items():
            contract, columns = made[name], [*panels[name].columns, *step.columns]
            assert step.period == synthesis.period
            assert step.counts.dtype == np.int64
            assert all(column.dtype == np.uint8 for column in step.columns)
            if isinstance(contract, WindowContract):
                check_window(contract, columns, before[name], step, synthesis.states[name])
            elif isinstance(contract, FlowContract):
                check_flow(contract, columns, before[name], step, synthesis.states[name])
            else:
                assert isinstance(contract, CumulativePaperContract)
                check_cumulative_paper(contract, columns, before[name], step, synthesis.states[name])
            grown = panels[name].extended(step)
            assert all(old is new for old, new in zip(panels[name].columns, grown.columns, strict=False))
            if grown.columns:
                assert (grown.counts() == step.counts).all()
            digests[name] += [digest(column) for column in step.columns]
            panels[name], before[name] = grown, step.counts
    for name, panel in panels.items():
        assert len(panel.columns) == study.last_period
        assert [digest(column) for column in panel.columns] == digests[name]


@given(studies(), st.data())
def test_without_noise_the_counts_are_the_truth_and_the_padding(study: Study, data: st.DataObject) -> None:
    filled = data.draw(histories_of(study))
    made = data.draw(contracts_of(study, len(filled)))
    synthesis = Synthesis.start(made)
    for period, tally in enumerate(tallies_of(study, filled), start=1):
        synthesis, steps = synthesis.step(tally, SilentEntropy(5))
        for release in study.releases:
            step, contract = steps[release.name], made[release.name]
            if period >= contract.first_column:
                truth = true_counts(study, release, filled, period)
                assert (step.counts - contract.padding(Period(period))).tolist() == truth
            assert step.clamped == 0


@given(studies(), st.data())
def test_every_release_spends_its_share_and_no_more(study: Study, data: st.DataObject) -> None:
    filled = data.draw(histories_of(study))
    made = data.draw(contracts_of(study, len(filled)))
    synthesis = Synthesis.start(made)
    assert synthesis.spent == 0.0
    for tally in tallies_of(study, filled):
        spent = synthesis.spent
        synthesis, _ = synthesis.step(tally, SilentEntropy(6))
        assert spent <= synthesis.spent <= study.privacy.budget * (1 + 1e-15)
    for name, accountant in synthesis.accountants.items():
        assert made[name].rho * (1 - 1e-12) <= accountant.spent <= made[name].rho


class Watched:
    """Counts what is drawn."""

    insecure = True

    def __init__(self) -> None:
        self.drawn: list[tuple[str, int]] = []

    def draw(self, release: str, period: Period) -> NoiseSource:
        self.drawn.append((release, period))
        return SeededEntropy(7).draw(release, period)

    def salt(self, period: Period) -> bytes:
        return SeededEntropy(7).salt(period)


TWO = build_study(WindowRelease("w", 1), CumulativeRelease("c", ("1",), weights="rule"), horizon=2)
FILLED = np.array([[0, 1], [1, 1], [0, 0]], dtype=np.uint8)


def started(made: Mapping[str, Contract], periods: int, entropy: Entropy) -> Synthesis:
    synthesis = Synthesis.start(made)
    for tally in tallies_of(TWO, FILLED)[:periods]:
        synthesis, _ = synthesis.step(tally, entropy)
    return synthesis


def test_each_release_and_period_has_a_draw_of_its_own() -> None:
    watched = Watched()
    started(stated_contracts(TWO, 3, insecure=True), 2, watched)
    assert watched.drawn == [("w", 1), ("c", 1), ("w", 2), ("c", 2)]


def test_a_step_over_budget_is_refused_before_any_noise_is_drawn() -> None:
    made = stated_contracts(TWO, 3, insecure=True)
    made["c"] = replace(made["c"], rho=Rho(made["c"].rho / 2))
    watched = Watched()
    with pytest.raises(BudgetExceeded, match="release c: period 2 would bring its spending to rho"):
        started(made, 2, watched)
    assert watched.drawn == [("w", 1), ("c", 1)]


SECURE = stated_contracts(TWO, 3, insecure=False)
INSECURE = stated_contracts(TWO, 3, insecure=True)


@pytest.mark.parametrize("source", [SeededEntropy(1), SilentEntropy(1), SystemEntropy()], ids=["seeded", "silent", "system"])
def test_noise_from_another_source_than_the_contracts_state_is_refused_before_it_is_drawn(
    source: Entropy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(source), "draw", lambda *_: pytest.fail("drawn"))
    of_another_source = SECURE if source.insecure else INSECURE
    with pytest.raises(Refused, match="make the contracts with the source that draws"):
        started(of_another_source, 1, source)
    one_of_two = {"w": make_contracts(TWO, 3, source)["w"], "c": of_another_source["c"]}
    with pytest.raises(Refused, match="release c: its contract says"):
        started(one_of_two, 1, source)


@pytest.mark.parametrize("source", [SeededEntropy(1), SilentEntropy(1)], ids=["seeded", "silent"])
def test_a_replay_cannot_claim_protection_that_its_noise_does_not_give(source: Entropy) -> None:
    tallies = tallies_of(TWO, FILLED)
    with pytest.raises(Refused):
        replay_study(TWO, SECURE, tallies, source)
    panels = replay_study(TWO, make_contracts(TWO, 3, source), tallies, source).panels
    assert all(panel.contract.insecure for panel in panels.values())


def test_after_the_horizon_there_is_no_further_step() -> None:
    watched = Watched()
    synthesis = started(stated_contracts(TWO, 3, insecure=True), 2, watched)
    with pytest.raises(ValueError, match="period 3"):
        synthesis.step(tallies_of(TWO, FILLED)[1], watched)
    assert len(watched.drawn) == 4


def test_a_step_leaves_the_synthesis_before_as_it_was() -> None:
    """So that a step that was not made durable can be taken again from the same state."""
    before = started(stated_contracts(TWO, 3, insecure=True), 1, SeededEntropy(8))
    last = tallies_of(TWO, FILLED)[1]
    _, once = before.step(last, SeededEntropy(8))
    _, again = before.step(last, SeededEntropy(8))
    assert before.period == 1
    for name in once:
        assert [digest(column) for column in once[name].columns] == [digest(column) for column in again[name].columns]
        assert once[name].counts.tolist() == again[name].counts.tolist()


def test_the_number_of_synthetic_people_is_known_from_the_first_column_on() -> None:
    study = build_study(*(release_of(kind, kind) for kind in KINDS), horizon=3)
    made = stated_contracts(study, 3, insecure=True)
    synthesis = Synthesis.start(made)
    people = np.array([[0, 1, 1], [1, 1, 0], [0, 0, 1]], dtype=np.uint8)
    assert [synthesis.rows(kind) for kind in KINDS] == [None] * 6
    for period, tally in enumerate(tallies_of(study, people), start=1):
        synthesis, steps = synthesis.step(tally, SeededEntropy(9))
        for kind in KINDS:
            known = made[kind].n_star if kind != "window-paper" or period < 3 else len(steps[kind].columns[0])
            assert synthesis.rows(kind) == known


def test_a_resumed_study_goes_on_as_if_nothing_had_happened_and_remembers_what_was_drawn_twice() -> None:
    made, last = stated_contracts(TWO, 3, insecure=True), tallies_of(TWO, FILLED)[1]
    before = started(made, 1, SeededEntropy(8))
    resumed = Synthesis.resumed(before.period, made, before.states, (Period(1),))
    after, steps = before.step(last, SeededEntropy(8))
    again, same = resumed.step(last, SeededEntropy(8))
    assert (before.redrawn, again.redrawn) == ((), (1,))
    assert again.spent > after.spent
    for name in steps:
        assert steps[name].counts.tolist() == same[name].counts.tolist()
