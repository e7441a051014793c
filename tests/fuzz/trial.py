"""One input on one decoder: what came of it, what it took, and what counts as a crash."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

from streamproc.errors import Malformed
from tests.fuzz.mutators import Mutator

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Bound:
    """The memory decoding may take at its peak, besides the input itself: `per_byte` times the input, plus `fixed` bytes."""

    per_byte: int
    fixed: int

    def of(self, size: int) -> int:
        """In bytes, for an input of `size` bytes."""
        return self.per_byte * size + self.fixed


@dataclass(frozen=True)
class Target:
    """A decoder as the fuzzer sees it."""

    name: str
    covers: tuple[object, ...]
    """The product's functions and classes that it feeds."""
    feed: Callable[[bytes], object]
    """Decode one input, and go on with what comes out as the product would."""
    seeds: Callable[[], list[bytes]]
    """Valid inputs, made by the encoders."""
    mutate: Mutator
    declared: tuple[type[Exception], ...]
    """The errors that are an answer; any other is a crash."""
    bound: Bound


class TooMuchMemory(AssertionError):
    """An input took more than its target's bound."""


class ChainedError(AssertionError):
    """A decoder's error is chained to another one, which may quote the input."""


@dataclass(frozen=True)
class Trial:
    """An input that was no crash."""

    decoded: bool
    peak: int
    """Bytes of memory at most, besides what was in use before."""
    seconds: float
    """Of the processor."""


def run_trial(target: Target, data: bytes, *, measured: bool = True) -> Trial:
    """Feed the input. Raises whatever the decoder raised that it should not, or TooMuchMemory if memory is measured."""
    if not measured:
        start = time.process_time()
        return Trial(_decodes(target, data), 0, time.process_time() - start)
    # Only while it is fed: what else a fuzzer does would be ten times slower.
    tracemalloc.start()
    try:
        start = time.process_time()
        decoded = _decodes(target, data)
        seconds = time.process_time() - start
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if peak > target.bound.of(len(data)):
        raise TooMuchMemory(f"{target.name}: {peak} bytes for an input of {len(data)}, above {target.bound.of(len(data))}")
    return Trial(decoded, peak, seconds)


def _decodes(target: Target, data: bytes) -> bool:
    try:
        target.feed(data)
    except target.declared as error:
        if isinstance(error, Malformed) and (error.__context__ or error.__cause__):
            raise ChainedError(target.name) from None
        if error.__cause__ or (error.__context__ and not error.__suppress_context__):
            raise ChainedError(target.name) from None
        return False
    return True
