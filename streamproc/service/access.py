"""Who may do what with a study's topics, as commands for Kafka's own tool."""

from __future__ import annotations

from collections.abc import Iterator

from streamproc.ports.topic_setup import wanted_settings
from streamproc.study import Study
from streamproc.wire.topics import Role, Topics

_ROLES_IN_GROUP = (Role.GATHERER,)


def acl_commands(study: Study) -> Iterator[str]:
    """One `kafka-acls` line per permission; principals are named after the roles."""
    topics = Topics(study.name)
    yield f"# topics of study {study.name}"
    for topic, settings in wanted_settings(study, brokers=3).items():
        keep = "for ever" if settings.retention_ms < 0 else f"{settings.retention_ms // 86_400_000} days"
        yield f"#   {topic}: partitions {settings.partitions}, kept {keep}"
    for role in Role:
        yield f"# {role.value}"
        for access in topics.access([release.name for release in study.releases]):
            operations = []
            if role in access.writes:
                operations += ["Write", "Describe"]
            if role in access.reads:
                operations += ["Read", "Describe"]
            if role in access.measures:
                operations += ["Describe"]
            if operations:
                operations.append("DescribeConfigs")  # each role checks that its topics are set up as they must be
                flags = " ".join(f"--operation {operation}" for operation in dict.fromkeys(operations))
                yield f"kafka-acls --add --allow-principal User:{role.value} {flags} --topic {access.topic}"
        if role is Role.SYNTHESIZER:
            yield (
                f"kafka-acls --add --allow-principal User:{role.value} --operation Write --operation Describe "
                f"--transactional-id {topics.transactional_id}"
            )
        if role in _ROLES_IN_GROUP:
            yield f"kafka-acls --add --allow-principal User:{role.value} --operation Read --group {topics.group}"
