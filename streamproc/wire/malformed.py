"""The one way a decoder fails."""

from __future__ import annotations


class Malformed(ValueError):
    """These bytes, or these values, are no message. `reason` names fields and limits, never content.

    Raised outside of any `except` block: a chained error (of UTF-8, of MessagePack) would carry the bytes along.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
