"""One process that feeds one target, or all in turn: guided by coverage with atheris, else by chance alone.

    python -m tests.fuzz.worker TARGET|all INPUTS SECONDS SEED FOLDER

Writes to FOLDER: `<target>.json` with what it has seen, and the inputs that crashed. libFuzzer never returns, so the process
ends itself when it has had enough.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fuzz.trial import Target

LONGEST = 8_192
"""Bytes of an input; the bombs, which are longer, are a table of their own."""

EVERY = "all"
_PARTS = (
    *("protocol", "study", "files", "gatherer", "panel", "releases", "synthesizer.checkpoint"),
    *("status_page", "service.http_server"),
)
INSTRUMENTED = [*(f"streamproc.{part}" for part in _PARTS), "tomllib"]
"""What coverage is measured of."""


def has_atheris() -> bool:
    """It has wheels for Linux on x86-64 only."""
    return find_spec("atheris") is not None


class Worker:
    """The targets that this process feeds; with more than one, an input's first byte says which."""

    def __init__(self, targets: list[Target], inputs: int, seconds: float, folder: Path) -> None:
        from tests.fuzz.target_statistics import TargetStatistics

        self._targets = targets
        self._inputs = inputs
        self._ends = time.monotonic() + seconds
        self._patient = len(targets) > 1
        self._folder = folder
        self._statistics = [TargetStatistics(target.name) for target in targets]
        self._seeds = [target.seeds() for target in targets]

    def corpus(self) -> list[bytes]:
        """All seeds."""
        return [self._addressed(index, seed) for index, seeds in enumerate(self._seeds) for seed in seeds]

    def feed(self, data: bytes) -> bool:
        """Try one input; ends the process when there were enough."""
        index, body = self._at(data)
        decoded = self._statistics[index].feed(self._targets[index], body, self._folder, patient=self._patient)
        if sum(statistics.inputs for statistics in self._statistics) >= self._inputs or time.monotonic() > self._ends:
            self.end()
        return decoded

    def mutate(self, data: bytes, most: int, rng: Random, plain: Callable[[bytes, int], bytes] | None) -> bytes:
        """Another input from this one, of at most so many bytes; `plain` knows nothing of structure."""
        index, body = self._at(data)
        if len(self._targets) > 1 and rng.random() < 0.1:
            index = rng.randrange(len(self._targets))
        if rng.random() < 0.3:
            body = rng.choice(self._seeds[index])  # what has been changed often passes few checks
        if plain is None or rng.random() < 0.7:
            changed = self._targets[index].mutate(body, rng)
            if len(changed) < most:
                return self._addressed(index, changed)
        return self._addressed(index, plain(body, most - 1) if plain else body[: most // 2])

    def end(self) -> None:
        """Say what was seen and end the process, whatever is on the stack."""
        for statistics in self._statistics:
            (self._folder / f"{statistics.target}.json").write_text(statistics.to_json())
        sys.stdout.flush()
        os._exit(0)

    def _at(self, data: bytes) -> tuple[int, bytes]:
        if len(self._targets) == 1:
            return 0, data
        return (data[0] % len(self._targets) if data else 0), data[1:]

    def _addressed(self, index: int, body: bytes) -> bytes:
        return body if len(self._targets) == 1 else bytes([index]) + body


def guided(worker: Worker, seed: int, folder: Path, atheris: Any) -> None:
    """Fuzz with libFuzzer, which keeps what reaches new code and says on stderr how much that is."""
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(worker.corpus()):
        (corpus / str(number)).write_bytes(data)

    def mutate(data: bytes, most: int, chosen: int) -> bytes:
        return worker.mutate(data, most, Random(chosen), atheris.Mutate)

    def feed(data: bytes) -> None:
        worker.feed(data)

    options = [f"-seed={seed}", f"-max_len={LONGEST}", "-len_control=0", "-timeout=120", "-rss_limit_mb=3000"]
    options += [f"-artifact_prefix={folder}/", "-print_pcs=0"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], feed, custom_mutator=mutate)
    atheris.Fuzz()


def unguided(worker: Worker, seed: int) -> None:
    """Fuzz by chance: what decodes is mutated further."""
    rng, corpus = Random(seed), worker.corpus()
    for data in corpus[:]:
        worker.feed(data)
    while True:
        data = worker.mutate(rng.choice(corpus), LONGEST, rng, None)
        if worker.feed(data) and len(corpus) < 2_000:
            corpus.append(data)


def main(name: str, inputs: int, seconds: float, seed: int, folder: Path) -> None:
    """Feed the target until there were enough inputs or the time is over."""
    if not has_atheris():
        unguided(_worker(name, inputs, seconds, folder), seed)
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=INSTRUMENTED):
        worker = _worker(name, inputs, seconds, folder)
    guided(worker, seed, folder, atheris)


def _worker(name: str, inputs: int, seconds: float, folder: Path) -> Worker:
    from tests.fuzz.targets import TARGETS

    return Worker(list(TARGETS.values()) if name == EVERY else [TARGETS[name]], inputs, seconds, folder)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
