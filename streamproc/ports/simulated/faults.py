"""Where a simulated log can be made to fail."""

from __future__ import annotations


class Faults:
    """Asked before and after the effect of every call of one connection; this one lets everything pass.

    A subclass may raise: LogUnavailable before; OutcomeUnknown before or after, which nobody outside can tell apart;
    Fenced; or whatever stands for a crash. It may also wait, which is a slow network.
    """

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        """`call` is the port's name of it (`append`, `commit`, ...); nothing has happened yet."""

    async def after(self, connection: str, call: str, topic: str | None) -> None:
        """The effect is there, the caller has not heard of it."""
