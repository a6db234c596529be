"""Tables of the hudi-rs test suite (versions 6, 8, 9), read in process: Apache Hudi's rows."""

import base64
import datetime as dt
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakebed import open_table
from lakebed.format.names.meta_columns import META_COLUMNS
from support.hudi_rs import FOLDER, NAMES, unpack
from support.rows import Row

# Hard-coded on purpose, as in test_read_hudi_tables.
READABLE = {
    "quickstart_trips_table__mor__avro__v6_trips_8i1u",
    "quickstart_trips_table__mor__avro__v6_trips_8i3d",
    "sample_table__cow__v6_complexkeygen_hivestyle",
    "sample_table__cow__v6_empty",
    "sample_table__cow__v6_simplekeygen_hivestyle_no_metafields",
    "sample_table__cow__v6_simplekeygen_nonhivestyle",
    "sample_table__cow__v6_timebasedkeygen_nonhivestyle",
    "sample_table__cow__v8_complexkeygen_hivestyle",
    "sample_table__cow__v8_nonpartitioned",
    "sample_table__cow__v8_simplekeygen_hivestyle_no_metafields",
    "sample_table__cow__v9_timebasedkeygen_epochmillis",
    "sample_table__cow__v9_timebasedkeygen_nonhivestyle",
    "sample_table__cow__v9_txns_complex_meta",
    "sample_table__cow__v9_txns_complex_nometa",
    "sample_table__cow__v9_txns_nonpart_nometa",
    "sample_table__cow__v9_txns_simple_meta",
    "sample_table__cow__v9_txns_simple_overwrite",
    "sample_table__mor__avro__v9_nonpartitioned_rollback",
    "sample_table__mor__avro__v9_txns_complex_meta",
    "sample_table__mor__avro__v9_txns_complex_nometa",
    "sample_table__mor__avro__v9_txns_nonpart_nometa",
    "sample_table__mor__avro__v9_txns_simple_meta",
    "sample_table__mor__avro__v9_txns_simple_overwrite",
    "sample_table__mor__parquet__v6_complexkeygen_hivestyle",
    "sample_table__mor__parquet__v6_nonpartitioned",
    "sample_table__mor__parquet__v6_nonpartitioned_rollback",
    "sample_table__mor__parquet__v6_simplekeygen_nonhivestyle",
    "sample_table__mor__parquet__v6_simplekeygen_nonhivestyle_overwritetable",
}

pytestmark = pytest.mark.skipif(
    not NAMES, reason=f"no hudi-rs tables at {FOLDER}; set LAKEBED_HUDI_RS_FIXTURES"
)


def spell(value: Any, kind: pa.DataType) -> Any:
    """Spell a value as Spark's JSON of a row does; nulls in structs are left out."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return spell_struct(value, list(kind))
    if pa.types.is_list(kind):
        return [spell(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return {key: spell(item, kind.item_type) for key, item in value}
    if isinstance(value, dt.datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    # Spark writes a decimal as a JSON number, which the expected file holds as a float.
    return float(value) if isinstance(value, decimal.Decimal) else value


def spell_struct(row: Row, fields: list[pa.Field]) -> Row:
    return {
        field.name: spell(row[field.name], field.type)
        for field in fields
        if row[field.name] is not None
    }


def in_order(rows: list[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def test_the_list_of_readable_tables_is_complete():
    assert set(NAMES) == READABLE


@pytest.mark.parametrize("name", NAMES)
def test_a_table_gives_the_rows_that_hudi_gives(name: str, tmp_path: Path):
    path, wanted, columns = unpack(name, tmp_path)
    table = open_table(None, str(path))
    assert sorted(table.schema.names) == sorted(set(columns) - set(META_COLUMNS))
    found = table.read(columns=columns).read_all()
    rows = [spell_struct(row, list(found.schema)) for row in found.to_pylist()]
    assert wanted or name.endswith("_empty")
    assert in_order(rows) == in_order(wanted)
