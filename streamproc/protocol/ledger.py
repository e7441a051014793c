"""Records of the ledger topic: the study, and for every period its intent, its noisy measurements and its spending."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from streamproc.errors import InvalidInput, LedgerConflict, Malformed, StudyChanged
from streamproc.privacy.types import FloatArray, IntArray, Period, Rho
from streamproc.protocol.codec import (
    MAX_RELEASES,
    Fields,
    check_bytes,
    check_digest,
    check_flag,
    check_part,
    check_period,
    check_real,
    check_release,
    check_whole,
    pack,
    packed_integers,
    unpack,
)
from streamproc.releases.kind import MAX_ROWS
from streamproc.study import Study
from streamproc.study.fingerprint import public_values

CHUNK_MEASUREMENTS = 32_768
MAX_MEASUREMENTS = 2**22
"""Maximum number of one period of one release. It is well above `q^k` and above what any counter measures in a period."""


@dataclass(frozen=True, eq=False)
class MeasurementChunk:
    """Noisy integers `first, first+1, ...` of the `total` ones that one release measured in one period."""

    release: str
    period: Period
    first: int
    total: int
    data: IntArray = field(repr=False)

    def __post_init__(self) -> None:
        check_release(self.release)
        check_period(self.period)
        check_part(self.first, self.total, self.data, "data", longest=CHUNK_MEASUREMENTS, most=MAX_MEASUREMENTS)

    def encode(self) -> bytes:
        """The record's value."""
        position = {"release": self.release, "period": self.period, "first": self.first, "total": self.total}
        return pack("measurement", position | {"data": packed_integers(self.data)})


def decode_measurement(fields: Fields) -> MeasurementChunk:
    """Decode the chunk in the fields of a message. Raises Malformed."""
    position = (fields["release"], fields["period"], fields["first"], fields["total"])
    return MeasurementChunk(*position, fields.integers("data"))


def measurement_chunks(release: str, period: Period, measurements: Sequence[IntArray]) -> list[MeasurementChunk]:
    """The chunks of the measurements of one period, one array after the other; none if nothing was measured."""
    flat = _flat(measurements)
    return [
        MeasurementChunk(release, period, first, len(flat), flat[first : first + CHUNK_MEASUREMENTS])
        for first in range(0, len(flat), CHUNK_MEASUREMENTS)
    ]


def measurements_digest(measurements: Sequence[IntArray]) -> bytes:
    """SHA-256 of the measurements as big-endian 64-bit integers."""
    return hashlib.sha256(packed_integers(_flat(measurements))).digest()


def _flat(measurements: Sequence[IntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, dtype=np.int64), *measurements])


SALT_BYTES = 32

MAX_ABANDONED = 65_536
"""Maximum number of lost draws that a summary counts. The steward accepts the cost of each of them by hand."""

MAX_COLUMNS = 64
"""Maximum number of columns in one period of one release. `k` are released together when the first window is full."""


@dataclass(frozen=True)
class StudyRecord:
    """Record 0 of the ledger, which identifies the study. Everything in it is public."""

    study: Mapping[str, Any]
    """The public values of the study."""
    fingerprint: bytes
    """Hash of everything that is fixed, including the roster. Every role compares it with its own."""
    insecure: bool
    """True if the noise comes from a seed, so that it can be repeated or predicted."""

    def __post_init__(self) -> None:
        if not isinstance(self.study, Mapping):
            raise Malformed("study: expected a map")
        check_digest("fingerprint", self.fingerprint)
        check_flag("insecure", self.insecure)

    @property
    def is_open(self) -> bool:
        """Whether people may enter in any period, and leave."""
        population = self.study.get("population")
        return isinstance(population, Mapping) and population.get("open") is True

    @property
    def horizon(self) -> object:
        """The number of periods as the record states it; None if it states none."""
        return self.study.get("horizon")

    def encode(self) -> bytes:
        """The record's value."""
        return pack("study", {"study": dict(self.study), "fingerprint": self.fingerprint, "insecure": self.insecure})


@dataclass(frozen=True)
class Intent:
    """Announces the next period record by its digest, before anything of it is published. The first of a period binds."""

    period: Period
    digest: bytes

    def __post_init__(self) -> None:
        check_period(self.period)
        check_digest("digest", self.digest)

    def encode(self) -> bytes:
        """The record's value."""
        return pack("intent", {"period": self.period, "digest": self.digest})


