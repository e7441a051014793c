"""Places to run studies in."""

from tests.stream.conftest import new_place, programs

__all__ = ["new_place", "programs"]
