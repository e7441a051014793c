"""Names of topics, and who may do what with them: the table of the design."""

from __future__ import annotations

from streamproc.wire.topics import EVERYONE, Role, Topics

TOPICS = Topics("poverty")


def test_names_begin_with_the_study() -> None:
    assert TOPICS.reports == "poverty.reports"
    assert TOPICS.synthetic("quarterly") == "poverty.synthetic.quarterly"
    assert (TOPICS.transactional_id, TOPICS.group) == ("poverty.synthesizer", "poverty.gather")


def test_every_topic_has_its_writers_and_readers() -> None:
    access = {each.topic.removeprefix("poverty."): each for each in TOPICS.access(["a", "b"])}

    assert {name: (set(each.writes), set(each.reads)) for name, each in access.items()} == {
        "reports": ({Role.REPORTER}, {Role.GATHERER}),
        "control": ({Role.STEWARD, Role.SYNTHESIZER}, {Role.STEWARD, Role.SYNTHESIZER, Role.GATHERER}),
        "tallies": ({Role.GATHERER}, {Role.SYNTHESIZER}),
        "rejects": ({Role.GATHERER}, {Role.OPERATOR}),
        "ledger": ({Role.SYNTHESIZER}, EVERYONE),
        "synthetic.a": ({Role.SYNTHESIZER}, EVERYONE),
        "synthetic.b": ({Role.SYNTHESIZER}, EVERYONE),
    }


def test_only_reports_are_partitioned_and_only_rejects_expire() -> None:
    access = TOPICS.access(["a"])

    assert [each.topic for each in access if each.partitioned] == ["poverty.reports"]
    assert [each.topic for each in access if each.retention_ms != -1] == ["poverty.rejects"]


def test_nobody_who_may_read_everything_public_reads_what_is_secret() -> None:
    secret = [each for each in TOPICS.access([]) if each.topic in (TOPICS.reports, TOPICS.control, TOPICS.tallies)]

    assert all(Role.ANALYST not in each.reads | each.writes | each.measures for each in secret)
