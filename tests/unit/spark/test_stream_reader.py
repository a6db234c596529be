"""The reader of a stream without a session: its offsets, and the rows between two of them."""

import json
import logging
import pathlib
import pickle
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

import lakebed
from lakebed.api.table import Table
from lakebed.errors import InvalidError, LakebedError, OptionError, SchemaError
from lakebed.spark.data_source.stream_reader import StreamReader
from pyspark_lakebed.source import DefaultSource

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("ts", pa.int64())])
COLUMNS = from_arrow_schema(pa.schema([SCHEMA.field("id")]))
SOME = ReadMaxRows(1)  # what the options say counts, unless all are wanted


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def table(path: str) -> Table:
    return lakebed.create_table(None, path, SCHEMA, key="id", ordering="ts", buckets=2)


def put(table: Table, *ids: int) -> str:
    rows = {"id": list(ids), "v": ["x"] * len(ids), "ts": [1] * len(ids)}
    return str(table.upsert(pa.table(rows, schema=SCHEMA)).completion_time)


def reader_of(path: str, schema: StructType = COLUMNS, **options: str) -> Any:
    return DefaultSource({"path": path, **options}).streamReader(schema)


def said(offset: dict[str, Any]) -> dict[str, Any]:
    """Return an offset as Spark gives it back."""
    found = json.loads(json.dumps(offset))
    assert isinstance(found, dict)
    return found


