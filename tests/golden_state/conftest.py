"""Programs that end with the test."""

from __future__ import annotations

from tests.stream.conftest import programs  # noqa: F401
