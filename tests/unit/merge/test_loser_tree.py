"""The tournament of runs: how it is built, what it holds, what comes out of it."""

import math
import subprocess
import sys

import numpy as np
import pytest

from lakebed.merge import tree
from lakebed.merge.kernel import load_kernels
from lakebed.merge.twin import LoserTree


def to_keys(keys: list[bytes]) -> tree.Keys:
    offsets = np.cumsum([0, *map(len, keys)], dtype=np.int32)
    return tree.Keys(np.frombuffer(b"".join(keys), np.uint8), offsets)


def interleaved(runs: int, rows: int) -> list[list[bytes]]:
    return [[b"key %05d" % (row * runs + run) for row in range(rows)] for run in range(runs)]


class CountedKey(bytes):
    """A key that counts how often it is compared."""

    compared = 0

    def __lt__(self, other):
        CountedKey.compared += 1
        return bytes.__lt__(self, other)


@pytest.mark.parametrize("runs", [1, 2, 3, 5, 8, 9, 64, 130])
def test_a_built_tree_has_a_node_for_each_run_and_the_least_key_on_top(runs):
    built = LoserTree(interleaved(runs, 3)[::-1])
    assert len(built.losers) == runs
    assert built.runner == runs - 1
    assert sorted([built.runner, *built.losers[1:]]) == list(range(runs))


@pytest.mark.parametrize("runs", [2, 9, 64, 130])
def test_a_row_costs_one_match_for_each_level_of_the_tree(runs):
    rows = 20
    keys = [[CountedKey(key) for key in run] for run in interleaved(runs, rows)]
    built = LoserTree(keys)
    CountedKey.compared = 0
    for _ in range(runs * (rows - 1)):
        built.pop()
    assert CountedKey.compared <= runs * (rows - 1) * math.ceil(math.log2(runs))


def test_a_used_up_tree_says_so():
    built = LoserTree([[b"a"], []])
    assert built.pop() == (0, 0)
    with pytest.raises(IndexError, match="used up"):
        built.pop()
    with pytest.raises(IndexError, match="used up"):
        LoserTree([]).pop()


@pytest.mark.parametrize("runs", [1, 2, 3, 9, 64, 130])
def test_every_run_has_its_place_in_the_tree_of_the_kernel(runs):
    keys = [key for run in interleaved(runs, 3) for key in run]
    data = np.frombuffer(b"".join(keys) + bytes(24), np.uint8)
    words = np.ndarray((len(data) - 7,), np.uint64, data, strides=(1,))
    offsets = np.cumsum([0, *map(len, keys)], dtype=np.int64)
    bounds = np.arange(0, 3 * runs + 1, 3)
    leaves = 1 << (runs - 1).bit_length()
    places = np.empty(leaves, np.int64)
    positions, starts = np.empty(3 * runs, np.int64), np.empty(3 * runs, np.uint8)
    load_kernels().order_runs(words, offsets, bounds, places, positions, starts)
    assert sorted(places.tolist()) == list(range(leaves))
    assert [keys[at] for at in positions] == sorted(keys)


@pytest.mark.parametrize("kernel", [False, True], ids=["twin", "kernel"])
@pytest.mark.parametrize("runs", [0, 1, 2, 3, 7, 64, 65, 130])
def test_runs_come_out_in_order_whatever_their_number(kernel, runs):
    keys = interleaved(runs, 40)
    found = tree.order_keys([[to_keys(run)] for run in keys], kernel=kernel)
    flat = [key for run in keys for key in run]
    assert [flat[at] for at in found.positions] == sorted(flat)
    assert found.starts.all()


@pytest.mark.parametrize("kernel", [False, True], ids=["twin", "kernel"])
def test_a_run_in_pieces_is_one_run(kernel):
    pieces = [to_keys([b"a", b"b"]), to_keys([]), to_keys([b"b", b"d"])]
    found = tree.order_keys([pieces, [to_keys([b"b", b"c"])]], kernel=kernel)
    assert found.positions.tolist() == [0, 1, 2, 4, 5, 3]
    assert found.starts.tolist() == [True, True, False, False, True, True]


@pytest.mark.parametrize("kernel", [False, True], ids=["twin", "kernel"])
def test_a_run_that_leaves_the_bytes_its_ends_share_is_found_out(kernel):
    keys = [b"user_id:1,id:1", b"aaaa", b"user_id:1,id:3"]
    found = tree.order_keys([[to_keys(keys)], [to_keys([b"user_id:1,id:2"])]], kernel=kernel)
    assert found.descends == 1


def test_numba_is_imported_only_when_many_rows_are_merged():
    """Importing it takes longer than merging a million rows without it."""
    script = """
import sys
import pyarrow as pa
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import Run
from lakebed.merge.window import merge_runs

schema = pa.schema([("_hoodie_record_key", pa.string())])

def merge(rows):
    ends = b"".join((6 * i).to_bytes(4, "little") for i in range(rows + 1))
    text = b"".join(b"%06d" % i for i in range(rows))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(text)]
    column = pa.Array.from_buffers(pa.string(), rows, buffers)
    keys = pa.RecordBatch.from_arrays([column], schema=schema)
    runs = [Run("a", [keys]), Run("b", [keys])]
    return sum(batch.num_rows for batch in merge_runs(runs, MergeRule(), schema))

assert merge(10) == 10
assert "numba" not in sys.modules
assert merge(30_000) == 30_000
assert "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_warming_up_leaves_nothing_to_compile():
    tree.warm_up()
    assert load_kernels.cache_info().currsize == 1
