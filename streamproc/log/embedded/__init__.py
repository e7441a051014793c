"""A log on one machine, in a folder: a SQLite file that several processes use at once.

Whoever rolls back the folder together with a study's state cannot be noticed: that takes a broker elsewhere.
"""

from streamproc.log.embedded.log import EmbeddedLog

__all__ = ["EmbeddedLog"]
