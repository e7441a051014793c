"""A study released many times over the same data, on all cores: how accuracy is measured rather than believed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import Connection
from typing import TypeVar, cast

from streamproc.errors import StreamprocError
from streamproc.releases.kind import Contract
from streamproc.replay import ReplayResult, replay_study
from streamproc.replay.replay import Tallies
from streamproc.storage.entropy import SeededEntropy, shared_process_entropy
from streamproc.study import Study

Outcome = TypeVar("Outcome")

_CHUNK = 4
"""Runs a worker is handed at a time, at most: results come steadily."""
_AHEAD = 4
"""Chunks under way or done for each worker, at most: results do not pile up before a slow reader."""


def repeat_study(
    study: Study,
    contracts: Mapping[str, Contract],
    tallies: Tallies,
    evaluate: Callable[[int, ReplayResult], Outcome],
    runs: int,
    seed: int | None = None,
) -> Iterator[Outcome]:
    """`ask(run, replayed)` for `run = 0..runs-1`, in order. `ask` runs in other processes, so it must be picklable.

    With a seed, run `i` uses `seed + i`: run 0 is the study that a single replay with this seed releases. However this ends,
    also by an interrupt, the processes end with it, without a word of their own.
    """
    workers = min(os.cpu_count() or 1, runs)
    context = multiprocessing.get_context("spawn")
    told, tell = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, _prepare, (told, (study, contracts, tallies, evaluate, seed)))
    chunk = max(1, min(_CHUNK, runs // (16 * workers)))
    chunks = (range(first, min(first + chunk, runs)) for first in range(0, runs, chunk))
    waiting: deque[Future[list[object]]] = deque()
    try:
        for ahead in chunks:
            with _signals_held_back():
                waiting.append(pool.submit(_run, ahead))
            if len(waiting) > _AHEAD * workers:
                yield from cast(list[Outcome], waiting.popleft().result())
        while waiting:
            yield from cast(list[Outcome], waiting.popleft().result())
    except BrokenProcessPool:
        raise StreamprocError("a worker process was ended from outside: is there enough memory for every core?") from None
    finally:
        # Nothing is cancelled: a worker that ends while the pool holds cancelled work makes it print a traceback.
        pool.shutdown(wait=False)
        tell.close()
        told.close()


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal. Those started in here never see it; they are told to end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_Prepared = tuple[Study, Mapping[str, Contract], Tallies, Callable[[int, ReplayResult], object], int | None]
_prepared: _Prepared


def _prepare(told: Connection, prepared: _Prepared) -> None:
    """Set up a worker once: the tallies are far larger than a run's number."""
    threading.Thread(target=_end_when, args=(told,), daemon=True).start()
    global _prepared  # noqa: PLW0603  a process pool's only way to hand a worker something once
    _prepared = prepared


def _end_when(told: Connection) -> None:
    """End this worker, whatever it is doing, when the parent's end of the pipe is closed: also because it was killed."""
    told.poll(None)
    os._exit(0)


def _run(runs: range) -> list[object]:
    study, contracts, tallies, ask, seed = _prepared
    outcomes = []
    for run in runs:
        with shared_process_entropy() if seed is None else nullcontext(SeededEntropy(seed + run)) as entropy:
            replayed = replay_study(study, contracts, tallies, entropy)
        outcomes.append(ask(run, replayed))
    return outcomes
