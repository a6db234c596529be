"""What an index would cost, told before it is built."""

import pyarrow as pa
import pytest

from lakebed.errors import SchemaError
from support.tables import make
from unit.index.test_index_choice import SCHEMA, rows

COLUMNS = ["city", "price", "age", "place.zip"]


@pytest.fixture(scope="module")
def table():
    table = make(schema=SCHEMA, table_type="MERGE_ON_READ", buckets=3, partition_by=("dt",))
    table.insert(rows(range(20_000)))
    table.upsert(rows(range(0, 20_000, 9)))
    return table


@pytest.mark.parametrize("column", COLUMNS)
def test_the_estimate_is_near_what_is_built(table, column):
    guess = table.estimate_index([column])
    assert table.indexes() == ()
    built = table.create_index("it", [column])
    table.drop_index("it")
    assert guess.entries == pytest.approx(built.entries, rel=0.3)
    assert built.size_bytes / 2 < guess.size_bytes < 4 * built.size_bytes


def test_it_tells_how_many_rows_a_value_has(table):
    assert table.estimate_index(["price"]).rows_per_value == 1
    assert table.estimate_index(["price"]).is_selective
    assert table.estimate_index(["city"]).rows_per_value == pytest.approx(20, rel=0.3)
    flat = table.estimate_index(["age"])
    assert flat.rows_per_value == pytest.approx(200, rel=0.2)
    assert "a value has about" in str(flat)
    assert table.estimate_index(["age", "city"]).rows_per_value < 40


def test_a_table_without_rows_or_without_base_files_is_estimated_too():
    table = make(schema=SCHEMA, table_type="MERGE_ON_READ", buckets=1, partition_by=("dt",))
    assert table.estimate_index(["city"]).entries == 0
    table.upsert(rows(range(10)))
    assert table.estimate_index(["city"]).entries == 10


def test_an_index_that_cannot_be_created_is_an_error(table):
    with pytest.raises(SchemaError, match="no column 'x'"):
        table.estimate_index(["x"])
    with pytest.raises(SchemaError, match="no order"):
        table.estimate_index(["place"])
    assert pa.types.is_struct(SCHEMA.field("place").type)
