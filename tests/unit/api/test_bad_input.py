"""What callers get wrong: an error of ours that names it, and nothing left for a reader to see."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.api.table import Table
from lakebed.errors import (
    ExistsError,
    InvalidError,
    KeyValueError,
    LakebedError,
    NotFoundError,
    OptionError,
    SchemaError,
    UnsupportedError,
)
from lakebed.storage.open import open_storage
from support.fixtures import unpack
from support.tables import SCHEMA, batch, contents, make, reopen, user_rows, without_locks

NESTED = pa.schema([("id", pa.string()), ("l", pa.list_(pa.int32()))])

CREATE: dict[str, tuple[dict[str, Any], type[LakebedError], str]] = {
    "a key that is no column": ({"key": "nope"}, SchemaError, r"key: no column 'nope'.*id, v"),
    "an empty key": ({"key": []}, InvalidError, "key: expected at least one column"),
    "a number as key": ({"key": 5}, InvalidError, "key: expected a column name.*found 5"),
    "a number in the key": ({"key": [1]}, InvalidError, "key: expected column names, found 1"),
    "a key column twice": ({"key": ["id", "id"]}, InvalidError, "named twice in id, id"),
    "a nested key": ({"schema": NESTED, "key": "l"}, SchemaError, "key: column 'l' has the type"),
    "a nested partition": (
        {"schema": NESTED, "partition_by": "l"},
        SchemaError,
        "partition_by: column 'l' has the type list",
    ),
    "an ordering that is no column": ({"ordering": "x"}, SchemaError, "ordering: no column 'x'"),
    "a nested ordering": ({"schema": NESTED, "ordering": "l"}, SchemaError, "ordering: column 'l'"),
    "a partition that is no column": ({"partition_by": "x"}, SchemaError, "partition_by: no col"),
    "no schema": ({"schema": None}, SchemaError, "expected a pyarrow Schema.*found NoneType"),
    "an empty schema": ({"schema": pa.schema([])}, SchemaError, "at least one column"),
    "a column twice": (
        {"schema": pa.schema([("id", pa.string()), ("ID", pa.int32())])},
        SchemaError,
        "column 'ID': 'id' exists already",
    ),
    "a type that no table holds": (
        {"schema": pa.schema([("id", pa.string()), ("x", pa.duration("s"))])},
        SchemaError,
        r"column 'x': .* duration",
    ),
    "a column of Hudi's": (
        {"schema": pa.schema([("id", pa.string()), ("_hoodie_x", pa.int32())])},
        SchemaError,
        "'_hoodie_x'",
    ),
    "an unknown table type": (
        {"table_type": "COW"},
        InvalidError,
        "'COW': expected COPY_ON_WRITE or",
    ),
    "no index": ({"index": None}, UnsupportedError, "index=None: .* 'bucket'"),
    "an index of Hudi's": ({"index": "hbase"}, UnsupportedError, "index='hbase'"),
    "no buckets": ({"buckets": 0}, InvalidError, "buckets=0: expected a number from 1"),
    "buckets as text": ({"buckets": "4"}, InvalidError, "buckets='4': expected a number"),
    "too many buckets": ({"buckets": 10**12}, InvalidError, "buckets=1000000000000: expected"),
    "buckets beside an index without": (
        {"index": "simple", "buckets": 4},
        InvalidError,
        "buckets=4: index='simple' has no buckets",
    ),
    "a hash field beside an index without": (
        {"index": "simple", "properties": {"hoodie.bucket.index.hash.field": "id"}},
        OptionError,
        "hash.field has no effect without index='bucket'",
    ),
    "an engine of buckets beside an index without": (
        {"index": "global_simple", "properties": {"hoodie.index.bucket.engine": "SIMPLE"}},
        OptionError,
        "bucket.engine has no effect without index='bucket'",
    ),
    "rows that move with an index of one partition": (
        {"index": "simple", "properties": {"hoodie.simple.index.update.partition.path": "true"}},
        OptionError,
        "update.partition.path has no effect without index='global_simple'",
    ),
    "half of a delete marker": (
        {"properties": {"hoodie.payload.delete.marker": "D"}},
        OptionError,
        "delete.marker has no effect without hoodie.payload.delete.field",
    ),
    "a format of times without a key generator for it": (
        {"properties": {"hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP"}},
        OptionError,
        "timestamp.type has no effect without hoodie.table.keygenerator.type=TIMESTAMP",
    ),
    "a custom key generator without kinds": (
        {"partition_by": "v", "properties": {"hoodie.table.keygenerator.type": "CUSTOM"}},
        OptionError,
        "option partition_by=v: .* as in v:SIMPLE",
    ),
    "an unknown layout": (
        {"layout": "x"},
        InvalidError,
        "layout='x': expected default or lsm_tree",
    ),
    "version 6": (
        {"table_version": 6},
        UnsupportedError,
        "table_version=6: expected one of 8, 9, 10",
    ),
    "version 7": ({"table_version": 7}, UnsupportedError, "table_version=7"),
    "version 11": ({"table_version": 11}, UnsupportedError, "table_version=11"),
    "an unknown option": (
        {"properties": {"hoodie.tabel.name": "x"}},
        OptionError,
        "'hoodie.tabel.name'; did you mean hoodie.table.name?",
    ),
    "an option that is not text": (
        {"properties": {"hoodie.database.name": 5}},
        OptionError,
        "hoodie.database.name: expected a string, found int 5",
    ),
    "an option without a name": (
        {"properties": {5: "x"}},
        OptionError,
        "option 5: expected a name",
    ),
    "options that are no mapping": ({"properties": ["x"]}, OptionError, "expected a mapping"),
    "an unknown mode of change data capture": (
        {"properties": {"hoodie.table.cdc.supplemental.logging.mode": "op_key"}},
        OptionError,
        "logging.mode=op_key: expected OP_KEY_ONLY or DATA_BEFORE or",
    ),
    "an option against a keyword": (
        {"properties": {"hoodie.table.recordkey.fields": "v"}},
        OptionError,
        "contradicts the keyword key, which implies 'id'",
    ),
    "a hash field outside the key": (
        {"properties": {"hoodie.bucket.index.hash.field": "v"}},
        OptionError,
        "hash.field: 'v' is not one of the key columns id",
    ),
    "a key generator for another shape": (
        {"properties": {"hoodie.table.keygenerator.type": "SIMPLE"}},
        OptionError,
        "SIMPLE: expected 1 columns in partition_by, found 0",
    ),
    "two key generators": (
        {
            "properties": {
                "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"
            }
        },
        OptionError,
        "keygenerator.class=.* contradicts",
    ),
    "event time without an ordering": (
        {"properties": {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}},
        OptionError,
        "EVENT_TIME_ORDERING needs ordering=<column>",
    ),
    "a name that is a number": ({"name": 5}, InvalidError, "name: expected a string, found 5"),
    "storage options for a folder": ({"storage_options": {"x": "y"}}, OptionError, "accepts none"),
}


@pytest.mark.parametrize("case", CREATE)
def test_a_table_that_cannot_be_is_refused_and_nothing_is_made(case: str, tmp_path: Path):
    changes, kind, message = CREATE[case]
    arguments = {"schema": SCHEMA, "key": "id", **changes}
    with pytest.raises(kind, match=message):
        lakebed.create_table(None, str(tmp_path / "t"), **arguments)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("path", [None, 5, "", "memory://", "http://host/x", "memory://a/../b"])
def test_an_address_that_is_none_is_refused(path: Any):
    with pytest.raises(InvalidError, match="path"):
        lakebed.open_table(None, path)
    with pytest.raises(InvalidError, match="path"):
        lakebed.create_table(None, path, SCHEMA, key="id")


def test_a_path_that_is_no_table_is_not_found(tmp_path: Path):
    with pytest.raises(NotFoundError, match=r"no table here \(\.hoodie/hoodie\.properties"):
        lakebed.open_table(None, str(tmp_path))


def test_a_folder_of_a_table_is_not_opened_as_one(tmp_path: Path):
    schema = pa.schema([("id", pa.string()), ("v", pa.string())])
    table = lakebed.create_table(None, str(tmp_path), schema, key="id", partition_by="v")
    table.insert(pa.table({"id": ["1"], "v": ["x"]}))
    with pytest.raises(
        NotFoundError, match=f"a folder of the table at file://{tmp_path}; open that"
    ):
        lakebed.open_table(None, str(tmp_path / "x"))


def test_a_table_that_exists_is_not_made_again(tmp_path: Path):
    lakebed.create_table(None, str(tmp_path), SCHEMA, key="id")
    before = contents(open_storage(str(tmp_path)))
    with pytest.raises(ExistsError, match="open it with open_table"):
        lakebed.create_table(None, str(tmp_path), SCHEMA, key="v")
    assert contents(open_storage(str(tmp_path))) == before


def test_a_folder_with_files_is_no_place_for_a_table(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(InvalidError, match=r"expected an empty folder.*mine\.txt"):
        lakebed.create_table(None, str(tmp_path), SCHEMA, key="id")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.parquet.max.file.size", "big"),
        ("hoodie.client.heartbeat.interval_in_ms", "soon"),
        ("hoodie.write.num.retries.on.conflict.failures", "-1"),
        ("hoodie.clean.commits.retained", "few"),
        ("hoodie.clustering.plan.strategy.max.num.groups", "0"),
        ("hoodie.compact.inline.max.delta.commits", "often"),
    ],
)
def test_a_setting_with_which_nothing_would_begin_is_refused_before_a_table_has_it(
    name: str, value: str, tmp_path: Path
):
    path = str(tmp_path / "t")
    with pytest.raises(OptionError, match=name):
        lakebed.create_table(None, path, schema=SCHEMA, key="id", properties={name: value})
    assert not (tmp_path / "t" / ".hoodie").exists()
    table = lakebed.create_table(None, path, schema=SCHEMA, key="id")
    with pytest.raises(OptionError, match=name):
        table.set_properties({name: value})
    assert name not in lakebed.open_table(None, path).config.properties


def test_a_session_that_is_none_is_refused(tmp_path: Path):
    with pytest.raises(InvalidError, match="expected a SparkSession or None, found int"):
        lakebed.open_table(7, str(tmp_path))
    with pytest.raises(InvalidError, match="first of two arguments is a Spark session or None"):
        lakebed.open_table("spark", str(tmp_path))


def rows(**columns: Any) -> pa.Table:
    return pa.table({"id": ["b"], "v": [1], "ts": [1], "dt": ["p"], **columns})


def broken_source() -> pa.RecordBatchReader:
    bad = batch(("x", 1, 1, "p"), ("y", 1, 1, "a/b"))
    good = batch(("q", 1, 1, "new"))
    return pa.RecordBatchReader.from_batches(SCHEMA, [*good.to_batches(), *bad.to_batches()])


WRITES: dict[str, tuple[Callable[[], Any], type[LakebedError], str]] = {
    "no rows": (
        lambda: None,
        InvalidError,
        "expected rows as a DataFrame or an Arrow stream.*NoneT",
    ),
    "a list": (lambda: [{"id": "b"}], InvalidError, "found list"),
    "no key column": (
        lambda: rows().drop(["id"]),
        SchemaError,
        "record key column 'id' is missing; the input has v, ts, dt",
    ),
    "no partition column": (
        lambda: rows().drop(["dt"]),
        SchemaError,
        "partition column 'dt' is missing",
    ),
    "no ordering column": (
        lambda: rows().drop(["ts"]),
        SchemaError,
        "ordering column 'ts' is missing",
    ),
    "a null key": (
        lambda: rows(id=pa.array([None], pa.string())),
        KeyValueError,
        "record key field 'id', row 0: .*found None",
    ),
    "an empty key": (lambda: rows(id=[""]), KeyValueError, "record key field 'id'.*found ''"),
    "a null ordering value": (
        lambda: rows(ts=pa.array([None], pa.int64())),
        KeyValueError,
        "ordering column 'ts' is null for key 'b'",
    ),
    "a column twice": (
        lambda: pa.table([pa.array([1])] * 2 + rows().columns, names=["x", "x", *SCHEMA.names]),
        SchemaError,
        "column 'x' occurs twice",
    ),
    "text for a number": (lambda: rows(v=["x"]), SchemaError, "'v': expected int64.*found string"),
    "a fraction for a number": (
        lambda: rows(v=[1.5]),
        SchemaError,
        "'v': expected int64.*found double",
    ),
    "a number as key": (lambda: rows(id=[1]), SchemaError, "'id': expected string.*found int64"),
    "a new column of a bad type": (
        lambda: rows(x=pa.array([1], pa.duration("s"))),
        SchemaError,
        "column 'x': .*duration",
    ),
    "a new column without a name": (lambda: rows(**{"": [1]}), SchemaError, "needs a name"),
    "a column of Hudi's": (
        lambda: rows(_hoodie_commit_time=["x"]),
        SchemaError,
        "_hoodie_commit_time",
    ),
    "a partition with a slash": (lambda: rows(dt=["a/b"]), KeyValueError, "'dt', value 'a/b'"),
    "a partition above": (lambda: rows(dt=[".."]), KeyValueError, r"'dt', value '\.\.'"),
    "a partition with NUL": (lambda: rows(dt=["a\0b"]), KeyValueError, "no control characters"),
    "a partition of 10,000 characters": (
        lambda: rows(dt=["x" * 10_000]),
        KeyValueError,
        "at most 255 bytes, found 10000",
    ),
    "Hudi's folder": (lambda: rows(dt=[".hoodie"]), KeyValueError, "start with '.hoodie'"),
    "a bad row after good batches": (broken_source, KeyValueError, "value 'a/b'"),
}


def snapshot_of(table: Table) -> tuple[set[str], Any]:
    return without_locks(contents(table._storage)), user_rows(table)


@pytest.mark.parametrize("case", WRITES)
@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_rows_that_cannot_be_are_refused_and_leave_nothing(case: str, operation: str):
    source, kind, message = WRITES[case]
    table = make(ordering=("ts",))
    table.insert(batch(("a", 1, 1, "p")))
    before = snapshot_of(table)
    with pytest.raises(kind, match=message):
        getattr(table, operation)(source())
    assert snapshot_of(table) == before
    table.insert(batch(("ok", 1, 1, "p")))
    assert len(user_rows(table)) == 2


def test_an_error_of_the_source_comes_through_and_leaves_nothing():
    def batches():
        yield batch(("q", 1, 1, "new")).to_batches()[0]
        raise RuntimeError("the source broke")

    table = make()
    before = snapshot_of(table)
    with pytest.raises(RuntimeError, match="the source broke"):
        table.insert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert snapshot_of(table) == before


INDEXES: list[tuple[dict[str, Any], type[LakebedError], str]] = [
    ({"index": "hbase"}, UnsupportedError, "index='hbase'"),
    ({"index": "bloom"}, InvalidError, "is written with .* found BloomIndex"),
    ({"index": 5, "buckets": 2}, UnsupportedError, "index=5"),
    ({"index": "bucket"}, InvalidError, "needs buckets"),
    ({"buckets": 3}, InvalidError, r"is written with .*buckets=2.*found .*buckets=3"),
    ({"buckets": "2"}, InvalidError, "buckets='2'"),
    ({"index": "bucket", "buckets": 0}, InvalidError, "buckets=0"),
]


@pytest.mark.parametrize(("index", "kind", "message"), INDEXES)
def test_an_index_that_is_not_the_tables_is_refused(index, kind, message):
    table = make()
    before = snapshot_of(table)
    with pytest.raises(kind, match=message):
        table.insert(batch(("a", 1, 1, "p")), **index)
    assert snapshot_of(table) == before
    assert table.insert(batch(("a", 1, 1, "p")), index="bucket", buckets=2).rows == 1


HUDI_INDEXES = [
    ("mor9_bucket8", {}, InvalidError, "does not say which index"),
    ("mor9_bucket8", {"buckets": 4}, InvalidError, "is bucket [4-7], but .* 4 buckets"),
    ("mor9_bucket8", {"buckets": 16}, InvalidError, "16 buckets over id put it in another"),
    ("mor9_bucket8_hash", {"buckets": 8}, InvalidError, "8 buckets over id,name put it in another"),
    ("cow9_nomdt", {"buckets": 4}, InvalidError, "is no bucket's"),
    ("mor9_mdt_idx", {"buckets": 4}, UnsupportedError, "metadata table holds an index"),
    ("cow9_cdc", {"buckets": 4}, InvalidError, "is no bucket's"),
    ("mini_nometa", {"buckets": 4}, UnsupportedError, "no meta columns"),
]


@pytest.mark.parametrize(("name", "index", "kind", "message"), HUDI_INDEXES)
def test_a_table_of_hudi_is_not_written_with_an_index_that_does_not_fit(
    name, index, kind, message, tmp_path
):
    table = lakebed.open_table(None, str(unpack(name, tmp_path)))
    before = contents(table._storage)
    columns = {field.name: pa.nulls(1, field.type) for field in table.schema}
    key = table.config.record_key_fields[0]
    given = pa.table({**columns, "id": pa.array(["new"]), "ts": pa.array([1], columns["ts"].type)})
    assert key in given.column_names
    with pytest.raises(kind, match=message):
        table.insert(given, **index)
    after = contents(table._storage)
    assert {p: after[p] for p in without_locks(after)} == before


def test_a_merge_on_read_table_takes_rows_of_old_and_new_file_groups():
    table = make(table_type="MERGE_ON_READ")
    table.insert(batch(("a", 1, 1, "p")))
    assert table.insert(batch(("a", 2, 2, "p"), ("n", 1, 1, "new"))).action == "deltacommit"
    assert {key: row["v"] for key, row in user_rows(table).items()} == {
        ("p", "a"): 2,
        ("new", "n"): 1,
    }
    assert sorted(table.files().column("level").to_pylist()) == ["L0", "L1", "L1"]


READS: list[tuple[dict[str, Any], type[LakebedError], str]] = [
    ({"columns": ["nope"]}, SchemaError, "no column 'nope'; the table has id, v, ts, dt"),
    ({"columns": "id"}, InvalidError, "expected a list of names, found 'id'"),
    ({"columns": 5}, InvalidError, "expected a list of names, found 5"),
    ({"columns": ["id", "id"]}, InvalidError, "a name occurs twice in id, id"),
    ({"columns": ["_hoodie_nope"]}, SchemaError, "no column '_hoodie_nope'"),
    ({"as_of": "nonsense"}, InvalidError, "point in time 'nonsense': expected an instant"),
    ({"as_of": "2024-13-01"}, InvalidError, "no such time"),
    ({"as_of": ""}, InvalidError, "point in time ''"),
    ({"as_of": 5}, InvalidError, "version 5 of table"),
    ({"where": "nope = 1"}, SchemaError, "no column nope; the table has"),
    ({"where": "id ="}, InvalidError, "predicate 'id ='"),
    ({"where": ""}, InvalidError, "found ''"),
    ({"where": 5}, InvalidError, "where: expected a predicate as a string, found 5"),
    ({"where": "v = true"}, UnsupportedError, "comparing BIGINT with BOOLEAN"),
    ({"where": "soundex(id) = 'A'"}, UnsupportedError, "the function soundex is not supported"),
    ({"mode": "x"}, UnsupportedError, "mode='x'"),
    ({"since": "2024-01-01", "as_of": "2024-01-02"}, InvalidError, "since"),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), READS)
def test_a_read_that_makes_no_sense_is_refused_by_the_call(arguments, kind, message):
    table = make()
    table.insert(batch(("a", 1, 1, "p")))
    with pytest.raises(kind, match=message):
        table.read(**arguments)


@pytest.mark.parametrize("moment", ["2000-01-01", dt.date(2000, 1, 1), "20000101000000000"])
def test_before_the_first_commit_there_is_nothing_to_read(moment):
    table = make()
    assert table.read(as_of=moment).schema == SCHEMA
    assert str(table.layers(as_of=moment)) == "(no files)"
    table.insert(batch(("a", 1, 1, "p")))
    for look in (table.read, table.files, table.layers):
        with pytest.raises(InvalidError, match="there is nothing to read before it"):
            look(as_of=moment)


def test_a_data_frame_without_a_session_says_what_to_do():
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})()
    with pytest.raises(InvalidError, match=r"open the table with open_table\(spark"):
        make().insert(frame)


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"hoodie.table.metadata.partitions": "record_index"}, r"an index \(record_index\)"),
        (
            {
                "hoodie.table.cdc.enabled": "true",
                "hoodie.table.cdc.supplemental.logging.mode": "op_key",
            },
            "logging.mode='op_key'",
        ),
        (
            {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"},
            "non-blocking writers",
        ),
    ],
)
def test_a_table_that_others_changed_since_it_was_opened_is_not_written(properties, reason):
    table = make()
    path = ".hoodie/hoodie.properties"
    lines = "".join(f"{name}={value}\n" for name, value in properties.items())
    changed = table._storage.read(path) + lines.encode()
    table._storage.put(path, changed)
    before = snapshot_of(table)
    for opened in (table, reopen(table._storage)):
        with pytest.raises(UnsupportedError, match=reason):
            opened.insert(batch(("a", 1, 1, "p")))
    assert snapshot_of(table) == before
