"""Panels of each kind of release, as in `tests/panel`."""

from tests.panel.conftest import cumulative, window  # noqa: F401
