"""Names of topics, and who may do what with them: the table of the design."""

from __future__ import annotations

from streamproc.protocol.topics import Role, Topics

TOPICS = Topics("poverty")


def test_names_begin_with_the_study() -> None:
    assert TOPICS.reports == "poverty.reports"
    assert TOPICS.synthetic("quarterly") == "poverty.synthetic.quarterly"
    assert (TOPICS.transactional_id, TOPICS.group) == ("poverty.synthesizer", "poverty.gather")


def test_every_topic_has_its_writers_and_readers() -> None:
    access = {each.topic.removeprefix("poverty."): each for each in TOPICS.access(["a", "b"])}
    public = {Role.STEWARD, Role.SYNTHESIZER, Role.ANALYST}

    assert {name: (set(each.writes), set(each.reads), set(each.measures)) for name, each in access.items()} == {
        "reports": ({Role.REPORTER}, {Role.GATHERER}, {Role.STEWARD}),
        "control": ({Role.STEWARD}, {Role.STEWARD, Role.SYNTHESIZER, Role.GATHERER}, set()),
        "tallies": ({Role.GATHERER}, {Role.SYNTHESIZER}, set()),
        "rejects": ({Role.GATHERER}, {Role.GATHERER, Role.OPERATOR}, set()),
        "ledger": ({Role.SYNTHESIZER}, public | {Role.GATHERER}, set()),
        "synthetic.a": ({Role.SYNTHESIZER}, public, set()),
        "synthetic.b": ({Role.SYNTHESIZER}, public, set()),
    }
    assert [name for name, each in access.items() if each.public] == ["ledger", "synthetic.a", "synthetic.b"]


def test_a_synthesizer_with_a_schedule_makes_cuts_too() -> None:
    reports, control, *_ = TOPICS.access([], scheduled=True)

    assert reports.measures == control.writes == {Role.STEWARD, Role.SYNTHESIZER}


def test_only_reports_are_partitioned_and_only_rejects_expire() -> None:
    access = TOPICS.access(["a"])

    assert [each.topic for each in access if each.partitioned] == ["poverty.reports"]
    assert [each.topic for each in access if each.retention_ms != -1] == ["poverty.rejects"]


def test_nobody_who_may_read_everything_public_reads_what_is_secret() -> None:
    secret = [each for each in TOPICS.access(["a"], scheduled=True) if not each.public]

    assert [each.topic for each in secret] == [TOPICS.reports, TOPICS.control, TOPICS.tallies, TOPICS.rejects]
    assert not any(each.used_by(Role.ANALYST) for each in secret)
