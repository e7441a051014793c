"""Where a simulated log can be made to fail."""

from __future__ import annotations


class Faults:
    """Asked around the effect of every call of one connection; this one lets everything pass.

    A subclass may raise: LogUnavailable before; OutcomeUnknown before, inside or after, which nobody outside can tell apart;
    Fenced; or whatever stands for a crash. It may also wait, which is a slow network.
    """

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        """`call` is the port's name of it (`append`, `commit`, ...); nothing has happened yet."""

    def inside(self, connection: str, call: str, topic: str | None, done: int) -> None:
        """Between two records of one append: the first `done` are in the log, the others are not."""

    def lands_later(self, connection: str, call: str, topic: str | None) -> float | None:
        """Seconds by which the effect comes after the caller was told that its outcome is unknown; None: it comes now.

        Asked only for calls that change something. What is under way reaches the broker even if its process ends.
        """
        return None

    async def after(self, connection: str, call: str, topic: str | None) -> None:
        """The effect is there, the caller has not heard of it."""
