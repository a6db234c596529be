import base64

import numpy as np
import pytest
from pyroaring import BitMap64

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.roaring import encode_positions, parse_positions

ZERO = "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAAA"


def test_bytes_are_those_of_hudi():
    assert encode_positions(np.array([0])) == ZERO
    assert parse_positions(ZERO, "f").tolist() == [0]


@pytest.mark.parametrize(
    "rows", [[], [5, 3, 3], range(100_000), range(0, 300_000, 3), [1 << 33, 7, (1 << 62) + 1]]
)
def test_positions_come_back_sorted_and_once(rows):
    text = encode_positions(np.array(rows, dtype=np.int64))
    assert parse_positions(text, "f").tolist() == sorted(set(rows))


def test_negative_position_is_refused():
    with pytest.raises(InvalidError, match="-1"):
        encode_positions(np.array([4, -1]))


@pytest.mark.parametrize("text", ["", "?", "é", "AAAA", ZERO[:-4], ZERO[:8], "A" * 7])
def test_text_that_is_no_bitmap_is_corrupt(text):
    with pytest.raises(CorruptError, match="block 3"):
        parse_positions(text, "block 3")


def test_few_bytes_that_stand_for_too_many_rows_are_corrupt():
    bitmap = BitMap64()
    bitmap.add_range(0, 1 << 27)
    text = base64.b64encode(bitmap.serialize()).decode()
    with pytest.raises(CorruptError, match="at most"):
        parse_positions(text, "f")


def test_position_beyond_any_file_is_corrupt():
    text = base64.b64encode(BitMap64([1 << 63]).serialize()).decode()
    with pytest.raises(CorruptError, match="no row"):
        parse_positions(text, "f")
