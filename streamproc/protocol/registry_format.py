"""The site registry: which releases were made of which people, so that the costs of the same people can be added up.

The registry is a text file. Its first line holds a random key, every further line one release: a replay, or a stream from
its first period to its last. People are in it as keyed hashes: a digest of the whole set, and the `SKETCH` smallest hashes
of the set (a bottom-k sketch). Sets that differ by one person have different digests, but their sketches share hashes.

How often an overlap is missed. Let `J = |A and B| / |A or B|` for two sets of people. The `k` smallest hashes of the union
are a uniform sample without replacement of the union; each of them that belongs to both sets is in both sketches. So an
overlap is missed with a probability of at most `(1 - J)^k`: 1.7% at `J` = 0.1%, below 1e-17 at 1%. Two sets of up to `k`
people each are compared exactly. A hash in the sketches has 64 bits: two sets without a common person share one with a
probability below 1e-9.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from streamproc.errors import Malformed
from streamproc.privacy.accountant import total_spent
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Rho

VERSION = 1
KEY_BYTES = 32
SKETCH = 4096
"""Maximum number of hashes in the sketch of a set of people."""

What = Literal["replay", "stream"]


@dataclass(frozen=True, eq=False, repr=False)
class People:
    """A set of people without their ids."""

    n: int
    digest: bytes
    """Keyed digest of the whole set, 32 bytes."""
    sketch: npt.NDArray[np.uint64]
    """The smallest hashes, ascending."""

    def shares_anybody(self, other: People) -> bool:
        """Whether the sets have a common person. An overlap can be missed with the probability that the module states."""
        return self.digest == other.digest or bool(np.isin(self.sketch, other.sketch, assume_unique=True).any())


@dataclass(frozen=True)
class Entry:
    """One release of some people."""

    time: str
    """When it was registered, in ISO 8601."""
    what: What
    study: str
    fingerprint: str
    """Fingerprint of the study's public values in hexadecimal, equal for a replay of the study and for its stream."""
    adjacency: Adjacency
    rho: Rho
    """The study's budget under `adjacency`."""
    rho_replace_one: Rho
    """The cost of the whole study's noise under replace-one; equal to `rho` if that is the adjacency."""
    insecure: bool
    """True if the noise came from a seed: then no budget bounds what was released."""
    people: People | None
    """None for a stream without a roster, whose people are not known when it begins."""
    broker: str | None = None
    """The broker of a stream when it was registered. This is for human readers of the file."""
    stream: str | None = None
    """A keyed hash of the key in a stream's control topic: it identifies the stream, wherever its broker's address moves."""
    again: bool = False
    """True if the steward accepted, with `--again`, that the people are in the registry already."""

    def continues(self, other: Entry) -> bool:
        """Whether one is a restart of the other: the same stream of the same study and people, with the same kind of noise.

        Before its first ledger record a stream can be started with another roster or seed. The registry must then hold both.
        """
        return self.stream is not None and self._identity() == other._identity()

    def shares_people(self, other: Entry) -> bool:
        """Whether both are about some of the same people. Where people are unknown, those of the same study are the same."""
        if self.people is None or other.people is None:
            return self.fingerprint == other.fingerprint
        return self.people.shares_anybody(other.people)

    def _identity(self) -> tuple[str | None, str, bytes | None, bool]:
        digest = None if self.people is None else self.people.digest
        return self.stream, self.fingerprint, digest, self.insecure


@dataclass(frozen=True)
class Registry:
    """The content of a registry."""

    key: bytes
    entries: tuple[Entry, ...] = ()
    length: int = 0
    """Bytes of the file that hold whole lines; what follows is an append that did not finish."""
    ends_open: bool = False
    """Whether the last of these lines has no line end."""


@dataclass(frozen=True)
class Composition:
    """The total cost of several releases of the same people, by sequential composition."""

    releases: int
    adjacency: Adjacency
    rho: Rho | None
    """The sum under `adjacency`; None if one of the releases is seeded, so that nothing bounds it."""
    rho_replace_one: Rho | None
    seeded: int
    """Number of releases whose noise came from a seed."""


