"""The table of every decoder that takes bytes from outside."""

from __future__ import annotations

from tests.fuzz.batch_targets import BATCH_TARGETS
from tests.fuzz.file_targets import FILE_TARGETS
from tests.fuzz.state_targets import STATE_TARGETS
from tests.fuzz.trial import Target
from tests.fuzz.web_targets import WEB_TARGETS
from tests.fuzz.wire_targets import WIRE_TARGETS

TARGETS: dict[str, Target] = {
    target.name: target for target in (*BATCH_TARGETS, *WIRE_TARGETS, *STATE_TARGETS, *FILE_TARGETS, *WEB_TARGETS)
}