def rows_between(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    parts = [pickle.loads(pickle.dumps(p)) for p in reader.partitions(said(start), said(end))]
    task = pickle.loads(pickle.dumps(reader))
    batches = [batch for part in parts for batch in task.read(part)]
    return sorted(key for batch in batches for key in batch.column("id").to_pylist())


def batches(reader: StreamReader, start: dict[str, Any] | None = None) -> list[list[int]]:
    """Read micro-batches until there is nothing left."""
    found, at = [], start or reader.initialOffset()
    while (end := reader.latestOffset(said(at), SOME)) != said(at):
        found.append(rows_between(reader, at, end))
        at = end
    return found


def test_limits_keep_commits_whole_and_apply_together(path, table):
    for first in range(0, 40, 10):
        put(table, *range(first, first + 10))

    def sizes(**limits: str) -> list[int]:
        return [len(batch) for batch in batches(reader_of(path, **limits))]

    assert sizes() == [40]
    assert sizes(maxRowsPerTrigger="20") == [20, 20]
    assert sizes(maxRowsPerTrigger="3") == [10, 10, 10, 10]
    assert sizes(maxBytesPerTrigger="1") == [10, 10, 10, 10]
    assert sizes(maxBytesPerTrigger="1GB", maxCommitsPerTrigger="3") == [30, 10]
    limited = reader_of(path, maxRowsPerTrigger="3")
    start = limited.initialOffset()
    everything = limited.latestOffset(start, ReadAllAvailable())
    assert len(rows_between(limited, start, everything)) == 40
    assert isinstance(limited.getDefaultReadLimit(), ReadMaxRows)
    assert isinstance(reader_of(path).getDefaultReadLimit(), ReadAllAvailable)


def test_a_stream_starts_where_it_is_told(path, table):
    put(table, 0)
    second = put(table, 1)
    put(table, 2)
    assert batches(reader_of(path)) == [[0, 1, 2]]
    assert batches(reader_of(path, startOffset="earliest")) == [[0, 1, 2]]
    assert batches(reader_of(path, startOffset=second)) == [[2]]
    latest = reader_of(path, **{"hoodie.datasource.streaming.startOffset": "latest"})
    start = latest.initialOffset()
    assert batches(latest, start) == []
    put(table, 3)
    assert batches(latest, start) == [[3]]


def test_the_first_batch_of_a_stream_from_the_latest_commit_is_read_again_as_it_was(path, table):
    put(table, 0)
    reader = reader_of(path, startOffset="latest")
    start = reader.initialOffset()
    put(table, 1)
    end = reader.latestOffset(said(start), SOME)
    put(table, 2)
    # After a failure Spark asks for the start again, and knows the end only.
    again = reader_of(path, startOffset="latest")
    assert rows_between(again, again.initialOffset(), end) == [1]
    assert batches(again, end) == [[2]]


def test_available_now_ends_with_the_commits_of_its_start(path, table):
    put(table, 0)
    reader = reader_of(path, maxCommitsPerTrigger="1")
    put(table, 1)
    reader.prepareForTriggerAvailableNow()
    put(table, 2)
    assert batches(reader) == [[0], [1]]


def test_a_stream_goes_on_with_its_columns_when_the_table_gets_more(path, table, caplog):
    put(table, 0)
    reader = reader_of(path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, SOME)
    wider = {"id": [1], "v": ["x"], "ts": [1], "extra": [1.5]}
    table.upsert(pa.table(wider), evolve=True)
    with caplog.at_level(logging.WARNING):
        assert batches(reader, end) == [[1]]
    assert "new columns (extra), which the stream passes on only after" in caplog.text
    columns = from_arrow_schema(pa.schema([SCHEMA.field("id"), ("extra", pa.float64())]))
    newer = reader_of(path, columns)
    table.drop_column("extra")
    put(table, 2)
    with pytest.raises(SchemaError, match=r"columns have changed .* no column 'extra'"):
        rows_between(newer, start, newer.latestOffset(start, SOME))


@pytest.mark.parametrize(
    ("column", "options", "error", "words"),
    [
        (("nope", pa.int32()), {}, SchemaError, "no column 'nope'"),
        (("id", pa.int32()), {}, SchemaError, "int64, and the schema asks for int32"),
        (("id", pa.int64()), {"lakebed.read.where": "nope = 1"}, LakebedError, "nope"),
        (("id", pa.int64()), {"as.of.instant": "2024-01-02"}, OptionError, "for a stream"),
        (("id", pa.int64()), {"maxRowsPerTrigger": "-1"}, OptionError, "whole number"),
        (
            ("id", pa.int64()),
            {"startOffset": "yesterday"},
            InvalidError,
            "point in time 'yesterday'",
        ),
    ],
)
def test_a_stream_that_cannot_start_says_so_with_its_first_offset(
    path, table, column, options, error, words
):
    """Spark 4.2 hides an error that is raised when the reader is made."""
    reader = reader_of(path, from_arrow_schema(pa.schema([column])), **options)
    with pytest.raises(error, match=words):
        reader.initialOffset()


def test_an_offset_of_another_source_is_refused(path, table):
    put(table, 0)
    with pytest.raises(InvalidError, match="the checkpoint belongs to another source"):
        reader_of(path).latestOffset({"index": 3}, SOME)


OLD_SPARK = """
import sys
import pyspark.sql.datasource
sys.modules["pyspark.sql.streaming.datasource"] = None  # PySpark 4.1 does not have it
from pyspark.sql.types import LongType, StructField, StructType
from pyspark_lakebed.source import DefaultSource
path, columns = sys.argv[1], StructType([StructField("id", LongType())])
reader = DefaultSource({"path": path}).streamReader(columns)
start, end = reader.initialOffset(), reader.latestOffset()
again = DefaultSource({"path": path}).streamReader(columns)
assert again.latestOffset()["completion"] == end["completion"]
parts = reader.partitions(start, end)
print(sorted(k for p in parts for b in reader.read(p) for k in b.column("id").to_pylist()))
try:
    DefaultSource({"path": path, "maxRowsPerTrigger": "5"}).streamReader(columns).initialOffset()
except Exception as error:
    print(error)
"""


def test_a_spark_without_limits_streams_all_and_refuses_limits(path, table):
    put(table, 1, 2)
    put(table, 3)
    done = subprocess.run(
        [sys.executable, "-c", OLD_SPARK, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows, error = done.stdout.splitlines()
    assert rows == "[1, 2, 3]"
    assert "maxBytesPerTrigger need PySpark 4.2 or newer" in error
