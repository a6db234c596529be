"""The order of index keys, found by a few of their bytes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.format.index.ordered_bytes import encode_rows
from lakebed.index.secondary.key_order import key_order

TEXTS = st.text(st.sampled_from("\0ab￿"), max_size=12)


def ordered(keys: pa.Array) -> list[bytes]:
    return keys.take(key_order(keys)).to_pylist()


@given(st.lists(TEXTS, max_size=40), st.sampled_from(["", "a", "\0" * 4, "b" * 7, "b" * 90]))
def test_keys_are_sorted_and_come_once(texts, prefix):
    values = [prefix + text for text in texts]
    # A slice, whose offsets do not begin at zero.
    keys = encode_rows([pa.array(["before", *values], pa.string())]).slice(1)
    assert ordered(keys) == sorted(set(keys.to_pylist()))


@given(st.lists(st.tuples(st.none() | st.integers(-5, 5), TEXTS), max_size=40))
def test_the_first_bytes_that_differ_may_be_within_a_number(rows):
    numbers, texts = pa.array([n for n, _ in rows], pa.int64()), [text for _, text in rows]
    keys = encode_rows([numbers, pa.array(texts, pa.string())])
    assert ordered(keys) == sorted(set(keys.to_pylist()))


@pytest.mark.parametrize("distinct", [3, 700, 60_000])
def test_keys_that_agree_in_their_first_bytes_are_compared_as_a_whole(distinct):
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, distinct, 20_000)
    tails = [f"{n}" for n in rng.integers(0, 15_000, 20_000).tolist()]
    keys = encode_rows([pa.array(numbers.tolist()), pa.array(["t" * 9] * 20_000), pa.array(tails)])
    assert ordered(keys) == sorted(set(keys.to_pylist()))
    in_order = pa.array(sorted(set(keys.to_pylist())), pa.binary())
    assert key_order(in_order).to_pylist() == list(range(len(in_order)))
