"""What a release spent and which counts it shows are recomputed from public values alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from streamproc.errors import VerificationFailed
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.columns import ColumnAssembler, ColumnChunk, ContractRecord, decode_synthetic
from streamproc.protocol.ledger import Intent, StudyRecord, digest
from streamproc.protocol.ledger_verifier import VerifiedLedger, verify_chain
from streamproc.protocol.release_audit import ReleaseAudit, check_due_columns, check_same_people
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.synthesis import Synthesis
from streamproc.releases.tally_state import TallyState
from streamproc.releases.window import WindowContract
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, PatternRelease, Release, SpellRelease, Study, WindowRelease
from streamproc.study.releases import Measure
from streamproc.synthesizer.outbox import build_pending_release
from tests.forged import cheaper, rechained, with_column, with_measurements, with_release, with_unpaid_redraw
from tests.studies import CLOSED_ADJACENCIES, build_study

N = 60
LOST = bytes([5] * 32)


@dataclass(frozen=True)
class Published:
    """The public topics of a study, as lists of values."""

    study: Study
    ledger: list[bytes]
    columns: Mapping[str, Sequence[bytes]]


def published(study: Study, *, redrawn: Sequence[int] = (), seed: int = 1, padded: bool = True) -> Published:
    """The study over random histories; the first draw of each `redrawn` period was announced and lost."""
    rng, topics = np.random.default_rng(seed), Topics(study.name)
    again = tuple(Period(period) for period in redrawn)
    made = stated_contracts(study, N, insecure=True)
    if not padded:
        made = {name: replace(each, n_pad=0) if isinstance(each, WindowContract) else each for name, each in made.items()}
    begun = Synthesis.start(made)
    synthesis = Synthesis.resumed(Period(0), begun.contracts, begun.states, again)
    cohort = TallyState.of(study, N)
    ledger = [StudyRecord({}, bytes(32), insecure=True).encode()]
    head = digest(ledger[0])
    columns: dict[str, list[bytes]] = {release.name: [] for release in study.releases}
    for period in range(1, study.last_period + 1):
        cohort, tally = cohort.fold(rng.integers(0, study.q, N).astype(np.uint8))
        after, steps = synthesis.step(tally, SeededEntropy(seed))
        lost = (LOST,) * (period in redrawn)
        drafted = build_pending_release(topics, synthesis, after, steps, head, bytes(32), lost)
        ledger += [Intent(Period(period), each).encode() for each in (*lost, drafted.digest)]
        for record in drafted.outgoing:
            (ledger if record.topic == topics.ledger else columns[record.topic.rpartition(".")[2]]).append(record.value)
        synthesis, head = after, drafted.digest
    return Published(study, ledger, columns)


def audit(public: Published, name: str | None = None) -> VerifiedLedger:
    """Check every release, or one, period by period; returns the ledger."""
    ledger = verify_chain(public.ledger)
    assert ledger is not None
    check_due_columns(public.study.releases, ledger)
    for release in public.study.releases:
        if name in (None, release.name):
            contract, *chunks = [decode_synthetic(value) for value in public.columns[release.name]]
            assert isinstance(contract, ContractRecord)
            audited, assembler = ReleaseAudit(contract), ColumnAssembler(contract)
            for chunk in chunks:
                assert isinstance(chunk, ColumnChunk)
                column = assembler.add(chunk)
                assert column is not None
                audited.add_column(column.symbols, ledger)
            audited.check_spending(ledger)
    return ledger


def study_of(*releases: Release, rho: float = 0.5) -> Study:
    return build_study(*releases, horizon=6, rho=rho)


WINDOW = WindowRelease("w", k=2)
COUNT = CumulativeRelease("c", event=("1",), weights="rule")
SPELL = SpellRelease("s", event=("1",), length=3, weights="rule")
PATTERN = PatternRelease("p", pattern="1{2}", weights="rule")
BY_FLOW = study_of(WINDOW, COUNT, SPELL, PATTERN)
NAMES = ["w", "c", "s", "p"]


def measured_by(measure: Measure, k: int = 2) -> tuple[WindowRelease, CumulativeRelease]:
    count = replace(COUNT, measure=measure, weights=None if measure == "paper" else "rule")
    return replace(WINDOW, k=k, measure=measure), count


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
@pytest.mark.parametrize("measure", ["flow", "paper"])
@pytest.mark.parametrize("redrawn", [(), (1, 4)])
def test_what_a_study_publishes_is_what_is_recomputed(
    adjacency: Adjacency, measure: Measure, redrawn: Sequence[int]
) -> None:
    study = study_of(*measured_by(measure), SPELL, PATTERN)
    study = replace(study, privacy=replace(study.privacy, adjacency=adjacency))

    audit(published(study, redrawn=redrawn))


@pytest.mark.parametrize(("measure", "name"), [*(("flow", name) for name in NAMES), ("paper", "w"), ("paper", "c")])
@pytest.mark.parametrize("seed", range(4))
def test_only_counts_that_are_declared_as_clamped_may_differ(measure: Measure, seed: int, name: str) -> None:
    study = study_of(*measured_by(measure, k=3), SPELL, PATTERN, rho=0.01)
    public = published(study, seed=seed, padded=False)

    ledger = audit(public)

    clamped = [record.releases[name].clamped for record in ledger.periods]
    assert any(clamped)
    silent = rechained(public.ledger, with_release(name, clamped=0))
    with pytest.raises(VerificationFailed, match=rf"release {name}, period \d: .* declares 0 of them as clamped"):
        audit(replace(public, ledger=silent), name)


@pytest.mark.parametrize("factor", [1 - 1e-12, 0.5, 1 / 125_000])
@pytest.mark.parametrize("name", NAMES)
def test_a_ledger_that_states_less_than_the_noise_cost_is_found(name: str, factor: float) -> None:
    public = published(BY_FLOW)

    with pytest.raises(VerificationFailed, match=f"release {name} states that it has spent rho .* cost rho"):
        audit(replace(public, ledger=cheaper(public.ledger, name, factor)))


def test_a_ledger_may_state_more() -> None:
    public = published(BY_FLOW)

    audit(replace(public, ledger=cheaper(public.ledger, "w", 1.5)))


@pytest.mark.parametrize("period", [2, 5])
@pytest.mark.parametrize("name", NAMES)
def test_a_draw_that_was_abandoned_and_not_charged_is_found(name: str, period: int) -> None:
    public = published(BY_FLOW)

    with pytest.raises(
        VerificationFailed, match=f"period {period}: release {name} .* {period} periods with 1 repeated draws cost rho"
    ):
        audit(replace(public, ledger=with_unpaid_redraw(public.ledger, period)), name)


@pytest.mark.parametrize("period", [2, 5])
@pytest.mark.parametrize("name", NAMES)
def test_counts_that_do_not_follow_from_the_measurements_are_found(name: str, period: int) -> None:
    public = published(BY_FLOW)

    def all_ones(symbols: Any) -> Any:
        return np.ones_like(symbols)

    ledger, columns = with_column(public.ledger, public.columns[name], name, period, all_ones)
    forged = replace(public, ledger=ledger, columns={**public.columns, name: columns})
    with pytest.raises(VerificationFailed, match=rf"release {name}, period {period}: \d+ of its \d+ counts do not follow"):
        audit(forged, name)
    everything = rechained(ledger, with_release(name, clamped=1000))
    with pytest.raises(VerificationFailed, match=f"release {name}, period {period}"):
        audit(replace(forged, ledger=everything), name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("moved", [2**62, -(2**63), 10_000_000])
def test_other_measurements_than_the_columns_were_made_from_are_found(name: str, moved: int) -> None:
    public = published(BY_FLOW)

    def change(data: IntArray) -> IntArray:
        data[0] = moved
        return data

    ledger = with_measurements(public.ledger, name, 3, change)
    with pytest.raises(VerificationFailed, match=f"release {name}, period 3: "):
        audit(replace(public, ledger=ledger), name)


@pytest.mark.parametrize("name", NAMES)
def test_another_number_of_measurements_than_the_contract_makes_is_found(name: str) -> None:
    public = published(BY_FLOW)

    ledger = with_measurements(public.ledger, name, 3, lambda data: data[:-1])
    with pytest.raises(VerificationFailed, match=f"period 3: release {name} has . measurements, not the"):
        audit(replace(public, ledger=ledger), name)


def test_a_release_without_the_columns_that_are_due_is_found() -> None:
    public = published(BY_FLOW)

    without = rechained(public.ledger, with_release("w", columns=()))
    with pytest.raises(VerificationFailed, match="period 6: release w must have 6 columns by then"):
        audit(replace(public, ledger=without))


def test_a_ledger_of_other_releases_than_the_study_is_found() -> None:
    public = published(BY_FLOW)

    with pytest.raises(VerificationFailed, match="releases are not those of the study"):
        audit(replace(public, study=study_of(WINDOW)))


def test_contracts_about_different_numbers_of_people_are_found() -> None:
    records = {}
    for name, n in (("w", N), ("c", N + 1)):
        contract = stated_contracts(BY_FLOW, n, insecure=True)[name]
        assert contract.n_star is not None
        records[name] = ContractRecord(contract, contract.n_star)

    with pytest.raises(VerificationFailed, match="w, c state different numbers of people"):
        check_same_people(records)


def test_each_period_is_recomputed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status page calls the audit again with every record that comes."""
    public = published(study_of(COUNT))
    contract = decode_synthetic(public.columns["c"][0])
    assert isinstance(contract, ContractRecord)
    asked: list[int] = []
    mechanism = type(contract.contract.mechanism)
    cost = mechanism.cost

    def recorded(self: Any, period: Period, *more: Any) -> Any:
        asked.append(period)
        return cost(self, period, *more)

    monkeypatch.setattr(mechanism, "cost", recorded)
    audited = ReleaseAudit(contract)
    for length in range(len(public.ledger)):
        ledger = verify_chain(public.ledger[: length + 1])
        assert ledger is not None
        audited.check_spending(ledger)

    assert asked == [1, 2, 3, 4, 5, 6]
