"""Registers releases in the site registry, before any noise is drawn for them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from datetime import datetime

from streamproc.log.port import Log
from streamproc.privacy.types import Rho
from streamproc.protocol.registry_format import Composition, Entry, What, compose
from streamproc.releases.replace_one import replace_one_costs
from streamproc.service.deployment import Deployment
from streamproc.service.logging_setup import event
from streamproc.storage.site_registry import VARIABLE, Registration, SiteRegistry
from streamproc.study import Study
from streamproc.study.fingerprint import fingerprint

NOT_CHECKED = (
    f"{VARIABLE} is not set: nothing checks whether these people are in another study or replay, or on another broker; "
    "their budgets would add up"
)
"""The warning for a release without a site registry."""

NOBODY_KNOWN = (
    "the study has no roster, so its people are not known before period 1: the registry holds the study, but cannot "
    "recognise its people"
)

OTHERS_UNKNOWN = "the registry holds streams of other studies without a roster, whose people it cannot recognise"


def register_replay(
    registry: SiteRegistry, study: Study, ids: Sequence[str], now: datetime, *, insecure: bool, again: bool
) -> Registration:
    """Register a replay of these people. Raises Refused if some are registered already, unless `again` is True."""
    return registry.register(_entry(study, "replay", now, insecure=insecure), ids, again=again)


async def register_stream(
    deployment: Deployment, log: Log, *, again: bool, environ: Mapping[str, str] | None = None
) -> None:
    """Register the stream that a synthesizer is about to begin or to continue, and log the result.

    Raises Refused if some of its people are registered under another release, unless `again` is True.
    """
    registry = SiteRegistry.of(os.environ if environ is None else environ)
    if registry is None:
        if not again and deployment.seed is None and await log.high_watermark(deployment.topics.ledger, 0) == 0:
            event(NOT_CHECKED, logging.WARNING)
        return
    insecure, address = deployment.seed is not None, deployment.broker_address
    entry = _entry(deployment.study, "stream", deployment.clock.now(), insecure=insecure, broker=address)
    key = await deployment.control_key(log)
    registered = await asyncio.to_thread(registry.register, entry, deployment.roster, control_key=key, again=again)
    if registered.created:
        event("created the site registry", path=str(registry.path))
    if deployment.roster is None:
        event(NOBODY_KNOWN, logging.WARNING)
    if registered.unknown and not registered.restarted:
        event(OTHERS_UNKNOWN, logging.WARNING, streams=registered.unknown)
    if registered.earlier:
        total = registered.composition
        fields = {"releases": total.releases, "adjacency": total.adjacency.value, "rho": total.rho, "seeded": total.seeded}
        event("the people are registered under other releases too: costs add up", logging.WARNING, **fields)


def composition_of(registry: SiteRegistry, study: Study) -> tuple[Composition, int]:
    """The total cost of all registered releases of the study's people, and the number of entries with unknown people.

    The people are those of the study's own entries: of its stream and of its replays.
    """
    found = registry.read()
    entries = found.entries if found else ()
    own_fingerprint = fingerprint(study, None).hex()
    own = [entry for entry in entries if entry.fingerprint == own_fingerprint]
    sharing = [entry for entry in entries if any(entry.shares_people(mine) for mine in own)]
    unknown = [entry for entry in entries if entry.people is None and entry not in sharing]
    return compose(sharing), len(unknown)


def _entry(study: Study, what: What, now: datetime, *, insecure: bool, broker: str | None = None) -> Entry:
    costs, budget = replace_one_costs(study), study.privacy.budget
    return Entry(
        time=now.isoformat(timespec="seconds").replace("+00:00", "Z"),
        what=what,
        study=study.name,
        fingerprint=fingerprint(study, None).hex(),
        adjacency=study.privacy.adjacency,
        rho=budget,
        rho_replace_one=Rho(budget) if costs is None else costs.of_study(study.last_period),
        insecure=insecure,
        people=None,
        broker=broker,
    )
