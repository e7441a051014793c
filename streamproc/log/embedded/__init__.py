"""A log on one machine: a folder with a SQLite file that several processes use at the same time.

If somebody restores an old copy of the folder together with an old copy of a study's state, that cannot be detected. Use a
broker on another machine if that must be excluded.
"""

from streamproc.log.embedded.log import EmbeddedLog

__all__ = ["EmbeddedLog"]
