"""Statistics out of a footer's own bytes: as pyarrow reads them, and no crash where they are bad."""

import io
import struct
from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import CorruptError
from lakebed.format.files.footer_layout import parse_layout
from lakebed.format.files.parquet_statistics import ChunkStatistics, Physical
from lakebed.format.files.parquet_statistics import parse_statistics as parse


def parse_statistics(footer: bytes, columns: Collection[str], what: str):
    return parse(parse_layout(footer, what), columns)


TABLE = pa.table(
    {
        "i": pa.array([1, 2, None, 4], pa.int64()),
        "f": [1.0, 2.0, 3.0, None],
        "s": ["a", "b", None, "d"],
        "b": [True, False, None, True],
        "none": pa.array([None] * 4, pa.int32()),
        "nested": [{"x": 1}] * 4,
    }
)


def footer_of(table: pa.Table, **options) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=2, **options)
    data = sink.getvalue()
    [length] = struct.unpack("<I", data[-8:-4])
    return data[-8 - length : -8]


FOOTER = footer_of(TABLE)


def test_bounds_and_counts_are_those_of_the_footer():
    first, second = parse_statistics(FOOTER, TABLE.schema.names, "file")
    assert set(first) == {"i", "f", "s", "b", "none"}, "a nested column has no bounds of its own"
    assert first["i"] == ChunkStatistics(
        Physical.INT64, 2, 0, struct.pack("<q", 1), struct.pack("<q", 2)
    )
    assert second["f"] == ChunkStatistics(
        Physical.DOUBLE, 2, 1, struct.pack("<d", 3), struct.pack("<d", 3)
    )
    assert second["s"] == ChunkStatistics(Physical.BYTE_ARRAY, 2, 1, b"d", b"d")
    assert first["b"] == ChunkStatistics(Physical.BOOLEAN, 2, 0, b"\0", b"\1")
    assert first["none"] == ChunkStatistics(Physical.INT32, 2, 2, None, None)


def test_only_the_columns_asked_for_come():
    assert [set(group) for group in parse_statistics(FOOTER, ["s", "gone"], "file")] == [{"s"}] * 2


def test_a_footer_without_statistics_says_how_many_values_there_are():
    footer = footer_of(TABLE, write_statistics=False)
    assert parse_statistics(footer, ["i"], "file")[0]["i"] == ChunkStatistics(
        Physical.INT64, 2, None, None, None
    )


def test_many_row_groups_and_columns_are_all_found():
    wide = pa.table({f"c{number}": range(100) for number in range(40)})
    groups = parse_statistics(footer_of(wide), wide.schema.names, "file")
    assert len(groups) == 50
    for number, chunks in enumerate(groups):
        assert {chunk.lower for chunk in chunks.values()} == {struct.pack("<q", 2 * number)}
        assert len(chunks) == 40


@given(st.lists(st.tuples(st.integers(0, len(FOOTER) - 1), st.integers(0, 255)), min_size=1))
def test_changed_bytes_give_statistics_or_an_error_of_ours(changes):
    data = bytearray(FOOTER)
    for at, byte in changes:
        data[at] = byte
    try:
        parse_statistics(bytes(data), TABLE.schema.names, "file")
    except CorruptError:
        return


@pytest.mark.parametrize("cut", [0, 1, 10, len(FOOTER) // 2, len(FOOTER) - 1])
def test_a_footer_that_is_cut_is_corrupt(cut):
    with pytest.raises(CorruptError, match="file: its footer"):
        parse_statistics(FOOTER[:cut], ["i"], "file")


@given(st.binary(max_size=200))
def test_any_bytes_end_in_an_answer(data):
    try:
        parse_statistics(data, ["i"], "file")
    except CorruptError:
        return


@pytest.mark.parametrize("bomb", [b"\x1c" * 100_000, b"\x19\x19" * 50_000, b"\x49\xfc\xff\xff\x7f"])
def test_lengths_and_depths_that_nobody_wrote_cost_nothing(bomb):
    with pytest.raises(CorruptError):
        parse_statistics(bomb, ["i"], "file")
