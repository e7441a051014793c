"""Collects rejects: one for each record that holds a report which does not count.

The reports of one record may be decided at different times, so the reject of a batch is made when all of its reports are
decided. Then it is final, and depends on the log and the cuts only, except that a report with several reasons is rejected
for any one of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import IntArray
from streamproc.protocol.rejects import Reason, Reject

_REASONS = tuple(Reason)
_INDEX = {reason: index for index, reason in enumerate(_REASONS)}
_COUNTS, _BATCHES = "batches/rejected/", "batches/with/"
"""Prefixes of array names in a checkpoint; a reason follows. The arrays hold numbers of reports, and their batches."""
_OFFSET = attrgetter("offset")
_BITS = 4
"""Number of low bits of a key that hold the reason; the others hold the batch."""


class RejectCollector:
    """The rejects of one partition.

    A batch with undecided reports takes 12 bytes, up to 15 with the spare capacity, and 12 bytes for each reason for which
    reports of it were rejected.
    """

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._decided: Counter[Reason] = Counter()
        """Number of reports rejected since the last call of `drain_counts`."""
        self._single: list[tuple[IntArray, Reason]] = []
        """Offsets of records with one report, or of batches in checkpoints that do not list batches."""
        self._ones: list[tuple[int, Reason]] = []
        self._offsets = np.empty(0, dtype=np.int64)
        """Offsets of batches with undecided reports, ascending. Only the first `_used` entries are valid, as in `_left`."""
        self._left = np.empty(0, dtype=np.int32)
        """Number of undecided reports of each of these batches."""
        self._used = 0
        self._counts = BatchCounts()

    def expect_batch(self, offset: int, reports: int) -> None:
        """Note that the next record of the log is a batch of this many reports."""
        if self._used == len(self._offsets):
            spare = self._used // 4 + 16
            self._offsets = np.append(self._offsets, np.zeros(spare, dtype=np.int64))
            self._left = np.append(self._left, np.zeros(spare, dtype=np.int32))
        self._offsets[self._used], self._left[self._used] = offset, reports
        self._used += 1

    def reject(self, offsets: IntArray, reason: Reason) -> None:
        """Reject reports by the offsets of their records. An offset occurs once for each report."""
        if len(offsets):
            self._decided[reason] += len(offsets)
            batches, numbers, others = self._decide(offsets)
            if len(batches):
                self._counts.add(batches, numbers, reason)
            if len(others):
                self._single.append((others, reason))

    def reject_one(self, offset: int, reason: Reason) -> None:
        """Reject one report of the record that is being read."""
        self._decided[reason] += 1
        last = self._used - 1
        if last >= 0 and self._offsets[last] == offset:
            self._left[last] -= 1
            self._counts.add_one(last, reason)
        else:
            self._ones.append((offset, reason))

    def count(self, offsets: IntArray) -> None:
        """Note that reports in these records count. An offset occurs once for each report."""
        if self._used:
            self._decide(offsets)

    def drain_counts(self) -> dict[Reason, int]:
        """Number of reports rejected since the last call, for each reason, including rejects that are not final yet."""
        counts, self._decided = dict(self._decided), Counter()
        return counts

    def _decide(self, offsets: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Mark reports as decided. Returns their batches, the number in each, and the offsets of reports in no batch."""
        none = np.empty(0, dtype=np.int64)
        if not self._used:
            return none, none, offsets
        known = self._offsets[: self._used]
        indices = np.searchsorted(known, offsets)
        in_batch = known[np.minimum(indices, self._used - 1)] == offsets
        indices = indices[in_batch]
        if len(indices) < self._used // 16:
            batches, numbers = np.unique(indices, return_counts=True)
        else:
            # One pass over all batches is faster than a sort unless there are few reports.
            in_each = np.bincount(indices, minlength=self._used)
            batches = np.flatnonzero(in_each)
            numbers = in_each[batches]
        self._left[batches] -= numbers.astype(np.int32)
        return batches, numbers, offsets[~in_batch]

    def drain(self) -> list[Reject]:
        """The rejects that became final since the last call, in the order of the log."""
        rejects = self._drain_single()
        final = self._left[: self._used] == 0
        if final.any():
            for batch, counts in self._counts.take(final).items():
                rejects.append(Reject.of(self._partition, int(self._offsets[batch]), counts))
            stay = np.flatnonzero(~final)
            self._offsets, self._left = self._offsets[stay], self._left[stay]
            self._used = len(stay)
            rejects.sort(key=_OFFSET)
        return rejects

    def _drain_single(self) -> list[Reject]:
        if not self._single and not self._ones:
            return []
        ones = np.array([(offset, _INDEX[reason]) for offset, reason in self._ones], dtype=np.int64).reshape(-1, 2)
        offsets = np.concatenate([ones[:, 0], *(offsets for offsets, _ in self._single)])
        reasons = np.concatenate([ones[:, 1], *(np.full(len(each), _INDEX[reason]) for each, reason in self._single)])
        self._single, self._ones = [], []
        order = np.argsort(offsets, kind="stable")
        offsets, reasons = offsets[order], reasons[order]
        if (offsets[1:] > offsets[:-1]).all():
            pairs = zip(offsets.tolist(), reasons.tolist(), strict=True)
            return [Reject(self._partition, offset, _REASONS[index]) for offset, index in pairs]
        counts: dict[int, Counter[Reason]] = defaultdict(Counter)
        for offset, index in zip(offsets.tolist(), reasons.tolist(), strict=True):
            counts[offset][_REASONS[index]] += 1
        return [Reject.of(self._partition, offset, counts[offset]) for offset in counts]

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The batches with undecided reports, for a checkpoint; empty if there are none. Call `drain` before."""
        if not self._used:
            return {}
        return {
            "batches/offsets": self._offsets[: self._used],
            "batches/left": self._left[: self._used],
            **self._counts.arrays(),
        }

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Restore what `arrays` returned."""
        if "batches/offsets" in state:
            self._offsets = np.array(state["batches/offsets"], dtype=np.int64)
            self._left = np.array(state["batches/left"], dtype=np.int32)
            self._used = len(self._offsets)
            self._counts.restore(state, self._used)


