"""Properties: any bytes, and any change to something valid, is an answer or a declared error, within the stated memory."""

from __future__ import annotations

from random import Random

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutators import framed, frames
from tests.fuzz.targets import TARGETS
from tests.fuzz.trees import encode_tree, parse_tree
from tests.fuzz.trial import Target, run_trial

EACH = pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)


@EACH
@settings(max_examples=8)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_a_declared_error(target: Target, data: bytes) -> None:
    run_trial(target, data)


@EACH
@settings(max_examples=12)
@given(chosen=st.integers(0, 2**32))
def test_anything_valid_that_was_changed_is_an_answer_or_a_declared_error(target: Target, chosen: int) -> None:
    rng = Random(chosen)
    data = rng.choice(target.seeds())
    for _ in range(rng.randint(1, 3)):
        data = target.mutate(data, rng)
    run_trial(target, data)


def test_mutation_repeats_itself_and_leaves_some_inputs_valid() -> None:
    for target in TARGETS.values():
        seed = target.seeds()[0]
        changed = [target.mutate(seed, Random(chosen)) for chosen in range(60)]
        assert changed == [target.mutate(seed, Random(chosen)) for chosen in range(60)]
        assert len(set(changed)) > 20
        if target.name != "envelope":  # any change to a checksummed file is noticed
            assert any(run_trial(target, data).decoded for data in changed), target.name


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


@given(TREES, st.lists(st.binary()))
def test_trees_and_frames_are_written_as_they_were_read(value: object, records: list[bytes]) -> None:
    packed = msgpack.packb(value)
    assert encode_tree(parse_tree(packed)) == packed
    assert frames(framed(records)) == records
