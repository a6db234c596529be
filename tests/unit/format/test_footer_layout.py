"""The layout of a footer: what the walk finds, compiled or not, and that bad bytes end in an error."""

import io
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import CorruptError
from lakebed.format.compiled import kernels
from lakebed.format.files.footer_layout import parse_layout
from lakebed.format.files.footer_walk import walk_footer
from lakebed.format.files.parquet_pages import find_chunks
from lakebed.format.files.thrift import CompactWriter

NESTED = pa.table(
    {
        "id": [1, 2, 3],
        "point": [{"x": 1, "deep": {"y": ["a"], "z": None}}] * 3,
        "tags": [["a", "b"], [], None],
        "by": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "select": ["a", None, "c"],
        "名": [1.5, None, 2.5],
    }
)


def footer_of(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"row_group_size": 2, **options})
    data = sink.getvalue()
    [length] = struct.unpack("<I", data[-8:-4])
    return data[-8 - length : -8], pq.read_metadata(io.BytesIO(data))


def test_leaves_and_chunks_are_those_that_pyarrow_finds():
    footer, metadata = footer_of(NESTED)
    layout = parse_layout(footer, "f")
    schema = metadata.schema
    leaves = [leaf for of in layout.columns.values() for leaf in of]
    assert [leaf.path for leaf in leaves] == [schema.column(i).path for i in range(len(schema))]
    assert [name for name in layout.columns if layout.flat(name)] == ["id", "select", "名"]
    assert len(layout.groups) == metadata.num_row_groups == 2
    for group in range(2):
        chunks = find_chunks(layout, group, NESTED.column_names)
        for number, chunk in enumerate(chunks):
            theirs = metadata.row_group(group).column(number)
            assert chunk.path == theirs.path_in_schema
            assert chunk.compressed_bytes == theirs.total_compressed_size
            assert chunk.values == theirs.num_values
            starts = (theirs.dictionary_page_offset, theirs.data_page_offset)
            assert chunk.offset == min(start for start in starts if start)


def test_many_columns_and_row_groups_are_found_by_the_compiled_walk_too():
    wide = pa.table({f"c{number}": range(200) for number in range(300)})
    footer, _ = footer_of(wide, row_group_size=50)
    with kernels(True):
        compiled = walk_footer(footer)
    with kernels(False):
        plain = walk_footer(footer)
    assert compiled.tolist() == plain.tolist()
    layout = parse_layout(footer, "f")
    assert [len(chunks) for chunks in layout.groups] == [300] * 4
    assert [chunk.path for chunk in find_chunks(layout, 3, ["c7", "gone", "c299"])] == [
        "c7",
        "c299",
    ]


def test_a_table_without_rows_has_columns():
    footer, metadata = footer_of(NESTED.slice(0, 0))
    layout = parse_layout(footer, "f")
    assert list(layout.columns) == NESTED.column_names
    assert len(layout.groups) == metadata.num_row_groups


def test_a_field_with_a_number_of_its_own_is_understood():
    footer, _ = footer_of(pa.table({"id": [1]}))
    # Field 1, the version, with its number spelled out.
    assert footer[0] == 0x15
    assert parse_layout(b"\x05\x02" + footer[1:], "f").flat("id") is not None


def test_a_chunk_of_another_column_is_corrupt():
    footer, _ = footer_of(pa.table({"first": [1], "other": [2]}))
    swapped = footer.replace(b"\x05first", b"\x05fir__").replace(b"\x05fir__", b"\x05first", 1)
    with pytest.raises(CorruptError, match="column chunk 'fir__' in the place of 'first'"):
        find_chunks(parse_layout(swapped, "f"), 0, ["first"])


def test_a_row_group_that_the_footer_lacks_is_corrupt():
    layout = parse_layout(footer_of(NESTED)[0], "f")
    with pytest.raises(CorruptError, match="f: no row group 2"):
        find_chunks(layout, 2, ["id"])


def test_a_schema_without_its_children_is_corrupt():
    root = CompactWriter()
    root.binary(4, b"schema")
    root.number(5, 5, 2)
    leaf = CompactWriter()
    leaf.binary(4, b"id")
    footer = CompactWriter()
    footer.structs(2, [root.end(), leaf.end()])
    with pytest.raises(CorruptError, match="without all of its elements"):
        parse_layout(footer.end(), "f")


@given(st.binary(max_size=200))
def test_the_walk_over_any_bytes_ends_and_agrees_with_its_compiled_form(data):
    with kernels(True):
        compiled = walk_footer(data)
    with kernels(False):
        plain = walk_footer(data)
    assert (plain is None) == (compiled is None)
    assert plain is None or plain.tolist() == compiled.tolist()


FOOTER, _ = footer_of(NESTED)


@given(st.lists(st.tuples(st.integers(0, len(FOOTER) - 1), st.integers(0, 255)), min_size=1))
def test_changed_bytes_give_the_same_marks_in_both_forms(changes):
    data = bytearray(FOOTER)
    for at, byte in changes:
        data[at] = byte
    with kernels(True):
        compiled = walk_footer(bytes(data))
    with kernels(False):
        plain = walk_footer(bytes(data))
    assert (plain is None) == (compiled is None)
    assert plain is None or plain.tolist() == compiled.tolist()
