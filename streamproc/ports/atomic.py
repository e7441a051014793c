"""Files that appear whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from streamproc.ports.file_system import FileSystem, LocalFileSystem

_LOCAL = LocalFileSystem()


@contextmanager
def replacing(path: Path, mode: int = 0o666, files: FileSystem = _LOCAL) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends well, and is removed when it does not.

    What is there afterwards survives a power cut: the content is on disk before the name changes. Nobody whom `mode` (less
    the umask) keeps out can open it at any moment.
    """
    temporary, file = files.create_temporary(path, mode)
    try:
        with file:
            yield file
            files.sync_file(file)
            # Before it is closed: a closed one may be swept.
            files.rename(temporary, path)
    except BaseException:
        files.remove(temporary)
        raise
    files.sync_folder(path.parent)
