"""The topics of a study: created with the right settings, or checked and refused with the difference."""

from __future__ import annotations

from dataclasses import fields

from streamproc.errors import NoSuchTopic, NotAllowed, PolicyViolated, Refused, TopicsNotSetUp
from streamproc.log.control_topic import append_key
from streamproc.log.port import Log, TopicSettings
from streamproc.protocol.topics import Access, Role, Topics
from streamproc.study import Study


def wanted_settings(study: Study, brokers: int) -> dict[str, TopicSettings]:
    """How each topic of the study must be set up: three copies of which two are in step, but for a single broker.

    Two brokers are most likely three of which one is down: then topics must not be created with one copy.
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
    """Every topic of the study, and who must do what with it."""
    releases = [release.name for release in study.releases]
    return Topics(study.name).access(releases, scheduled=study.schedule is not None)


_INIT_HELPS = "`streamproc init`, run by the steward, creates it and shows who needs to be allowed what"


async def set_up_topics(log: Log, study: Study, role: Role | None = None) -> list[str]:
    """Create what is missing, check what is there, and give the study its key; answers with the topics created.

    A `role` must see each topic that it uses, and that it is set up right; the steward uses them all. Anything else that is
    denied here is not its business: most roles see only some of the topics, and create none. PolicyViolated is raised to any
    role: then the topic is not there, although the user may create topics.
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
        return f"{denied}; `streamproc init --print` shows what the steward must be allowed"
    return f"topic {topic}: this user may not create it, and it does not exist or this user may not see it; {_INIT_HELPS}"


async def check_topics(log: Log, study: Study, role: Role) -> None:
    """Check every topic that the role can see, and create none.

    Raises NotSetUp if topics that the role uses do not exist or `init` has not finished, NotAllowed if the role may not see
    one of them, and Refused if a topic has other settings than the study needs. The role must be one that reads control.
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
                # Kafka leaves a topic that we may not see out of the list; asked for it by name, it says why.
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
    """Refuse a topic with other settings than the study needs, and say which."""
    found = await log.settings_of(topic)
    different = [
        f"{field.name} {getattr(found, field.name)} instead of {getattr(wanted, field.name)}"
        for field in fields(TopicSettings)
        if not _good_enough(field.name, getattr(found, field.name), getattr(wanted, field.name))
    ]
    if different:
        raise Refused(f"topic {topic}: has {', '.join(different)}; mend the topic or use another study name")


def _good_enough(name: str, found: object, wanted: object) -> bool:
    """More copies than needed are welcome; everything else must be equal."""
    if name in ("replication", "min_insync_replicas"):
        assert isinstance(found, int) and isinstance(wanted, int)
        return found >= wanted
    return found == wanted
