"""A synthesis that went through the state file, or was rebuilt from what is public and the tallies, goes on unchanged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import Refused
from streamproc.offline.replay import tallies_of
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.ledger import Intent, StudyRecord, digest
from streamproc.protocol.ledger_verifier import VerifiedLedger, verify_chain
from streamproc.protocol.state_file import pack_arrays, seal, unpack_arrays, unseal
from streamproc.protocol.topics import Topics
from streamproc.releases.kind import ReleaseState
from streamproc.releases.step import Measurements, Step
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import Study
from streamproc.study.fingerprint import public_values
from streamproc.synthesizer.checkpoint import (
    STATE_FILE,
    Checkpoint,
    from_arrays,
    local_state,
    mark_published,
    read_checkpoint,
    restore_checkpoint,
    to_arrays,
    write_checkpoint,
)
from streamproc.synthesizer.outbox import OutgoingRecord, PendingRelease, build_pending_release
from streamproc.synthesizer.tally_reader import StudyTally
from tests.releases.random_studies import contracts_of, histories_of, studies
from tests.stream_model.memory_folder import MemoryStateFolder

MARK = b"m" * 32
ENTROPY = SeededEntropy(11)


@dataclass
class Run:
    """A study up to some period, with all it published on the way."""

    study: Study
    tallies: list[dict[str, IntArray]]
    """Of all periods."""
    people: int
    synthesis: Synthesis
    steps: list[dict[str, Step]]
    drafts: list[PendingRelease]

    @property
    def period(self) -> int:
        return len(self.steps)

    def ledger(self, *intents: Intent) -> VerifiedLedger:
        """Its ledger, with these intents at the end."""
        topic = Topics(self.study.name).ledger
        values = [study_record(self.study)]
        for drafted in self.drafts:
            values.append(Intent(drafted.period, drafted.digest).encode())
            values += [record.value for record in drafted.outgoing if record.topic == topic]
        ledger = verify_chain(values + [intent.encode() for intent in intents])
        assert ledger is not None
        return ledger


def study_record(study: Study) -> bytes:
    return StudyRecord(public_values(study), MARK, insecure=True).encode()


@st.composite
def runs(draw: st.DrawFn) -> Run:
    study = draw(studies())
    filled = draw(histories_of(study))
    promised = draw(contracts_of(study, len(filled)))
    tallies = tallies_of(study, filled)
    synthesis, steps, drafts = Synthesis.start(promised), [], []
    head = digest(study_record(study))
    for tally in tallies[: draw(st.integers(0, study.last_period))]:
        before = synthesis
        synthesis, taken = before.step(tally, ENTROPY)
        drafts.append(build_pending_release(Topics(study.name), before, synthesis, taken, head, salt=MARK))
        steps.append(taken)
        head = drafts[-1].digest
    return Run(study, tallies, len(filled), synthesis, steps, drafts)


def check_same(some: Synthesis, other: Synthesis) -> None:
    assert (some.period, some.redrawn, some.spent) == (other.period, other.redrawn, other.spent)
    assert some.states.keys() == other.states.keys()
    for name in some.states:
        assert some.contracts[name].to_dict() == other.contracts[name].to_dict()
        assert some.accountants[name].spent == other.accountants[name].spent
        check_same_state(some.states[name], other.states[name])


def check_same_state(some: ReleaseState, other: ReleaseState) -> None:
    assert type(some) is type(other)
    for name, value in vars(some).items():
        twin = getattr(other, name)
        if isinstance(value, tuple):
            assert [array.tolist() for array in value] == [array.tolist() for array in twin]
        elif isinstance(value, np.ndarray):
            assert (value.dtype, value.tolist()) == (twin.dtype, twin.tolist())
        else:
            assert value == twin


def check_goes_on_alike(run: Run, other: Synthesis) -> None:
    """The rest of the study under the same seed, to the last byte."""
    synthesis = run.synthesis
    topics = Topics(run.study.name)
    for tally in run.tallies[run.period :]:
        before, other_before = synthesis, other
        synthesis, steps = before.step(tally, ENTROPY)
        other, other_steps = other_before.step(tally, ENTROPY)
        assert build_pending_release(topics, before, synthesis, steps, MARK, salt=MARK) == build_pending_release(
            topics, other_before, other, other_steps, MARK, salt=MARK
        )


@given(runs())
def test_a_synthesis_comes_back_from_its_arrays_and_goes_on_alike(run: Run) -> None:
    arrays = unpack_arrays(pack_arrays(to_arrays(run.synthesis)))
    again = from_arrays(run.synthesis.contracts, run.synthesis.period, arrays, run.synthesis.redrawn)

    check_same(again, run.synthesis)
    check_goes_on_alike(run, again)


@given(runs(), st.booleans())
def test_a_state_file_holds_all_there_is_to_remember(run: Run, settled: bool) -> None:
    state_folder = MemoryStateFolder()
    drafted = run.drafts[-1] if run.drafts else PendingRelease(Period(0), MARK, MARK, ())
    size = write_checkpoint(state_folder, MARK, Checkpoint(run.synthesis, drafted, (b"a" * 32,)))
    if settled:
        mark_published(state_folder, MARK, drafted)
    stored = read_checkpoint(state_folder, MARK)

    assert stored is not None
    assert size == len(state_folder.files[STATE_FILE])
    check_same(stored.synthesis, run.synthesis)
    assert stored.pending == drafted
    assert stored.abandoned == (b"a" * 32,)
    found = local_state(state_folder, MARK, stored)
    assert found is not None
    assert (found.period, found.digest, found.previous) == (run.period, drafted.digest, drafted.previous)
    assert (found.published, found.abandoned) == (settled or not drafted.outgoing, (b"a" * 32,))


@given(runs())
def test_a_restored_period_is_settled_whatever_became_of_its_mark(run: Run) -> None:
    state_folder = MemoryStateFolder()
    write_checkpoint(state_folder, MARK, Checkpoint(run.synthesis, PendingRelease(run.synthesis.period, MARK, MARK, ())))

    found = local_state(state_folder, MARK, read_checkpoint(state_folder, MARK))

    assert found is not None and found.published


def test_no_state_file_is_nothing_to_remember() -> None:
    assert read_checkpoint(MemoryStateFolder(), MARK) is None
    assert local_state(MemoryStateFolder(), MARK, None) is None


@given(runs(), st.sampled_from(["contracts", "period", "redrawn", "arrays", "outgoing", "digest", "previous", "abandoned"]))
def test_a_state_file_that_lacks_a_part_is_refused(run: Run, part: str) -> None:
    state_folder = MemoryStateFolder()
    write_checkpoint(
        state_folder, MARK, Checkpoint(run.synthesis, PendingRelease(Period(0), MARK, MARK, (OutgoingRecord("t", b"v"),)))
    )
    state = unpack_arrays(unseal(state_folder.files[STATE_FILE], MARK))
    state_folder.files[STATE_FILE] = seal(MARK, pack_arrays({name: value for name, value in state.items() if name != part}))

    with pytest.raises(Refused, match="its content does not fit together"):
        read_checkpoint(state_folder, MARK)


def measurements(run: Run, name: str) -> list[Measurements]:
    """As they are read from the ledger: one run of numbers a period, to be split again."""
    contract = run.synthesis.contracts[name]
    flat = [np.concatenate([np.zeros(0, dtype=np.int64), *steps[name].measurements]) for steps in run.steps]
    return [contract.split_measurements(numbers, Period(t)) for t, numbers in enumerate(flat, start=1)]


@given(runs())
def test_a_state_is_rebuilt_from_columns_tallies_and_measurements(run: Run) -> None:
    for name, state in run.synthesis.states.items():
        columns = [column for steps in run.steps for column in steps[name].columns]
        tallies = [tally[name] for tally in run.tallies[: run.period]]
        again = run.synthesis.contracts[name].rebuild_state(columns, tallies, measurements(run, name))

        check_same_state(again, state)


def restore(run: Run, ledger: VerifiedLedger) -> Checkpoint:
    columns = {name: [c for steps in run.steps for c in steps[name].columns] for name in run.synthesis.contracts}
    tallies = [StudyTally(Period(t), run.people, counts) for t, counts in enumerate(run.tallies[: run.period], start=1)]
    measured = {name: measurements(run, name) for name in run.synthesis.contracts}
    return restore_checkpoint(ledger, run.synthesis.contracts, columns, measured, tallies)


@given(runs(), st.integers(0, 2))
def test_a_restored_study_goes_on_alike_and_pays_for_lost_draws(run: Run, lost: int) -> None:
    intents = [Intent(Period(run.period + 1), bytes([number]) * 32) for number in range(lost)]
    ledger = run.ledger(*intents)
    stored = restore(run, ledger)

    assert stored.abandoned == tuple(intent.digest for intent in intents)
    assert stored.synthesis.redrawn == (run.period + 1,) * lost
    assert (stored.pending.period, stored.pending.digest) == (run.period, ledger.head)
    if not lost:
        check_same(stored.synthesis, run.synthesis)
        check_goes_on_alike(run, stored.synthesis)
    elif run.period < run.study.last_period:
        after, _ = stored.synthesis.step(run.tallies[run.period], ENTROPY)
        planned, _ = run.synthesis.step(run.tallies[run.period], ENTROPY)
        free = all(planned.accountants[name].spent == run.synthesis.accountants[name].spent for name in planned.contracts)
        assert after.spent > planned.spent or free


@given(runs())
def test_a_restore_that_does_not_agree_with_the_ledger_about_the_spending_is_refused(run: Run) -> None:
    ledger = run.ledger()
    if not ledger.periods:
        return
    for release in ledger.periods[-1].releases.values():
        object.__setattr__(release, "rho_spent", release.rho_spent + 1.0)

    with pytest.raises(Refused, match="but the ledger says"):
        restore(run, ledger)