@dataclass(frozen=True)
class ReleasePeriod:
    """The cost and the results of one period of one release."""

    rho: Rho
    """The cost of this period, rounded up: `rho_spent` is at most that of the previous period plus this."""
    rho_spent: Rho
    """The cost of all periods so far."""
    clamped: int
    """Number of counts that were clamped in this period."""
    n_star: int | None
    """Number of synthetic people; None until the first column. In an open study also those who have left."""
    columns: tuple[tuple[Period, bytes], ...]
    """Period and digest of each column that is released in this period."""
    measurements: bytes
    """Digest of the noisy integers (`measurements_digest`)."""
    contract: bytes | None = None
    """Digest of the records of the release's contract, in the period of its first column; None in every other period."""

    def __post_init__(self) -> None:
        check_real("rho", self.rho)
        check_real("rho_spent", self.rho_spent)
        check_whole("clamped", self.clamped, 0, MAX_MEASUREMENTS)
        if self.n_star is not None:
            check_whole("n_star", self.n_star, 0, MAX_ROWS)
        if len(self.columns) > MAX_COLUMNS:
            raise Malformed(f"columns: expected at most {MAX_COLUMNS}")
        for period, column in self.columns:
            check_period(period)
            check_digest("columns", column)
        if self.columns and self.n_star is None:
            raise Malformed("n_star: expected a number where there are columns")
        check_digest("measurements", self.measurements)
        if self.contract is not None:
            check_digest("contract", self.contract)

    def fields(self) -> dict[str, Any]:
        """The fields in the order of the wire format."""
        contract = {} if self.contract is None else {"contract": self.contract}
        return {
            "rho": self.rho,
            "rho_spent": self.rho_spent,
            "clamped": self.clamped,
            "n_star": self.n_star,
            "columns": [list(column) for column in self.columns],
            "measurements": self.measurements,
            **contract,
        }


@dataclass(frozen=True)
class ReleaseSummary:
    """One release of an open study after a period: what a reader needs to continue from there, besides the snapshot."""

    contract: bytes
    """Digest of the records of the release's contract."""
    present: int
    """Number of synthetic people who are present."""
    estimates: bytes = field(repr=False)
    """The estimated people in each state of the automaton, as big-endian 64-bit floats."""
    snapshot: bytes
    """Digest of the snapshot (`snapshot_digest`)."""

    def __post_init__(self) -> None:
        check_digest("contract", self.contract)
        check_whole("present", self.present, 0, MAX_ROWS)
        check_digest("snapshot", self.snapshot)
        if type(self.estimates) is not bytes or len(self.estimates) % 8 or not np.isfinite(self.numbers).all():
            raise Malformed("estimates: expected 8 bytes for each number")

    @property
    def numbers(self) -> FloatArray:
        """The estimates."""
        return np.frombuffer(self.estimates, dtype=">f8").astype(np.float64)

    def fields(self) -> dict[str, Any]:
        """The fields in the order of the wire format."""
        return {
            "contract": self.contract,
            "present": self.present,
            "estimates": self.estimates,
            "snapshot": self.snapshot,
        }


@dataclass(frozen=True)
class Summary:
    """What a reader needs of all periods so far, to start with this one."""

    study: bytes
    """Digest of the study record."""
    abandoned: int
    """Number of draws so far that were lost and whose cost was accepted."""
    releases: Mapping[str, ReleaseSummary]

    def __post_init__(self) -> None:
        check_digest("study", self.study)
        check_whole("abandoned", self.abandoned, 0, MAX_ABANDONED)

    def fields(self) -> dict[str, Any]:
        """The fields in the order of the wire format."""
        releases = {name: release.fields() for name, release in self.releases.items()}
        return {"study": self.study, "abandoned": self.abandoned, "releases": releases}


@dataclass(frozen=True)
class PeriodRecord:
    """One period of the whole study, chained to the previous record."""

    period: Period
    releases: Mapping[str, ReleasePeriod]
    rho_spent: Rho
    """The cost of all releases so far: their exact sum, rounded up."""
    previous: bytes
    """Digest of the previous period record, or of the study record."""
    abandoned: tuple[bytes, ...] = ()
    """Digests announced for this period whose draw was lost. The steward accepted their cost, which is in `rho_spent`."""
    salt: bytes | None = None
    """Random bytes, so that a guess of the record cannot be confirmed by the digest that its intent announces. None in a
    record without the field, as early versions wrote it."""
    last: bool = False
    """Whether an open study ends with this period."""
    summary: Summary | None = None
    """Of all periods so far; in an open study in every `SUMMARY_EVERY`-th period."""

    def __post_init__(self) -> None:
        check_period(self.period)
        if not 1 <= len(self.releases) <= MAX_RELEASES:
            raise Malformed(f"releases: expected 1 to {MAX_RELEASES} of them")
        for release in self.releases:
            check_release(release)
        check_real("rho_spent", self.rho_spent)
        check_digest("previous", self.previous)
        for digest in self.abandoned:
            check_digest("abandoned", digest)
        if self.salt is not None:
            check_bytes("salt", self.salt, SALT_BYTES)
        check_flag("last", self.last)
        if self.summary is not None and self.summary.releases.keys() != self.releases.keys():
            raise Malformed("summary: expected the releases of the record")

    def encode(self) -> bytes:
        """The record's value."""
        fields: dict[str, Any] = {
            "period": self.period,
            "releases": {name: release.fields() for name, release in self.releases.items()},
            "rho_spent": self.rho_spent,
            "previous": self.previous,
            "abandoned": list(self.abandoned),
        }
        if self.salt is not None:
            fields["salt"] = self.salt
        if self.last:
            fields["last"] = True
        if self.summary is not None:
            fields["summary"] = self.summary.fields()
        return pack("period", fields)


