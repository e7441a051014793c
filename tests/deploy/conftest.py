"""Places to run studies in, as the tests of the stream have them."""

from tests.stream.conftest import new_place, programs, shared_place

__all__ = ["new_place", "programs", "shared_place"]
