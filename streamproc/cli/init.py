"""`init`: create a study's topics, and show what each role must be allowed."""

from __future__ import annotations

import click

from streamproc.cli.deployed import on_deployment, run_once, timeout_option
from streamproc.ports.topic_setup import set_up_topics
from streamproc.service.access import acl_commands
from streamproc.service.deployment import Deployment
from streamproc.wire.topics import Role


@click.command()
@on_deployment
@timeout_option()
@click.option("--print", "only_print", is_flag=True, help="Only show what would be created and allowed.")
def init(deployment: Deployment, *, only_print: bool) -> None:
    """Create a study's topics, and show the ACLs each role needs."""
    if not only_print:
        created = run_once(deployment, _create(deployment))
        click.echo(f"created topics {', '.join(created)}" if created else "all topics are there, with the right settings")
    for line in acl_commands(deployment.study):
        click.echo(line)


async def _create(deployment: Deployment) -> list[str]:
    async with deployment.connect() as log:
        await deployment.check_begun(log)
        return await set_up_topics(log, deployment.study, Role.STEWARD)