class DamagedRegistry(Exception):
    """A line of a registry is not valid."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"line {line}: {reason}")


def digest_people(ids: Iterable[str], key: bytes) -> People:
    """The people with these ids, which must be distinct."""
    hashed = b"".join(hashlib.blake2b(each.encode(), key=key, digest_size=16).digest() for each in ids)
    hashes = np.sort(np.frombuffer(hashed, dtype="S16"))
    digest = hashlib.blake2b(hashes.tobytes(), key=key, digest_size=32).digest()
    smallest = np.frombuffer(hashes[:SKETCH].tobytes(), dtype=">u8")[::2]
    return People(len(hashes), digest, np.unique(smallest.astype(np.uint64)))


def stream_hash(control_key: bytes, key: bytes) -> str:
    """The identifier of a stream in the registry: a keyed hash of its control key."""
    return hashlib.blake2b(control_key, key=key, digest_size=16).hexdigest()


def compose(entries: Sequence[Entry]) -> Composition:
    """The sum over these releases: under their adjacency if they have the same one, else under replace-one."""
    relations = {entry.adjacency for entry in entries}
    adjacency = relations.pop() if len(relations) == 1 else Adjacency.REPLACE_ONE
    seeded = sum(entry.insecure for entry in entries)
    replace_one = total_spent([entry.rho_replace_one for entry in entries])
    own = replace_one if adjacency is Adjacency.REPLACE_ONE else total_spent([entry.rho for entry in entries])
    bounded = seeded == 0
    return Composition(len(entries), adjacency, own if bounded else None, replace_one if bounded else None, seeded)


def encode_header(key: bytes) -> bytes:
    """Encode the first line."""
    return _line({"registry": VERSION, "key": key.hex()})


def encode_entry(entry: Entry, known: Collection[bytes]) -> bytes:
    """Encode the line of an entry. It has no sketch if the digest is `known`, because an earlier line has the sketch."""
    people = entry.people
    fields: dict[str, Any] = {
        "time": entry.time,
        "what": entry.what,
        "study": entry.study,
        "fingerprint": entry.fingerprint,
        "adjacency": entry.adjacency.value,
        "rho": entry.rho,
        "rho_replace_one": entry.rho_replace_one,
        "insecure": entry.insecure,
        "broker": entry.broker,
        "stream": entry.stream,
        "again": entry.again,
        "n": None if people is None else people.n,
        "people": None if people is None else people.digest.hex(),
    }
    if people is not None and people.digest not in known:
        fields["sketch"] = base64.b64encode(people.sketch.astype(">u8").tobytes()).decode()
    return _line(fields)


def parse_registry(content: bytes) -> Registry | None:
    """Decode a registry file; None if it is empty or holds only a part of the first line. Raises DamagedRegistry.

    A last line without a line end is an append that did not finish, and is left out, unless it is a whole entry.
    """
    whole, _, tail = content.rpartition(b"\n")
    lines = whole.split(b"\n") if content.count(b"\n") else []
    key: bytes | None = None
    entries: list[Entry] = []
    known: dict[bytes, People] = {}
    for number, line in enumerate(lines, start=1):
        problem: str | None = None
        try:
            if key is None:
                key = _header(line)
            else:
                entries.append(_entry(line, known))
        except Malformed as malformed:
            problem = malformed.reason
        if problem is not None:
            raise DamagedRegistry(number, problem)
    if key is None:
        if _begins_header(content):
            return None
        raise DamagedRegistry(1, "is not the first line of a site registry")
    try:
        entries.append(_entry(tail, known))
    except Malformed:
        return Registry(key, tuple(entries), len(content) - len(tail))
    return Registry(key, tuple(entries), len(content), ends_open=True)


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any]:
    found: object = None
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
    if not isinstance(found, dict):
        raise Malformed("is not a JSON object")
    return found


def _header(line: bytes) -> bytes:
    fields = _object(line)
    if fields.get("registry") != VERSION:
        raise Malformed(f"expected a registry of version {VERSION}")
    return _hexadecimal(fields, "key", KEY_BYTES)


def _begins_header(content: bytes) -> bool:
    """Whether these bytes are the beginning of a first line that `encode_header` makes."""
    completed = content + encode_header(bytes(KEY_BYTES))[len(content) :]
    try:
        return encode_header(_header(completed)) == completed
    except Malformed:
        return False


def _entry(line: bytes, known: dict[bytes, People]) -> Entry:
    """Decode an entry. `known` are the people of earlier lines by digest; those of this line are added. Raises Malformed."""
    fields = _object(line)
    what: What | None = next((each for each in get_args(What) if fields.get("what") == each), None)
    if what is None:
        raise Malformed(f"what: expected one of {', '.join(get_args(What))}")
    relation = fields.get("adjacency")
    if relation not in [adjacency.value for adjacency in Adjacency]:
        raise Malformed("adjacency: expected replace-one or zero-out")
    return Entry(
        time=_text(fields, "time"),
        what=what,
        study=_text(fields, "study"),
        fingerprint=_hexadecimal(fields, "fingerprint", 32).hex(),
        adjacency=Adjacency(relation),
        rho=_cost(fields, "rho"),
        rho_replace_one=_cost(fields, "rho_replace_one"),
        insecure=_flag(fields, "insecure"),
        people=_people(fields, known),
        broker=None if fields.get("broker") is None else _text(fields, "broker"),
        stream=None if fields.get("stream") is None else _hexadecimal(fields, "stream", 16).hex(),
        again=_flag(fields, "again"),
    )


def _people(fields: dict[str, Any], known: dict[bytes, People]) -> People | None:
    if fields.get("people") is None:
        return None
    digest = _hexadecimal(fields, "people", 32)
    if "sketch" in fields:
        known[digest] = _sketched(fields, digest)
    if digest not in known:
        raise Malformed("sketch: expected one, since no earlier line has that of these people")
    return known[digest]


def _sketched(fields: dict[str, Any], digest: bytes) -> People:
    n = fields.get("n")
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise Malformed("n: expected a whole number from 1")
    packed = b""
    with suppress(ValueError):
        packed = base64.b64decode(_text(fields, "sketch"), validate=True)
    if not packed or len(packed) % 8:
        raise Malformed("sketch: expected hashes of 8 bytes in base 64")
    sketch = np.frombuffer(packed, dtype=">u8").astype(np.uint64)
    if not len(sketch) <= min(n, SKETCH) or (sketch[1:] <= sketch[:-1]).any():
        raise Malformed("sketch: expected ascending hashes, no more than people")
    return People(n, digest, sketch)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise Malformed(f"{name}: expected a text")
    return value


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if not isinstance(value, bool):
        raise Malformed(f"{name}: expected true or false")
    return value


def _cost(fields: dict[str, Any], name: str) -> Rho:
    value = fields.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise Malformed(f"{name}: expected a positive number")
    return Rho(float(value))


def _hexadecimal(fields: dict[str, Any], name: str, size: int) -> bytes:
    value = b""
    with suppress(ValueError):
        value = bytes.fromhex(_text(fields, name))
    if len(value) != size:
        raise Malformed(f"{name}: expected {size} bytes in hexadecimal")
    return value
