"""Rejects on their way out: one for each record that holds a report which does not count.

Reports of one record may be decided at different times. The reject of a batch is therefore made when all of its reports are
decided: then it is final, and depends on the log and the cuts alone, but for the reasons of a report that has several.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from streamproc.privacy.quantities import IntArray
from streamproc.wire.rejects import Reason, Reject

_REASONS = tuple(Reason)
_PLACE = {reason: place for place, reason in enumerate(_REASONS)}
_COUNTS = "batches/rejected/"
_OFFSET = attrgetter("offset")


class RejectCollector:
    """The rejects of one partition. A batch with undecided reports takes about 60 bytes."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._single: list[tuple[IntArray, Reason]] = []
        """Offsets of records with one report, or of batches read by a version that did not keep them together."""
        self._ones: list[tuple[int, Reason]] = []
        self._offsets = np.empty(0, dtype=np.int64)
        """Of batches with undecided reports, ascending; the arrays below go with it, and all have room at their end."""
        self._left = np.empty(0, dtype=np.int32)
        """Reports of each that are not decided yet."""
        self._counts = np.empty((0, len(_REASONS)), dtype=np.int32)
        """Reports of each that are rejected, for each reason."""
        self._used = 0

    def expect(self, offset: int, reports: int) -> None:
        """A batch of so many reports comes next in the log."""
        if self._used == len(self._offsets):
            room = self._used // 4 + 16
            self._offsets = np.append(self._offsets, np.zeros(room, dtype=np.int64))
            self._left = np.append(self._left, np.zeros(room, dtype=np.int32))
            self._counts = np.append(self._counts, np.zeros((room, len(_REASONS)), dtype=np.int32), axis=0)
        self._offsets[self._used], self._left[self._used], self._counts[self._used] = offset, reports, 0
        self._used += 1

    def reject(self, offsets: IntArray, reason: Reason) -> None:
        """Reports in these records do not count; an offset comes once for each report."""
        if len(offsets):
            decided, others = self._decide(offsets)
            self._counts[: self._used, _PLACE[reason]] += decided
            if len(others):
                self._single.append((others, reason))

    def reject_one(self, offset: int, reason: Reason) -> None:
        """A report in the record that is being read does not count."""
        last = self._used - 1
        if last >= 0 and self._offsets[last] == offset:
            self._left[last] -= 1
            self._counts[last, _PLACE[reason]] += 1
        else:
            self._ones.append((offset, reason))

    def count(self, offsets: IntArray) -> None:
        """Reports in these records count."""
        if self._used:
            self._decide(offsets)

    def _decide(self, offsets: IntArray) -> tuple[IntArray, IntArray]:
        """How many of these reports are in each known batch, and the offsets of those that are in none."""
        known = self._offsets[: self._used]
        if not self._used:
            return np.zeros(0, dtype=np.int64), offsets
        places = np.searchsorted(known, offsets)
        in_batch = known[np.minimum(places, self._used - 1)] == offsets
        # `bincount` is many times as fast as `np.subtract.at`.
        decided = np.bincount(places[in_batch], minlength=self._used)
        self._left[: self._used] -= decided.astype(np.int32)
        return decided, offsets[~in_batch]

    def drain(self) -> list[Reject]:
        """The rejects that became final since the last call, in the order of the log."""
        rejects = self._drain_single()
        decided = self._left[: self._used] == 0
        if decided.any():
            for place in np.flatnonzero(decided & self._counts[: self._used].any(axis=1)).tolist():
                rejected = zip(_REASONS, self._counts[place].tolist(), strict=True)
                counts = {reason: count for reason, count in rejected if count}
                rejects.append(Reject.of(self._partition, int(self._offsets[place]), counts))
            stay = np.flatnonzero(~decided)
            self._offsets, self._left, self._counts = self._offsets[stay], self._left[stay], self._counts[stay]
            self._used = len(stay)
            rejects.sort(key=_OFFSET)
        return rejects

    def _drain_single(self) -> list[Reject]:
        if not self._single and not self._ones:
            return []
        ones = np.array([(offset, _PLACE[reason]) for offset, reason in self._ones], dtype=np.int64).reshape(-1, 2)
        offsets = np.concatenate([ones[:, 0], *(offsets for offsets, _ in self._single)])
        reasons = np.concatenate([ones[:, 1], *(np.full(len(each), _PLACE[reason]) for each, reason in self._single)])
        self._single, self._ones = [], []
        order = np.argsort(offsets, kind="stable")
        offsets, reasons = offsets[order], reasons[order]
        if (offsets[1:] > offsets[:-1]).all():
            pairs = zip(offsets.tolist(), reasons.tolist(), strict=True)
            return [Reject(self._partition, offset, _REASONS[place]) for offset, place in pairs]
        counts: dict[int, Counter[Reason]] = defaultdict(Counter)
        for offset, place in zip(offsets.tolist(), reasons.tolist(), strict=True):
            counts[offset][_REASONS[place]] += 1
        return [Reject.of(self._partition, offset, counts[offset]) for offset in counts]

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Batches with undecided reports, for a checkpoint, after `drain`; nothing if there are none."""
        if not self._used:
            return {}
        counts = self._counts[: self._used]
        return {
            "batches/offsets": self._offsets[: self._used],
            "batches/left": self._left[: self._used],
            **{_COUNTS + reason: counts[:, place] for place, reason in enumerate(_REASONS) if counts[:, place].any()},
        }

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take up what `arrays` gave."""
        if "batches/offsets" in state:
            self._offsets = np.array(state["batches/offsets"], dtype=np.int64)
            self._left = np.array(state["batches/left"], dtype=np.int32)
            self._used = len(self._offsets)
            self._counts = np.zeros((self._used, len(_REASONS)), dtype=np.int32)
            for place, reason in enumerate(_REASONS):
                if _COUNTS + reason in state:
                    self._counts[:, place] = state[_COUNTS + reason]
