"""A SQLite connection that runs in a thread of its own, so that the event loop never waits for the disk."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from streamproc.errors import InvalidInput, LogUnavailable, OutcomeUnknown
from streamproc.log.embedded.sql import SCHEMA
from streamproc.storage.filesystem import LOST_AND_FOUND, LocalFileSystem, display_path, sync_existing_folder

APPLICATION = 0x53545250
VERSION = 1
"""Identify the file format and its version in the header of the SQLite file."""

OWN_FILE_SUFFIXES = (".sqlite", ".sqlite-wal", ".sqlite-shm", ".lock", LOST_AND_FOUND)
"""Suffixes of files that may exist in the folder before the log does, because another process is creating it."""

WAL_RETRY_S = 0.01
"""Seconds between two attempts to switch a new file to a write-ahead log."""

T = TypeVar("T")


class Database:
    """A connection that is opened when it is first used. `timeout` is the time to wait for other writers, in seconds."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embedded-log")
        self._db: sqlite3.Connection | None = None

    async def read(self, work: Callable[[sqlite3.Connection], T], absent: Callable[[], T]) -> T:
        """Return the result of `work` in one consistent snapshot, or `absent()` if the file does not exist."""
        return await self._run(lambda: self._read(work, absent))

    async def write(self, work: Callable[[sqlite3.Connection], T], absent: Callable[[], T] | None = None) -> T:
        """Run `work` in one transaction. If the file does not exist, return `absent()`; without `absent`, create the file.

        Raises OutcomeUnknown if it is unknown whether the commit succeeded.
        """
        return await self._run(lambda: self._write(work, absent))

    async def compact(self) -> None:
        """Remove deleted records from the disk. Raises LogUnavailable while another process still reads them."""
        await self._run(self._compact)

    async def close(self) -> None:
        """Finish the current work, close the connection and end the thread."""
        await self._run(self._close)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _read(self, work: Callable[[sqlite3.Connection], T], absent: Callable[[], T]) -> T:
        try:
            db = self._open(create=False)
            if db is None:
                return absent()
            db.execute("BEGIN")
            try:
                return work(db)
            finally:
                db.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._translate_error(error) from None

    def _write(self, work: Callable[[sqlite3.Connection], T], absent: Callable[[], T] | None) -> T:
        try:
            db = self._open(create=absent is None)
            if db is None:
                assert absent is not None
                return absent()
            db.execute("BEGIN IMMEDIATE")
            try:
                result = work(db)
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._translate_error(error) from None
        try:
            db.execute("COMMIT")
        except sqlite3.Error as error:
            # After a failed sync it is unknown what is on the disk.
            self._close()
            raise OutcomeUnknown(f"{display_path(self._path)}: committing a write failed: {error}") from None
        return result

    def _compact(self) -> None:
        try:
            db = self._open(create=False)
            if db is not None:
                db.execute("VACUUM")
                # VACUUM writes to the write-ahead log. The checkpoint replaces the old pages of the file.
                busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if busy:
                    reason = "another process still reads deleted records; try again when it has finished"
                    raise LogUnavailable(f"{display_path(self._path)}: {reason}")
        except sqlite3.Error as error:
            raise self._translate_error(error) from None

    def _open(self, *, create: bool) -> sqlite3.Connection | None:
        if self._db is not None:
            return self._db
        if not self._is_there(create=create):
            if not create:
                return None
            self._create_file()
        db = sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA synchronous = FULL")
            self._check_version(db)
        except BaseException:
            db.close()
            raise
        self._db = db
        return db

    def _is_there(self, *, create: bool) -> bool:
        try:
            if self._path.exists():
                return True
            self._check_folder(create=create)
        except OSError as error:
            raise LogUnavailable(
                f"embedded log {display_path(self._path.parent)}: cannot be read: {error.strerror}"
            ) from None
        return False

    def _check_folder(self, *, create: bool) -> None:
        """Raise InvalidInput if the path is a file, or if a log is to be created in a folder that holds other files.

        Secret reports must not be stored among files that are shared.
        """
        folder = self._path.parent
        if folder.exists() and not folder.is_dir():
            raise InvalidInput(f"embedded log {display_path(folder)}: is a file, expected a folder")
        if create and folder.is_dir() and any(not file.name.endswith(OWN_FILE_SUFFIXES) for file in folder.iterdir()):
            raise InvalidInput(f"embedded log {display_path(folder)}: holds other files, expected a log or an empty folder")

    def _create_file(self) -> None:
        folder = self._path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite gives its other files the mode of this one, so it is created first.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise self._not_created(error) from None

    def _sync_folders(self) -> None:
        """Sync the parent folders, because SQLite syncs only its files."""
        try:
            for folder in self._path.parents:
                sync_existing_folder(LocalFileSystem(), folder)
        except OSError as error:
            raise self._not_created(error) from None

    def _not_created(self, error: OSError) -> LogUnavailable:
        return LogUnavailable(f"embedded log {display_path(self._path.parent)}: cannot be created: {error.strerror}")

    def _check_version(self, db: sqlite3.Connection) -> None:
        if self._version(db) == (0, 0) and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
            self._sync_folders()
            self._switch_to_wal(db)
            db.execute("BEGIN IMMEDIATE")
            # Another process may have created the schema in the meantime.
            if self._version(db) == (0, 0):
                for statement in SCHEMA.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {APPLICATION}")
                db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("COMMIT")
        application, version = self._version(db)
        if application != APPLICATION:
            raise InvalidInput(f"{display_path(self._path)}: expected an embedded log, but it is another kind of database")
        if version != VERSION:
            raise InvalidInput(f"{display_path(self._path)}: an embedded log of version {version}, expected {VERSION}")

    def _switch_to_wal(self, db: sqlite3.Connection) -> None:
        """Use a write-ahead log. If two connections switch a new file at once, SQLite fails one without waiting: retry it.

        The statement reads before it locks the file, and SQLite calls no busy handler for a reader that wants to write,
        because two of them would wait for each other: https://www.sqlite.org/c3ref/busy_handler.html.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                    raise
            time.sleep(WAL_RETRY_S)

    def _version(self, db: sqlite3.Connection) -> tuple[int, int]:
        return db.execute("PRAGMA application_id").fetchone()[0], db.execute("PRAGMA user_version").fetchone()[0]

    def _translate_error(self, error: sqlite3.Error) -> InvalidInput | LogUnavailable:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        self._close()
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return InvalidInput(f"{display_path(self._path)}: expected an embedded log, but the file is damaged: {error}")
        folder = self._path.parent
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) and not os.access(folder, os.W_OK):
            return LogUnavailable(
                f"embedded log {display_path(folder)}: the folder is not writable, which SQLite needs for reading too"
            )
        return LogUnavailable(f"{display_path(self._path)}: {error}")

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
