"""The permissions that each role needs on a cluster with ACLs, as commands for `kafka-acls`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamproc.log.topic_setup import study_access, wanted_settings
from streamproc.protocol.topics import Access, Role, Topics
from streamproc.study import Study


@dataclass(frozen=True)
class Permission:
    """The operations that one role needs on one resource. Read, Write and Delete include Describe."""

    role: Role
    operations: Sequence[str]
    resource: str
    """`--topic NAME`, `--group NAME` or `--transactional-id NAME`."""

    def __str__(self) -> str:
        operations = " ".join(f"--operation {operation}" for operation in self.operations)
        return f"kafka-acls --add --allow-principal User:{self.role.value} {operations} {self.resource}"


def permissions(study: Study) -> list[Permission]:
    """The permissions that a study needs until its last period is released. Principals are named after the roles."""
    topics = Topics(study.name)
    needed = [
        Permission(role, operations, f"--topic {access.topic}")
        for role in Role
        for access in study_access(study)
        if (operations := _operations(access, role))
    ]
    needed.append(Permission(Role.GATHERER, ["Read"], f"--group {topics.group}"))
    # Only the synthesizer: any producer with this transactional id can fence it and abort its transactions.
    needed.append(Permission(Role.SYNTHESIZER, ["Write"], f"--transactional-id {topics.transactional_id}"))
    return needed


def purge_permissions(study: Study) -> list[Permission]:
    """The additional permissions that the steward needs to purge the study."""
    return [
        Permission(Role.STEWARD, ["Delete"], f"--topic {access.topic}")
        for access in study_access(study)
        if not access.public
    ]


def acl_commands(study: Study) -> Iterator[str]:
    """The lines of a shell script of `kafka-acls` commands, with a section for each role."""
    yield f"# topics of study {study.name}"
    for topic, settings in wanted_settings(study, brokers=3).items():
        keep = "forever" if settings.retention_ms < 0 else f"{settings.retention_ms // 86_400_000} days"
        yield f"#   {topic}: partitions {settings.partitions}, kept {keep}"
    needed = permissions(study)
    for role in Role:
        yield f"# {role.value}"
        yield from (str(permission) for permission in needed if permission.role is role)
    yield f"# {Role.STEWARD.value}, when the study is over, to purge it"
    yield from map(str, purge_permissions(study))


def _operations(access: Access, role: Role) -> list[str]:
    operations = []
    if role is Role.STEWARD:
        operations.append("Create")
    if role in access.writes:
        operations.append("Write")
    if role in access.reads:
        operations.append("Read")
    if not operations or operations == ["Create"]:
        measures = role in access.measures or role is Role.STEWARD
        operations += ["Describe"] if measures else []
    if operations and role in (Role.GATHERER, Role.SYNTHESIZER, Role.STEWARD):
        operations.append("DescribeConfigs")  # they check the settings of their topics
    return operations
