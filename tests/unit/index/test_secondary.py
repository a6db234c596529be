"""Definitions and entries of secondary indexes, before a table uses them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import CorruptError, InvalidError, SchemaError
from lakebed.expr.constraints import constraints_of
from lakebed.expr.predicate import Predicate
from lakebed.format.names.meta_columns import PARTITION_PATH, RECORD_KEY
from lakebed.index.secondary.definition import IndexDefinition
from lakebed.index.secondary.entries import (
    ENTRY_KEY,
    find_entries,
    make_entries,
    sort_entries,
    write_entries,
)
from lakebed.index.secondary.ranges import key_ranges
from lakebed.storage.objects import memory_storage

ID = "0a1b2c3d"
PLACE = pa.struct([("City", pa.string()), ("at", pa.struct([("lat", pa.float64())]))])
SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("Name", pa.string()),
        ("place", PLACE),
        ("tags", pa.list_(pa.string())),
        ("a.b", pa.int64()),
    ]
)


def define(*columns: str, name: str = "by_it", schema: pa.Schema = SCHEMA) -> IndexDefinition:
    return IndexDefinition.create(name, columns, schema, ID)


def test_columns_are_spelled_as_the_table_does():
    assert define("NAME", "place.city", "a.b", "place.at.lat").columns == (
        "Name",
        "place.City",
        "a.b",
        "place.at.lat",
    )


@pytest.mark.parametrize("name", ["", "1a", "a/b", "..", "a b", "é", "x" * 65, "a\n"])
def test_a_name_that_is_no_folder_is_refused(name):
    with pytest.raises(InvalidError, match="letters, digits"):
        define("n", name=name)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ([], InvalidError, "expected a list of columns"),
        ("n", InvalidError, "expected a list of columns"),
        (["n", "n"], InvalidError, "each once"),
        (["x"], SchemaError, "no column 'x'; the columns there are: n, Name"),
        (["place.zip"], SchemaError, "no column 'place.zip'; the columns there are: City, at"),
        (["n.x"], SchemaError, "'n' is of type int32 and has no fields"),
        (["tags"], SchemaError, "whose values have no order"),
        (["place"], SchemaError, "index a field of it"),
    ],
)
def test_columns_that_cannot_be_indexed_are_refused(columns, error, message):
    with pytest.raises(error, match=message):
        IndexDefinition.create("i", columns, SCHEMA, ID)


def test_a_definition_outlives_widened_columns_and_no_others():
    definition = define("n", "place.City")
    wider = SCHEMA.set(0, pa.field("n", pa.int64()))
    assert definition.resolve(wider) == [pa.int64(), pa.string()]
    assert definition.resolve(SCHEMA.set(0, pa.field("n", pa.float64()))) is None
    assert definition.resolve(SCHEMA.remove(0)) is None


def test_a_definition_is_read_back_as_written():
    definition = define("Name", "place.City", name="b")
    assert IndexDefinition.parse("b", definition.encode()) == definition


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "5",
        '{"columns": [], "types": [], "id": ""}',
        '{"columns": ["a"], "types": []}',
    ],
)
def test_a_damaged_definition_is_an_error_of_ours(text):
    with pytest.raises(CorruptError, match=r"index 'b': the property \S+ does not define it"):
        IndexDefinition.parse("b", text)


@given(
    st.lists(
        st.tuples(st.none() | st.integers(-3, 3), st.none() | st.sampled_from(["a", "ab", "b"])),
        max_size=60,
    ),
    st.sampled_from(
        ["n = 1", "n IS NULL", "n >= 0", "n IN (1, 2) AND place.City = 'a'", "n < 0 OR n > 2"]
    ),
)
def test_entries_of_matching_rows_are_found_in_a_run(values, where):
    rows = pa.RecordBatch.from_pylist(
        [
            {RECORD_KEY: f"k{at}", "n": n, "place": None if city is None else {"City": city}}
            for at, (n, city) in enumerate(values)
        ],
        pa.schema([pa.field(RECORD_KEY, pa.string()), *SCHEMA]),
    )
    definition = define("n", "place.City")
    parts = [rows.slice(0, 20), rows.slice(20)]
    entries = [make_entries(part, definition.columns, "p") for part in parts]
    storage = memory_storage()
    run = write_entries(storage, "i", [sort_entries(entries)])
    assert run.entries == len(values)
    predicate = Predicate.parse(where, rows.schema)
    demands = constraints_of(predicate, rows.schema, exact=True)
    made = key_ranges(definition.columns, definition.resolve(SCHEMA), demands)
    found = pa.Table.from_batches(find_entries(storage, "i", made.ranges), entries[0].schema)
    wanted = predicate.filter(rows).column(RECORD_KEY).to_pylist()
    assert set(wanted) <= set(found[RECORD_KEY].to_pylist())
    assert set(found[PARTITION_PATH].to_pylist()) <= {"p"}
    if where in ("n = 1", "n IS NULL", "n >= 0"):
        assert sorted(wanted) == sorted(found[RECORD_KEY].to_pylist())


def test_an_entry_comes_once():
    rows = pa.record_batch({RECORD_KEY: ["a", "a"], "n": pa.array([1, 1], pa.int32())})
    entries = make_entries(rows, ["n"], "")
    assert sort_entries([entries, entries]).num_rows == 1
    assert sort_entries([]).num_rows == 0
    assert ENTRY_KEY in entries.schema.names
