"""A study released many times over the same data, on all cores: how accuracy is measured rather than believed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar, cast

from streamproc.errors import StreamprocError
from streamproc.ports.entropy import SeededEntropy, SystemEntropy
from streamproc.privacy.entropy import Entropy
from streamproc.replay import Replayed, replay_study
from streamproc.replay.study import Tallies
from streamproc.study import Study
from streamproc.synth.contract import Contract

Outcome = TypeVar("Outcome")


def repeat_study(
    study: Study,
    contracts: Mapping[str, Contract],
    tallies: Tallies,
    ask: Callable[[int, Replayed], Outcome],
    runs: int,
    seed: int | None = None,
) -> Iterator[Outcome]:
    """`ask(run, replayed)` for `run = 0..runs-1`, in order. `ask` runs in other processes, so it must be picklable.

    With a seed, run `i` uses `seed + i`: run 0 is the study that a single replay with this seed releases.
    """
    workers = min(os.cpu_count() or 1, runs)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _prepare, (study, contracts, tallies, ask, seed))
    try:
        # Few runs in a chunk: results come steadily, and an interrupt need not wait long for those under way.
        chunk = max(1, min(4, runs // (16 * workers)))
        yield from pool.map(cast(Callable[[int], Outcome], _run), range(runs), chunksize=chunk)
    except BrokenProcessPool:
        raise StreamprocError("a worker process was ended from outside: is there enough memory for every core?") from None
    finally:
        pool.shutdown(cancel_futures=True)


_prepared: tuple[Study, Mapping[str, Contract], Tallies, Callable[[int, Replayed], object], int | None]


def _prepare(*arguments: object) -> None:
    """Set up a worker once: the tallies are far larger than a run's number."""
    # Ctrl-C reaches every process of a terminal: a worker ends without a word, and the parent says what there is to say.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    global _prepared  # noqa: PLW0603  a process pool's only way to hand a worker something once
    _prepared = arguments  # type: ignore[assignment]


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers, and they would wait for it for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(run: int) -> object:
    study, contracts, tallies, ask, seed = _prepared
    entropy: Entropy = SystemEntropy() if seed is None else SeededEntropy(seed + run)
    return ask(run, replay_study(study, contracts, tallies, entropy))
