"""Parts for the tests of those who use this package: no command and no other part of the package can import them."""

from streamproc.testing.entropy import SilentEntropy

__all__ = ["SilentEntropy"]
