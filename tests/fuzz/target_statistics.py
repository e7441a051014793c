"""What a run has seen of one target: inputs, crashes, the most memory; saved crashes have the name of what they crash."""

from __future__ import annotations

import hashlib
import json
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fuzz.trial import Target, run_trial

SLOWEST = 20.0
"""Seconds of the processor that one input may take, in a long run."""


MEASURED = 10
"""Of so many inputs of a long run the memory of one is measured, which takes several times as long as feeding it does."""


class TooSlow(AssertionError):
    """An input took longer than `SLOWEST`."""


@dataclass
class TargetStatistics:
    """Counts of one target. Of crashes at one place in the code only the first input is kept."""

    target: str
    inputs: int = 0
    decoded: int = 0
    largest: int = 0
    """Bytes of memory, of the input that took the most."""
    fullest: float = 0.0
    """The largest part of its bound that an input took."""
    slowest: float = 0.0
    """Seconds of the processor."""
    edges: int | None = None
    """Of the code's branches, those that were reached; None without atheris."""
    crashes: dict[str, int] = field(default_factory=dict)
    """How many inputs crashed at each place."""
    saved: list[str] = field(default_factory=list)

    def feed(self, target: Target, data: bytes, folder: Path, *, patient: bool) -> bool:
        """Try one input; whether it decodes. A crash is counted and saved, and the run goes on."""
        self.inputs += 1
        try:
            trial = run_trial(target, data, measured=patient or self.inputs % MEASURED == 1)
            self.largest = max(self.largest, trial.peak)
            self.fullest = max(self.fullest, trial.peak / target.bound.of(len(data)))
            self.slowest = max(self.slowest, trial.seconds)
            if trial.seconds > SLOWEST and not patient:
                raise TooSlow(f"{trial.seconds:.0f} s")
        except Exception as crash:
            self._save(target, data, crash, folder)
            return False
        self.decoded += trial.decoded
        return trial.decoded

    def _save(self, target: Target, data: bytes, crash: Exception, folder: Path) -> None:
        frame = traceback.extract_tb(crash.__traceback__)[-1]
        place = f"{type(crash).__name__} at {Path(frame.filename).name}:{frame.lineno}"
        self.crashes[place] = self.crashes.get(place, 0) + 1
        if self.crashes[place] == 1:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{target.name}-{hashlib.sha256(data).hexdigest()[:12]}"
            path.write_bytes(data)
            self.saved.append(str(path))

    def to_json(self) -> str:
        """For another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TargetStatistics:
        """From another process."""
        return cls(**json.loads(text))
