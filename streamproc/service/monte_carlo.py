"""Replays a study many times over the same data, on all cores, to measure the accuracy of its releases."""

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
from streamproc.offline import ReplayResult, replay_study
from streamproc.offline.replay import Tallies
from streamproc.releases.kind import Contract
from streamproc.storage.entropy import SeededEntropy, shared_process_entropy
from streamproc.study import Study

Outcome = TypeVar("Outcome")

_MAX_CHUNK_RUNS = 4
"""Maximum number of runs in a chunk, so that results arrive steadily."""
_CHUNKS_PER_WORKER = 4
"""Maximum number of chunks for each worker that are submitted or done, so that results do not accumulate in memory."""


def repeat_study(
    study: Study,
    contracts: Mapping[str, Contract],
    tallies: Tallies,
    evaluate: Callable[[int, ReplayResult], Outcome],
    runs: int,
    seed: int | None = None,
) -> Iterator[Outcome]:
    """Yield `evaluate(run, replayed)` for `run = 0..runs-1`, in order.

    `evaluate` runs in other processes, so it must be picklable. With a seed, run `i` uses `seed + i`, so run 0 equals a
    single replay with this seed. The worker processes end silently with this generator, also after an interrupt. Raises
    StreamprocError if a worker process is killed.
    """
    workers = min(os.cpu_count() or 1, runs)
    context = multiprocessing.get_context("spawn")
    pipe_end, parent_end = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, _prepare, (pipe_end, (study, contracts, tallies, evaluate, seed)))
    chunk = max(1, min(_MAX_CHUNK_RUNS, runs // (16 * workers)))
    chunks = (range(first, min(first + chunk, runs)) for first in range(0, runs, chunk))
    waiting: deque[Future[list[object]]] = deque()
    try:
        for ahead in chunks:
            with _signals_blocked():
                waiting.append(pool.submit(_run, ahead))
            if len(waiting) > _CHUNKS_PER_WORKER * workers:
                yield from cast(list[Outcome], waiting.popleft().result())
        while waiting:
            yield from cast(list[Outcome], waiting.popleft().result())
    except BrokenProcessPool:
        raise StreamprocError("a worker process was ended from outside: is there enough memory for every core?") from None
    finally:
        # Nothing is cancelled: a worker that ends while the pool holds cancelled work makes it print a traceback.
        pool.shutdown(wait=False)
        parent_end.close()
        pipe_end.close()


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block SIGINT and SIGTERM, so that worker processes started in here inherit that.

    Ctrl-C is sent to every process of a terminal. Workers ignore it, and exit when the parent closes the pipe.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_Prepared = tuple[Study, Mapping[str, Contract], Tallies, Callable[[int, ReplayResult], object], int | None]
_prepared: _Prepared


def _prepare(pipe_end: Connection, prepared: _Prepared) -> None:
    """Set up a worker process. Its data are sent once, because the tallies are far larger than the number of a run."""
    threading.Thread(target=_exit_when_closed, args=(pipe_end,), daemon=True).start()
    global _prepared  # noqa: PLW0603  a process pool's only way to hand a worker something once
    _prepared = prepared


def _exit_when_closed(pipe_end: Connection) -> None:
    """Exit this worker process when the parent's end of the pipe is closed, also because the parent was killed."""
    pipe_end.poll(None)
    os._exit(0)


def _run(runs: range) -> list[object]:
    study, contracts, tallies, evaluate, seed = _prepared
    outcomes = []
    for run in runs:
        with shared_process_entropy() if seed is None else nullcontext(SeededEntropy(seed + run)) as entropy:
            replayed = replay_study(study, contracts, tallies, entropy)
        outcomes.append(evaluate(run, replayed))
    return outcomes
