"""The fingerprint of a study: a digest of everything that must not change while it runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from streamproc.study.study import Study

_OPTIONAL = ("ahead", "open", "tenure", "sample", "absent_after")
"""Settings of the population that are among the values only if they are set."""


def public_values(study: Study) -> dict[str, Any]:
    """The values that are fixed, all public. The broker's address and the schedule may change, so they are left out."""
    population, privacy = study.population, study.privacy
    return {
        "name": study.name,
        "alphabet": list(study.alphabet),
        "horizon": study.horizon,
        "population": {
            "size": population.size,
            "missing": str(population.missing),
            "initial": population.initial,
            "duplicates": population.duplicates,
        }
        | {key: value for key in _OPTIONAL if (value := getattr(population, key)) not in (None, False)},
        "privacy": {"rho": privacy.budget, "delta": privacy.delta, "adjacency": privacy.adjacency.value},
        "releases": [
            {"name": release.name, "kind": release.kind, "share": str(release.share), **release.fingerprint_values()}
            for release in study.releases
        ],
        "partitions": study.broker.partitions,
    } | (
        {"questions": [{"release": asked.release, "ask": asked.ask} for asked in study.questions]} if study.questions else {}
    )


def roster_digest(individuals: Iterable[str], key: bytes) -> bytes:
    """A keyed digest of the ids on the roster. It does not depend on their order."""
    digest = hashlib.blake2b(key=key, digest_size=32)
    for individual in sorted(individuals):
        digest.update(individual.encode() + b"\0")
    return digest.digest()


def fingerprint(study: Study, roster: bytes | None) -> bytes:
    """The 32 bytes that identify a study: a change to any fixed value changes them. `roster` is `roster_digest`, if any."""
    text = json.dumps(public_values(study), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode() + b"\0" + (roster or b"")).digest()