LedgerRecord: TypeAlias = StudyRecord | Intent | MeasurementChunk | PeriodRecord


def decode_ledger(value: bytes | None) -> LedgerRecord:
    """Decode a record of the ledger topic. Raises Malformed."""
    fields = unpack(value, "study", "intent", "measurement", "period")
    match fields["type"]:
        case "study":
            return StudyRecord(fields.table("study"), fields["fingerprint"], fields["insecure"])
        case "intent":
            return Intent(fields["period"], fields["digest"])
        case "measurement":
            return decode_measurement(fields)
        case _:
            if "salt" in fields:
                check_bytes("salt", fields["salt"], SALT_BYTES)
            return PeriodRecord(
                fields["period"],
                {name: _release_period(release) for name, release in fields.table("releases").items()},
                fields["rho_spent"],
                fields["previous"],
                fields.sequence("abandoned"),
                fields.get("salt"),
                fields.get("last", False),
                _summary(fields.table("summary")) if "summary" in fields else None,
            )


def _summary(fields: Fields) -> Summary:
    releases = {name: _release_summary(release) for name, release in fields.table("releases").items()}
    return Summary(fields["study"], fields["abandoned"], releases)


def _release_summary(fields: object) -> ReleaseSummary:
    if not isinstance(fields, Fields):
        raise Malformed("summary: expected a map for each release")
    return ReleaseSummary(fields["contract"], fields["present"], fields["estimates"], fields["snapshot"])


def _release_period(fields: object) -> ReleasePeriod:
    if not isinstance(fields, Fields):
        raise Malformed("releases: expected a map for each")
    columns = fields.sequence("columns")
    if not all(isinstance(column, list) and len(column) == 2 for column in columns):
        raise Malformed("columns: expected pairs of a period and a digest")
    return ReleasePeriod(
        fields["rho"],
        fields["rho_spent"],
        fields["clamped"],
        fields["n_star"],
        tuple((period, column) for period, column in columns),
        fields["measurements"],
        fields.get("contract"),
    )


def decode_study_record(topic: str, value: bytes | None) -> StudyRecord:
    """The study record in the first value of a ledger topic. Raises LedgerConflict if it is anything else."""
    try:
        record = decode_ledger(value)
    except Malformed:
        record = None
    if not isinstance(record, StudyRecord):
        raise LedgerConflict(f"topic {topic}: does not begin with a study record")
    return record


def require_same_study(
    record: StudyRecord, study: Study, fingerprint: bytes | None, *, insecure: bool | None = None
) -> None:
    """Check that the ledger that begins with `record` is the ledger of `study`.

    A role gives its `fingerprint`, which covers all values and the roster, and raises StudyChanged (exit 3) if it differs.
    A reader of public topics cannot compute the fingerprint of a study with a roster: it gives None, and InvalidInput
    (exit 2) names the public values that differ. `insecure` says whether the caller draws seeded noise, which must be as in
    the record (StudyChanged); None if the caller draws no noise.
    """
    if _is_of_version_0_1(record):
        raise StudyChanged(study.name, "it was begun with version 0.1 of streamproc; finish it with version 0.1")
    if fingerprint is None:
        values = public_values(study)
        different = [name for name in {**values, **record.study} if record.study.get(name) != values.get(name)]
        if different:
            named = ", ".join(different)
            raise InvalidInput(f"study {study.name}: its ledger was begun with other values; these differ: {named}")
    elif record.fingerprint != fingerprint:
        raise StudyChanged(study.name, "its ledger was begun with other values; a study cannot change once it has begun")
    if insecure not in (None, record.insecure):
        began, now = ("with", "without") if record.insecure else ("without", "with")
        raise StudyChanged(study.name, f"it was begun {began} a seed and cannot go on {now} one")


def _is_of_version_0_1(record: StudyRecord) -> bool:
    """Whether a release of the study is measured in a way that only version 0.1 has."""
    releases = record.study.get("releases")
    tables = [table for table in releases if isinstance(table, Mapping)] if isinstance(releases, list) else []
    return any("counter" in table or table.get("measure") in ("contrast", "histogram") for table in tables)


def digest(value: bytes) -> bytes:
    """SHA-256 of the value of a record, exactly as it is in the topic."""
    return hashlib.sha256(value).digest()
