"""The file of the site registry. It is locked while it is read and appended to, and is durable before noise is drawn."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from streamproc.errors import InvalidInput, Refused
from streamproc.privacy.directed_rounding import decimal_up
from streamproc.protocol.registry_format import (
    KEY_BYTES,
    Composition,
    DamagedRegistry,
    Entry,
    Registry,
    compose,
    digest_people,
    encode_entry,
    encode_header,
    parse_registry,
    stream_hash,
)
from streamproc.storage.environment import warn_if_open
from streamproc.storage.filesystem import FileLock, LocalFileSystem, display_path

VARIABLE = "STREAMPROC_REGISTRY"

LOCK_TIMEOUT_S = 60.0
"""Maximum time to wait for the lock, in seconds. Hashing a million ids takes about one second."""

_LOCK_RETRY_S = 0.05
"""Seconds between two attempts to lock the file."""

_MAX_NAMED = 3
"""Maximum number of releases that a refusal names. The others are counted."""


@dataclass(frozen=True)
class Registration:
    """Result of registering a release."""

    entry: Entry
    earlier: tuple[Entry, ...]
    """Releases in the registry that share people with this one."""
    unknown: int
    """Number of registered streams of other studies whose people are unknown, so that they could not be compared."""
    restarted: bool
    """Whether the same stream was in the registry already."""
    created: bool
    """Whether the registry is new."""

    @property
    def composition(self) -> Composition:
        """Privacy cost of this release and the earlier ones together."""
        return compose([*self.earlier, self.entry])


class SiteRegistry:
    """The registry in one file, which is created when the first release is registered."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> SiteRegistry | None:
        """Return the registry that STREAMPROC_REGISTRY names, or None if it is not set."""
        named = environ.get(VARIABLE)
        return cls(Path(named)) if named else None

    def read(self) -> Registry | None:
        """Return the content, or None if there is no file or it is empty. Creates nothing.

        Raises InvalidInput if the file cannot be read, and Refused if it is damaged.
        """
        try:
            return self._parsed(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from None

    def register(
        self, entry: Entry, ids: Sequence[str] | None, *, control_key: bytes | None = None, again: bool
    ) -> Registration:
        """Append a release of the people with these ids. When this returns, the line survives a power cut.

        Raises Refused if some of the people are registered under another release, unless `again`. A stream that is
        registered already, with the same `control_key`, study, people and kind of noise, is a restart, and nothing is
        appended.
        """
        with self._opened() as file:
            content = file.read()
            registry = self._parsed(content)
            created = registry is None
            if registry is None:
                header = encode_header(secrets.token_bytes(KEY_BYTES))
                self._append(file, header, keep=0)
                registry = self._parsed(header)
                assert registry is not None
            entry = replace(
                entry,
                people=None if ids is None else digest_people(ids, registry.key),
                stream=None if control_key is None else stream_hash(control_key, registry.key),
            )
            others = [other for other in registry.entries if not entry.continues(other)]
            restarted = len(others) < len(registry.entries)
            earlier = tuple(other for other in others if entry.shares_people(other))
            unknown = sum(other.people is None and not entry.shares_people(other) for other in others)
            if not restarted:
                if earlier and not again:
                    raise Refused(self._refusal(entry, earlier))
                entry = replace(entry, again=bool(earlier))
                known = [other.people.digest for other in registry.entries if other.people is not None]
                line = b"\n" * registry.ends_open + encode_entry(entry, known)
                self._append(file, line, keep=registry.length)
            return Registration(entry, earlier, unknown, restarted, created)

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """Open the file and hold its lock. Creates the file if needed."""
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        try:
            while (lock := FileLock.take(self.path)) is None:
                if time.monotonic() > deadline:
                    raise Refused(
                        f"registry {display_path(self.path)}: another process has held its lock for {LOCK_TIMEOUT_S:g} s"
                    )
                time.sleep(_LOCK_RETRY_S)
            try:
                warn_if_open(VARIABLE, self.path)
                file = self.path.open("r+b", buffering=0)
            except OSError:
                lock.release()
                raise
        except OSError as error:
            raise self._unusable(error) from None
        try:
            with file:
                yield file
        finally:
            lock.release()

    def _append(self, file: BinaryIO, line: bytes, *, keep: int) -> None:
        """Write `line` after the first `keep` bytes, and remove what follows them, which is an unfinished append.

        The process of that append died before `register` returned, so no noise was drawn for it.
        """
        try:
            file.truncate(keep)
            file.seek(keep)
            if file.write(line) != len(line):
                raise OSError(0, "only a part was written")
            os.fsync(file.fileno())
            LocalFileSystem().sync_folder(self.path.parent)
        except OSError as error:
            with suppress(OSError):
                file.truncate(keep)
            why = error.strerror or "the system refused"
            raise Refused(f"registry {display_path(self.path)}: cannot be written: {why}. Nothing was released.") from None

    def _parsed(self, content: bytes) -> Registry | None:
        try:
            return parse_registry(content)
        except DamagedRegistry as damaged:
            where = f"registry {display_path(self.path)}: line {damaged.line}"
            other = f"let {VARIABLE} name another file, or " if damaged.line == 1 else ""
            advice = f"{other}put back a copy of the file in which all lines are whole"
            raise Refused(f"{where}: {damaged.reason}; {advice}") from None

    def _unusable(self, error: OSError) -> InvalidInput:
        return InvalidInput(f"{VARIABLE}: {display_path(self.path)}: cannot be used: {error.strerror}")

    def _refusal(self, entry: Entry, earlier: Sequence[Entry]) -> str:
        named = [f"{other.what} of {other.study} on {other.time[:10]}" for other in earlier[:_MAX_NAMED]]
        more = [f"{len(earlier) - _MAX_NAMED} more"] * (len(earlier) > _MAX_NAMED)
        total = compose([*earlier, entry])
        cost = "without a bound" if total.rho is None else f"to rho {decimal_up(total.rho, 4)} ({total.adjacency.value})"
        where = (
            f"{display_path(self.path)}: this study or some of its people are in it already ({', '.join([*named, *more])})"
        )
        return f"registry {where}; the costs would add up {cost}; --again accepts that"
