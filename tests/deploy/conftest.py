"""Fixtures of the stream tests that deploy studies."""

from tests.stream.conftest import deploy_study, programs, shared_study

__all__ = ["deploy_study", "programs", "shared_study"]
