"""`init`: create a study's topics, and print the ACLs that each role needs."""

from __future__ import annotations

import click

from streamproc.cli.event_loop import run_once
from streamproc.log.topic_setup import acl_commands, set_up_topics
from streamproc.protocol.topics import Role
from streamproc.service.deployment import Deployment


def init(deployment: Deployment, *, only_print: bool) -> None:
    """Create the topics that do not exist, and print the ACL commands; with `only_print` create nothing."""
    if not only_print:
        created = run_once(deployment, _create_topics(deployment))
        click.echo(f"created topics {', '.join(created)}" if created else "all topics are there, with the right settings")
    for line in acl_commands(deployment.study):
        click.echo(line)


async def _create_topics(deployment: Deployment) -> list[str]:
    async with deployment.connect() as log:
        await deployment.require_same_ledger(log)
        return await set_up_topics(log, deployment.study, Role.STEWARD)