class BatchCounts:
    """Number of rejected reports by batch and reason, in 12 bytes for each pair. Batches are numbered from 0."""

    def __init__(self) -> None:
        self._keys = np.empty(0, dtype=np.int64)
        """The number of a batch and the index of a reason in one integer, ascending."""
        self._numbers = np.empty(0, dtype=np.int32)
        self._new: list[tuple[IntArray, IntArray]] = []
        """Keys and numbers that were added since the last merge."""
        self._new_ones: Counter[int] = Counter()

    def add(self, batches: IntArray, numbers: IntArray, reason: Reason) -> None:
        """Add this number of rejected reports to each of these batches."""
        self._new.append(((batches << _BITS) | _INDEX[reason], numbers))
        if len(self._new) >= _MERGE_EVERY:
            self._merge()

    def add_one(self, batch: int, reason: Reason) -> None:
        """Add one rejected report to a batch."""
        self._new_ones[(batch << _BITS) | _INDEX[reason]] += 1
        if len(self._new_ones) >= _MERGE_EVERY:
            self._merge()

    def take(self, final: npt.NDArray[np.bool_]) -> dict[int, dict[Reason, int]]:
        """Remove the batches that are marked in `final`, and return their counts. The others are renumbered from 0."""
        self._merge()
        batches = self._keys >> _BITS
        gone = final[batches]
        taken: dict[int, dict[Reason, int]] = defaultdict(dict)
        for key, number in zip(self._keys[gone].tolist(), self._numbers[gone].tolist(), strict=True):
            taken[key >> _BITS][_REASONS[key % (1 << _BITS)]] = number
        left = self._keys[~gone]
        self._keys = ((np.cumsum(~final) - 1)[left >> _BITS] << _BITS) | (left % (1 << _BITS))
        self._numbers = self._numbers[~gone]
        return taken

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """All counts, for a checkpoint."""
        self._merge()
        state: dict[str, npt.NDArray[np.generic]] = {}
        for index, reason in enumerate(_REASONS):
            here = self._keys % (1 << _BITS) == index
            if here.any():
                state[_BATCHES + reason] = self._keys[here] >> _BITS
                state[_COUNTS + reason] = self._numbers[here]
        return state

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]], batches: int) -> None:
        """Restore what `arrays` returned. Raises ValueError if it has other batches than `0..batches-1`."""
        for reason in _REASONS:
            if _COUNTS + reason in state:
                of = np.array(state[_BATCHES + reason], dtype=np.int64)
                if len(of) != len(state[_COUNTS + reason]) or (of < 0).any() or (of >= batches).any():
                    raise ValueError
                self.add(of, np.array(state[_COUNTS + reason], dtype=np.int64), reason)
        self._merge()

    def _merge(self) -> None:
        if not self._new and not self._new_ones:
            return
        ones = np.array(list(self._new_ones.items()), dtype=np.int64).reshape(-1, 2)
        keys = np.concatenate([ones[:, 0], *(keys for keys, _ in self._new)])
        added = np.concatenate([ones[:, 1], *(numbers for _, numbers in self._new)])
        self._new, self._new_ones = [], Counter()
        keys, index = np.unique(keys, return_inverse=True)
        numbers = np.bincount(index, weights=added).astype(np.int32)
        at = np.searchsorted(self._keys, keys)
        known = np.append(self._keys, -1)[at] == keys
        self._numbers[at[known]] += numbers[known]
        self._keys = np.insert(self._keys, at[~known], keys[~known])
        self._numbers = np.insert(self._numbers, at[~known], numbers[~known])


_MERGE_EVERY = 1_000
"""Number of additions that `BatchCounts` collects before it merges them, because a merge copies all counts."""
