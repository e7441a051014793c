"""What a period publishes, in which order, and what its ledger record says of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from streamproc.offline.replay import tallies_of
from streamproc.privacy.types import Period
from streamproc.protocol.columns import ColumnChunk, ContractRecord, decode_synthetic
from streamproc.protocol.ledger import PeriodRecord, decode_ledger, digest
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.entropy import SeededEntropy, SystemEntropy
from streamproc.study import Study, WindowRelease
from streamproc.synthesizer.outbox import PendingRelease, build_pending_release
from tests.synthesizer.study_runs import HISTORIES, STUDY

TOPICS = Topics(STUDY.name)
SALT = b"s" * 32


def drafts(study: Study = STUDY) -> list[PendingRelease]:
    """Of three periods."""
    synthesis = Synthesis.start(stated_contracts(study, len(HISTORIES), insecure=True))
    made: list[PendingRelease] = []
    for tally in tallies_of(study, HISTORIES):
        before = synthesis
        synthesis, steps = before.step(tally, SeededEntropy(1))
        made.append(
            build_pending_release(TOPICS, before, synthesis, steps, made[-1].digest if made else b"0" * 32, salt=SALT)
        )
    return made


def record_of(drafted: PendingRelease) -> PeriodRecord:
    record = decode_ledger(drafted.outgoing[-1].value)
    assert isinstance(record, PeriodRecord)
    return record


def test_the_ledger_record_goes_last_and_is_what_is_announced() -> None:
    for drafted in drafts():
        *others, last = drafted.outgoing
        assert (last.topic, digest(last.value)) == (TOPICS.ledger, drafted.digest)
        assert record_of(drafted).previous == drafted.previous
        assert not any(isinstance(decode_ledger(r.value), PeriodRecord) for r in others if r.topic == TOPICS.ledger)


def test_the_ledger_record_is_salted_so_that_its_digest_confirms_no_guess() -> None:
    """Who guesses all that a record says cannot tell from the announced digest whether the guess is right."""
    for drafted in drafts():
        record = record_of(drafted)
        assert record.salt == SALT
        for guess in (None, bytes(32)):
            assert digest(replace(record, salt=guess).encode()) != drafted.digest


def test_salts_of_the_system_differ_and_those_of_a_seed_repeat() -> None:
    salts = [SystemEntropy().salt(Period(1)) for _ in range(2)]
    seeded = [SeededEntropy(seed).salt(Period(period)) for seed, period in ((1, 1), (1, 1), (1, 2), (2, 1))]

    assert {len(salt) for salt in salts + seeded} == {32}
    assert len({*salts, *seeded}) == 5
    assert seeded[0] == seeded[1]


def test_columns_go_before_anything_of_the_ledger() -> None:
    for drafted in drafts():
        topics = [record.topic == TOPICS.ledger for record in drafted.outgoing]
        assert topics == sorted(topics)


def test_a_contract_goes_once_before_the_first_column() -> None:
    for release in STUDY.releases:
        values = [r.value for drafted in drafts() for r in drafted.outgoing if r.topic == TOPICS.synthetic(release.name)]
        contract, *columns = [decode_synthetic(value) for value in values]
        assert isinstance(contract, ContractRecord)
        assert [column.period for column in columns if isinstance(column, ColumnChunk)] == [1, 2, 3]


def test_a_window_of_the_paper_shows_no_output_and_no_spending_before_it_is_full() -> None:
    paper = WindowRelease("w", 2, measure="paper")
    first = record_of(drafts(replace(STUDY, releases=(paper,)))[0]).releases["w"]
    assert (first.columns, first.n_star, first.rho, first.rho_spent) == ((), None, 0.0, 0.0)


def test_what_a_period_adds_is_what_the_running_total_grows_by_rounded_up() -> None:
    records = [record_of(drafted) for drafted in drafts()]
    for name in records[0].releases:
        totals = [Fraction(0), *(Fraction(record.releases[name].rho_spent) for record in records)]
        for record, before, after in zip(records, totals, totals[1:], strict=False):
            added = Fraction(record.releases[name].rho)
            assert after - before <= added <= (after - before) * Fraction(1 + 2**-52)
