"""Two sorted streams, cut into windows of the same keys."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakebed.merge.align import align

SCHEMA = pa.schema([("k", pa.string())])
KEYS = st.sets(st.text(max_size=2)).map(sorted)


def cut(keys: list[str], sizes: list[int]) -> list[pa.RecordBatch]:
    """Return keys in batches of these sizes, some of them empty."""
    batches = []
    for size in [*sizes, len(keys)]:
        batches.append(pa.RecordBatch.from_pydict({"k": keys[:size]}, schema=SCHEMA))
        keys = keys[size:]
    return batches


@given(KEYS, KEYS, st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_a_key_of_both_streams_is_in_one_window(
    one: list[str], other: list[str], cuts: list[int], other_cuts: list[int]
):
    windows = [
        (left.column("k").to_pylist(), right.column("k").to_pylist())
        for left, right in align(iter(cut(one, cuts)), iter(cut(other, other_cuts)), "k", SCHEMA)
    ]
    assert [key for left, _ in windows for key in left] == one
    assert [key for _, right in windows for key in right] == other
    places = [{key for side in window for key in side} for window in windows]
    assert all(places)
    assert sum(map(len, places)) == len({*one, *other}), "no key is in two windows"
