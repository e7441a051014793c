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

from streamproc.privacy.types import IntArray
from streamproc.protocol.rejects import Reason, Reject

_REASONS = tuple(Reason)
_PLACE = {reason: place for place, reason in enumerate(_REASONS)}
_COUNTS, _BATCHES = "batches/rejected/", "batches/with/"
"""Names of arrays in a checkpoint, followed by a reason: how many reports, and of which batch."""
_OFFSET = attrgetter("offset")
_BITS = 4
"""Of a key that say the reason; the others say the batch."""


class RejectCollector:
    """The rejects of one partition.

    A batch with undecided reports takes 12 bytes, up to 15 with the room to grow, and 12 bytes for each reason for which
    reports of it were rejected.
    """

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._decided: Counter[Reason] = Counter()
        """Reports rejected since the last call of `take_counts`."""
        self._single: list[tuple[IntArray, Reason]] = []
        """Offsets of records with one report, or of batches read by a version that did not keep them together."""
        self._ones: list[tuple[int, Reason]] = []
        self._offsets = np.empty(0, dtype=np.int64)
        """Of batches with undecided reports, ascending; `_left` goes with it, and both have room at their end."""
        self._left = np.empty(0, dtype=np.int32)
        """Reports of each that are not decided yet."""
        self._used = 0
        self._counts = BatchCounts()

    def expect_batch(self, offset: int, reports: int) -> None:
        """A batch of so many reports comes next in the log."""
        if self._used == len(self._offsets):
            room = self._used // 4 + 16
            self._offsets = np.append(self._offsets, np.zeros(room, dtype=np.int64))
            self._left = np.append(self._left, np.zeros(room, dtype=np.int32))
        self._offsets[self._used], self._left[self._used] = offset, reports
        self._used += 1

    def reject(self, offsets: IntArray, reason: Reason) -> None:
        """Reports in these records do not count; an offset comes once for each report."""
        if len(offsets):
            self._decided[reason] += len(offsets)
            batches, numbers, others = self._decide(offsets)
            if len(batches):
                self._counts.add(batches, numbers, reason)
            if len(others):
                self._single.append((others, reason))

    def reject_one(self, offset: int, reason: Reason) -> None:
        """A report in the record that is being read does not count."""
        self._decided[reason] += 1
        last = self._used - 1
        if last >= 0 and self._offsets[last] == offset:
            self._left[last] -= 1
            self._counts.add_one(last, reason)
        else:
            self._ones.append((offset, reason))

    def count(self, offsets: IntArray) -> None:
        """Reports in these records count."""
        if self._used:
            self._decide(offsets)

    def drain_counts(self) -> dict[Reason, int]:
        """How many reports were rejected since the last call, whether or not the reject of their record is final."""
        counts, self._decided = dict(self._decided), Counter()
        return counts

    def _decide(self, offsets: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The known batches of these reports, how many are in each, and the offsets of those that are in none."""
        none = np.empty(0, dtype=np.int64)
        if not self._used:
            return none, none, offsets
        known = self._offsets[: self._used]
        places = np.searchsorted(known, offsets)
        in_batch = known[np.minimum(places, self._used - 1)] == offsets
        places = places[in_batch]
        if len(places) < self._used // 16:
            batches, numbers = np.unique(places, return_counts=True)
        else:
            # One pass over all batches is faster than a sort, unless there are few reports.
            in_each = np.bincount(places, minlength=self._used)
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
        return {
            "batches/offsets": self._offsets[: self._used],
            "batches/left": self._left[: self._used],
            **self._counts.arrays(),
        }

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Take up what `arrays` gave."""
        if "batches/offsets" in state:
            self._offsets = np.array(state["batches/offsets"], dtype=np.int64)
            self._left = np.array(state["batches/left"], dtype=np.int32)
            self._used = len(self._offsets)
            self._counts.restore(state, self._used)


class BatchCounts:
    """Rejected reports by batch and reason, 12 bytes for each pair that occurs. Batches are numbered from 0."""

    def __init__(self) -> None:
        self._keys = np.empty(0, dtype=np.int64)
        """The number of a batch and the place of a reason, ascending."""
        self._numbers = np.empty(0, dtype=np.int32)
        self._new: list[tuple[IntArray, IntArray]] = []
        """Keys and numbers that are not among those yet."""
        self._new_ones: Counter[int] = Counter()

    def add(self, batches: IntArray, numbers: IntArray, reason: Reason) -> None:
        """So many reports of each of these batches are rejected."""
        self._new.append(((batches << _BITS) | _PLACE[reason], numbers))
        if len(self._new) >= _MERGE_EVERY:
            self._merge()

    def add_one(self, batch: int, reason: Reason) -> None:
        """A report of this batch is rejected."""
        self._new_ones[(batch << _BITS) | _PLACE[reason]] += 1
        if len(self._new_ones) >= _MERGE_EVERY:
            self._merge()

    def take(self, final: npt.NDArray[np.bool_]) -> dict[int, dict[Reason, int]]:
        """The counts of those batches that are marked, which are here no longer; the others are numbered from 0 again."""
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
        """Everything, for a checkpoint."""
        self._merge()
        state: dict[str, npt.NDArray[np.generic]] = {}
        for place, reason in enumerate(_REASONS):
            here = self._keys % (1 << _BITS) == place
            if here.any():
                state[_BATCHES + reason] = self._keys[here] >> _BITS
                state[_COUNTS + reason] = self._numbers[here]
        return state

    def restore(self, state: Mapping[str, npt.NDArray[np.generic]], batches: int) -> None:
        """Take up what `arrays` gave. Raises ValueError if it names other batches than these."""
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
        keys, place = np.unique(keys, return_inverse=True)
        numbers = np.bincount(place, weights=added).astype(np.int32)
        at = np.searchsorted(self._keys, keys)
        known = np.append(self._keys, -1)[at] == keys
        self._numbers[at[known]] += numbers[known]
        self._keys = np.insert(self._keys, at[~known], keys[~known])
        self._numbers = np.insert(self._numbers, at[~known], numbers[~known])


_MERGE_EVERY = 1_000
"""Additions that `BatchCounts` collects before it merges them: a merge copies everything."""
