"""Creates the topics of a study, or checks the settings of existing ones.

On a cluster with ACLs each role needs permissions for these topics: `acl_commands` lists them for `kafka-acls`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from streamproc.errors import NoSuchTopic, NotAllowed, PolicyViolated, Refused, TopicsNotSetUp
from streamproc.log.control_topic import append_key
from streamproc.log.port import Log, TopicSettings
from streamproc.protocol.topics import Access, Role, Topics
from streamproc.study import Study


def wanted_settings(study: Study, brokers: int) -> dict[str, TopicSettings]:
    """Return the settings of each topic of the study: one replica on a single broker, else three with two in sync.

    Two brokers are most likely a cluster of three of which one is down, so they do not get topics with one replica.
    """
    replication, in_sync = (1, 1) if brokers == 1 else (3, 2)
    return {
        access.topic: TopicSettings(
            partitions=study.broker.partitions if access.partitioned else 1,
            retention_ms=access.retention_ms,
            replication=replication,
            min_insync_replicas=in_sync,
        )
        for access in study_access(study)
    }


def study_access(study: Study) -> tuple[Access, ...]:
    """Return every topic of the study and the access that each role needs."""
    releases = [release.name for release in study.releases]
    return Topics(study.name).access(releases, scheduled=study.schedule is not None)


_INIT_HELPS = "`streamproc init`, run by the steward, creates it and shows which permissions each role needs"


async def set_up_topics(log: Log, study: Study, role: Role | None = None) -> list[str]:
    """Create missing topics, check existing ones, append the study's key, and return the names of the created topics.

    Raises NotAllowed if `role` may not see a topic that it uses; the steward uses all topics. Other denials are ignored,
    because most roles see only some of the topics and create none. Raises PolicyViolated for every role, because then the
    topic does not exist although the user may create topics. Raises Refused if a topic has other settings.
    """
    access = {each.topic: each for each in study_access(study)}
    there = await log.topics()
    created = []
    for topic, settings in wanted_settings(study, await log.brokers()).items():
        try:
            if topic in there:
                await check_topic(log, topic, settings)
            else:
                await log.create_topic(topic, settings)
                created.append(topic)
        except PolicyViolated:
            raise
        except NotAllowed as denied:
            if role is Role.STEWARD or (role is not None and access[topic].used_by(role)):
                raise denied if topic in there else NotAllowed(_not_created(topic, role, denied)) from None
    try:
        await append_key(log, study)
    except (NotAllowed, NoSuchTopic):
        if role is Role.STEWARD:
            raise
    return created


def _not_created(topic: str, role: Role, denied: NotAllowed) -> str:
    if role is Role.STEWARD:  # The steward runs `init`, so the message does not advise to run it.
        return f"{denied}; `streamproc init --print` shows the permissions that the steward needs"
    return f"topic {topic}: this user may not create it, and it does not exist or this user may not see it; {_INIT_HELPS}"


async def check_topics(log: Log, study: Study, role: Role) -> None:
    """Check every topic that the role can see, and create none.

    Raises TopicsNotSetUp if topics that the role uses do not exist or `init` has not finished, NotAllowed if the role may
    not see one of them, and Refused if a topic has other settings than the study needs. The role must be one that reads the
    control topic.
    """
    access = {each.topic: each for each in study_access(study)}
    there = await log.topics()
    missing = []
    for topic, settings in wanted_settings(study, await log.brokers()).items():
        used = access[topic].used_by(role)
        try:
            if topic not in there:
                if not used:
                    continue
                # Kafka does not list a topic that this user may not see. A request for it by name returns the reason.
                await log.start_offset(topic, 0)
            await check_topic(log, topic, settings)
        except NoSuchTopic:
            if used:
                missing.append(topic)
        except NotAllowed as denied:
            if used:
                raise (
                    denied
                    if topic in there
                    else NotAllowed(f"topic {topic}: does not exist, or this user may not see it; {_INIT_HELPS}")
                ) from None
    if missing:
        advice = "check the study's name and the broker, or create the topics with `streamproc init`"
        raise TopicsNotSetUp(missing, f"study {study.name}: there is no topic {', '.join(missing)} on this broker; {advice}")
    control = Topics(study.name).control
    if await log.high_watermark(control, 0) == 0:
        raise TopicsNotSetUp([control], f"topic {control}: holds no key, so `streamproc init` did not finish; run it again")


async def check_topic(log: Log, topic: str, wanted: TopicSettings) -> None:
    """Raise Refused, with the differences, if a topic has other settings than the study needs."""
    found = await log.settings_of(topic)
    different = [
        f"{field.name} {getattr(found, field.name)} instead of {getattr(wanted, field.name)}"
        for field in fields(TopicSettings)
        if not _good_enough(field.name, getattr(found, field.name), getattr(wanted, field.name))
    ]
    if different:
        raise Refused(f"topic {topic}: has {', '.join(different)}; fix the topic or use another study name")


def _good_enough(name: str, found: object, wanted: object) -> bool:
    """Return whether a setting is sufficient: more replicas than needed are allowed, other settings must be equal."""
    if name in ("replication", "min_insync_replicas"):
        assert isinstance(found, int) and isinstance(wanted, int)
        return found >= wanted
    return found == wanted


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
