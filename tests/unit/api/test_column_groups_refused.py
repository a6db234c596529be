"""Definitions of column groups and writes to them that are refused, and write nothing."""

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
    NotFoundError,
    OptionError,
    SchemaError,
    UnsupportedError,
)
from support.tables import contents

DDL = (
    "id BIGINT, id2 BIGINT, dt STRING, ts BIGINT, name STRING, score DOUBLE, band STRING, "
    "scored_at BIGINT, a BIGINT, b BIGINT, raw BINARY"
)
PAYLOAD = "hoodie.compaction.payload.class"
ORDERED = {"key": "id", "ordering": "ts", "buckets": 2}


def not_null(*names: str) -> pa.Schema:
    return pa.schema(
        [
            pa.field(name, pa.int64(), nullable=name not in names)
            for name in ("id", "ts", "a", "b", "at")
        ]
    )


def hudi_class(name: str) -> dict[str, Any]:
    return {"properties": {PAYLOAD: f"org.apache.hudi.common.model.{name}"}}


GROUP = {"column_groups": {"x": "a"}}
"""A group that is fine; each case combines it with something else, or replaces it."""

COLUMNS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a column in two groups": (
        {"column_groups": {"x": "a,b", "y": ["b", "score"]}},
        InvalidError,
        "column 'b' is in the column groups 'x' and 'y'",
    ),
    "the ordering column of another group": (
        {"column_groups": {"x": "a;scored_at", "y": "score,scored_at"}},
        InvalidError,
        "column 'scored_at' is in the column groups 'x' and 'y'",
    ),
    "one ordering column for two groups": (
        {"column_groups": {"x": "a;scored_at", "y": "score;scored_at"}},
        InvalidError,
        "column 'scored_at' is in the column groups 'x' and 'y'",
    ),
    "a part of the key": (
        {"key": ["id", "id2"], "column_groups": {"x": "id,a"}},
        InvalidError,
        "group 'x': it lists the key column 'id' and not 'id2'; list all key columns or none",
    ),
    "an unknown column": (
        {"column_groups": {"x": "a,nope"}},
        SchemaError,
        "group 'x': no column 'nope'; the columns there are: id, id2, dt",
    ),
    "an unknown ordering column": (
        {"column_groups": {"x": "a;nope"}},
        SchemaError,
        "group 'x': no column 'nope'",
    ),
    "a column in other letters": (
        {"column_groups": {"x": "A"}},
        SchemaError,
        "group 'x': no column 'A'",
    ),
    "a meta column": (
        {"column_groups": {"x": "_hoodie_commit_time"}},
        SchemaError,
        "no column '_hoodie_commit_time'",
    ),
    "only columns that all groups hold": (
        {"partition_by": "dt", "column_groups": {"x": "id,dt,ts"}},
        InvalidError,
        "group 'x': expected at least one column other than dt, id, ts",
    ),
    "ordered by a key column": (
        {"column_groups": {"x": "a;id"}},
        InvalidError,
        "group 'x': 'id' is a key or partition column and has the same value",
    ),
    "ordered by a partition column": (
        {"partition_by": "dt", "column_groups": {"x": "a;dt"}},
        InvalidError,
        "group 'x': 'dt' is a key or partition column",
    ),
    "ordered by bytes": (
        {"column_groups": {"x": "a;raw"}},
        SchemaError,
        "group 'x': the ordering column 'raw' is binary",
    ),
    "a not-null column of a group": (
        {"schema": not_null("id", "a")},
        SchemaError,
        "group 'x': column 'a' may not be null.*only key, partition and ordering columns",
    ),
    "a not-null column of the default group": (
        {"schema": not_null("id", "b")},
        SchemaError,
        "column 'b' may not be null.*only key, partition and ordering columns",
    ),
}
DEFINITIONS: dict[str, tuple[Any, type[Exception], str]] = {
    "groups that are a list": (["a"], InvalidError, "column_groups: expected a mapping"),
    "groups that are text": ("x", InvalidError, "column_groups: expected a mapping"),
    "a number": ({"x": 5}, InvalidError, "group 'x': expected 'a,b;ordering' or a list"),
    "nothing": ({"x": None}, InvalidError, "group 'x': expected 'a,b;ordering' or a list"),
    "a list of numbers": ({"x": [1]}, InvalidError, "group 'x': expected 'a,b;ordering'"),
    "an empty text": ({"x": ""}, InvalidError, "group 'x': expected its columns as 'a,b'"),
    "an empty list": ({"x": []}, InvalidError, "group 'x': expected its columns as 'a,b'"),
    "an empty name among columns": ({"x": "a,"}, InvalidError, "expected its columns as 'a,b'"),
    "an ordering without columns": ({"x": ";b"}, InvalidError, "expected its columns as 'a,b'"),
    "a column twice": ({"x": "a,b,a"}, InvalidError, "group 'x': a column is listed twice: a, b"),
    "an unknown entry": (
        {"x": {"columns": ["a"], "order": "b"}},
        InvalidError,
        "group 'x': expected the entries columns and ordering, found columns, order",
    ),
    "an ordering without its columns": (
        {"x": {"ordering": "b"}},
        InvalidError,
        "group 'x': expected the entries columns and ordering, found ordering",
    ),
    "two ordering columns": (
        {"x": {"columns": "a;b", "ordering": "scored_at"}},
        InvalidError,
        "group 'x': the ordering column is given twice, as 'b' and as 'scored_at'",
    ),
    "names that differ in case": (
        {"x": "a", "X": "b"},
        InvalidError,
        "column groups 'X' and 'x': the names differ only by case",
    ),
}
NAMES = ["", "1a", "-a", "a_b", "a.b", "a b", "a/b", "é", "a" * 65, 5]
KINDS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "version 8": (
        {"table_version": 8},
        UnsupportedError,
        r"table_version=8: column groups need table version 10, .* call upgrade\(\)",
    ),
    "version 9": (
        {"table_version": 9},
        UnsupportedError,
        r"table_version=9: column groups need table version 10, .* call upgrade\(\)",
    ),
    "copy on write": (
        {"table_type": "COPY_ON_WRITE"},
        UnsupportedError,
        "cannot be combined with table_type='COPY_ON_WRITE'",
    ),
    "the default layout": (
        {"layout": "default"},
        UnsupportedError,
        "cannot be combined with layout='default'",
    ),
    "a custom merger": (
        {"ordering": None, "merger": lambda older, newer: newer},
        UnsupportedError,
        "cannot be combined with a custom merger",
    ),
    "change data": (
        {"properties": {"hoodie.table.cdc.enabled": "true"}},
        UnsupportedError,
        r"cannot be combined with change data \(hoodie\.table\.cdc\.enabled=true\)",
    ),
    "nulls that yield": (
        {"properties": {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}},
        UnsupportedError,
        "cannot be combined with a partial update mode",
    ),
    "a marker that yields": (
        {
            "properties": {
                "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
                "hoodie.write.partial.update.unavailable.value": "?",
            }
        },
        UnsupportedError,
        "cannot be combined with a partial update mode",
    ),
    "a payload whose nulls yield": (
        hudi_class("PartialUpdateAvroPayload"),
        UnsupportedError,
        "or a payload class that merges columns",
    ),
    "a payload whose nulls yield, by arrival": (
        {"ordering": None, **hudi_class("OverwriteNonDefaultsWithLatestAvroPayload")},
        UnsupportedError,
        "or a payload class that merges columns",
    ),
    "by arrival beside an ordering column": (
        {"properties": {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}},
        UnsupportedError,
        "hoodie.record.merge.mode=COMMIT_TIME_ORDERING with ordering columns",
    ),
    "a payload that ignores the ordering column": (
        hudi_class("OverwriteWithLatestAvroPayload"),
        UnsupportedError,
        "or a payload class that ignores them",
    ),
}
for index in ("simple", "global_simple", "bloom", "global_bloom", "record", "global_record"):
    KINDS[f"index {index}"] = (
        {"index": index, "buckets": None},
        UnsupportedError,
        "an index other than index='bucket'; they need a MERGE_ON_READ table",
    )
KINDS["index consistent_hashing"] = (
    {"index": "consistent_hashing", "buckets": 4},
    UnsupportedError,
    "an index other than index='bucket'",
)
OPTIONS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "an argument and an option": (
        {"properties": {"hoodie.columngroup.x": "b"}},
        OptionError,
        "option hoodie.columngroup.x=b contradicts another definition of the column group 'x'",
    ),
    "an argument and an option with another ordering": (
        {"properties": {"hoodie.colgroup.x": "a;scored_at"}},
        OptionError,
        "option hoodie.colgroup.x=a;scored_at contradicts another definition",
    ),
    "two spellings of an option": (
        {
            "column_groups": None,
            "properties": {"hoodie.columngroup.x": "b", "hoodie.colgroup.x": "a"},
        },
        OptionError,
        "option hoodie.colgroup.x=a contradicts another definition",
    ),
    "an option that overlaps": (
        {"properties": {"hoodie.columngroup.y": "a,b"}},
        InvalidError,
        "column 'a' is in the column groups 'x' and 'y'",
    ),
    "an option with a bad name": (
        {"properties": {"hoodie.columngroup.y_1": "b"}},
        InvalidError,
        "column group 'y_1': expected a name of",
    ),
    "an option for a table of version 9": (
        {
            "column_groups": None,
            "table_version": 9,
            "properties": {"hoodie.colgroup.x": "a"},
        },
        UnsupportedError,
        "table_version=9: column groups need table version 10",
    ),
    "the instants of groups": (
        {"properties": {"lakebed.columngroup.instants": '{"x": ["1", null]}'}},
        OptionError,
        "lakebed.columngroup.instants",
    ),
}
DEFINED = {name: ({"column_groups": given}, *rest) for name, (given, *rest) in DEFINITIONS.items()}
CREATE = {**COLUMNS, **DEFINED, **KINDS, **OPTIONS}


@pytest.mark.parametrize("case", CREATE)
def test_a_definition_that_breaks_a_rule_is_refused_and_no_table_is_made(case: str, tmp_path: Path):
    changes, kind, message = CREATE[case]
    arguments = {"schema": DDL, **ORDERED, **GROUP, **changes}
    with pytest.raises(kind, match=message):
        lakebed.create_table(None, str(tmp_path / "t"), **arguments)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_does_not_fit_a_file_name_is_refused(name: Any, tmp_path: Path):
    with pytest.raises(
        InvalidError, match=f"column group {str(name)!r}: expected a name of at most"
    ):
        lakebed.create_table(None, str(tmp_path / "t"), DDL, **ORDERED, column_groups={name: "a"})
    assert not (tmp_path / "t").exists()


SAME = {
    "the argument as text": {"column_groups": {"x": "a,b;scored_at"}},
    "the argument with the key": {"column_groups": {"x": "id,a,b;scored_at"}},
    "the argument as a mapping": {
        "column_groups": {"x": {"columns": ["a", "b"], "ordering": "scored_at"}}
    },
    "the ordering among the columns": {
        "column_groups": {"x": {"columns": ["a", "b", "scored_at"], "ordering": "scored_at"}}
    },
    "the option": {"properties": {"hoodie.columngroup.x": "a,b;scored_at"}},
    "the other spelling": {"properties": {"hoodie.colgroup.x": "a,b;scored_at"}},
    "both spellings": {
        "properties": {
            "hoodie.columngroup.x": "a,b;scored_at",
            "hoodie.colgroup.x": "a, b; scored_at",
        }
    },
    "the argument and the option": {
        "column_groups": {"x": "a,b;scored_at"},
        "properties": {"hoodie.columngroup.x": "a,b;scored_at"},
    },
}


@pytest.mark.parametrize("how", SAME)
def test_the_forms_of_a_definition_mean_the_same(how: str):
    table = lakebed.create_table(
        None, f"memory://refused/{how.replace(' ', '-')}", DDL, **ORDERED, **SAME[how]
    )
    [default, group] = table.describe().column_groups
    assert (group.name, group.ordering) == ("x", ("scored_at",))
    assert group.columns == ("scored_at", "a", "b")
    assert (default.name, default.ordering) == ("", ("ts",))
    assert table.config.version == 10


def test_a_list_of_columns_is_ordered_by_the_column_of_the_table():
    table = lakebed.create_table(
        None, "memory://refused/list", DDL, **ORDERED, column_groups={"x": ["a", "b"]}
    )
    assert table.describe().column_groups[1].ordering == ("ts",)
    by_arrival = lakebed.create_table(
        None, "memory://refused/arrival", DDL, key="id", buckets=2, column_groups={"x": ["a", "b"]}
    )
    assert by_arrival.describe().column_groups[1].ordering == ()


def test_ordering_columns_and_those_of_the_key_may_be_not_null():
    schema = not_null("id", "ts", "at")
    table = lakebed.create_table(
        None, "memory://refused/not-null", schema, **ORDERED, column_groups={"x": "a;at"}
    )
    # A row without a version in a group has no value there.
    assert [field.name for field in table.schema if not field.nullable] == ["id"]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = lakebed.create_table(
        None,
        str(tmp_path / "t"),
        DDL,
        **ORDERED,
        column_groups={"risk": "score,band;scored_at", "ab": ["a", "b"]},
    )
    table.bulk_insert(rows(*pa.schema(table.schema).names))
    return table


ROWS: dict[str, Any] = {
    "id": [1, 2],
    "id2": [1, 2],
    "dt": ["x", "y"],
    "ts": [1, 1],
    "name": ["one", "two"],
    "score": [1.0, 2.0],
    "band": ["low", "high"],
    "scored_at": [5, 5],
    "a": [1, 2],
    "b": [3, 4],
    "raw": [b"1", b"2"],
}


def rows(*names: str, **others: Any) -> pa.Table:
    return pa.table({**{name: ROWS[name] for name in names}, **others})


NULL = pa.array([None, 1], pa.int64())
WRITES: dict[str, tuple[str, pa.Table, dict[str, Any], type[Exception], str]] = {
    "part of a group by upsert": (
        "upsert",
        rows("id", "score", "scored_at"),
        {},
        SchemaError,
        "column 'band' is missing; column group 'risk' has score, band, scored_at: give all columns "
        "of a group or none, or call update_columns.*fill_missing=True writes whole rows",
    ),
    "part of a group by insert": (
        "insert",
        rows("id", "ts", "a"),
        {},
        SchemaError,
        "column 'b' is missing; column group 'ab' has a, b",
    ),
    "part of a group by bulk_insert": (
        "bulk_insert",
        rows("id", "ts", "name"),
        {},
        SchemaError,
        "column 'id2' is missing; the default column group has id2",
    ),
    "part of a group by insert_overwrite": (
        "insert_overwrite",
        rows("id", "ts", "a"),
        {},
        SchemaError,
        "column 'b' is missing; column group 'ab' has a, b",
    ),
    "nothing but the key": (
        "upsert",
        rows("id"),
        {},
        SchemaError,
        "ordering column 'ts' is missing: the default column group orders",
    ),
    "a group without its ordering column": (
        "upsert",
        rows("id", "score", "band"),
        {},
        SchemaError,
        "ordering column 'scored_at' is missing: column group 'risk' orders the versions of a row",
    ),
    "a group without the ordering column of the table": (
        "upsert",
        rows("id", "a", "b"),
        {},
        SchemaError,
        "ordering column 'ts' is missing: column group 'ab' orders",
    ),
    "an update without the ordering column of its group": (
        "update_columns",
        rows("id", "score"),
        {},
        SchemaError,
        "ordering column 'scored_at' is missing: column group 'risk'",
    ),
    "an update without the ordering column of the table": (
        "update_columns",
        rows("id", "a"),
        {},
        SchemaError,
        "ordering column 'ts' is missing: column group 'ab'",
    ),
    "an update of two groups with the ordering column of one": (
        "update_columns",
        rows("id", "ts", "score", "a"),
        {},
        SchemaError,
        "ordering column 'scored_at' is missing: column group 'risk'",
    ),
    "a delete mark without the ordering column of every group": (
        "update_columns",
        rows("id", "ts", _hoodie_is_deleted=[True, False]),
        {},
        SchemaError,
        "ordering column 'scored_at' is missing: column group 'risk' .* a delete that affects",
    ),
    "a null in the ordering column of a group": (
        "upsert",
        rows("id", "score", "band", scored_at=NULL),
        {},
        KeyValueError,
        "ordering column 'scored_at' is null for key '1'",
    ),
    "an update with a null in the ordering column of a group": (
        "update_columns",
        rows("id", "score", scored_at=NULL),
        {},
        KeyValueError,
        "ordering column 'scored_at' is null for key '1'",
    ),
    "an update with a null in the ordering column of the table": (
        "update_columns",
        rows("id", "a", ts=NULL),
        {},
        KeyValueError,
        "ordering column 'ts' is null for key '1'",
    ),
    "a null in the ordering column of one group of several": (
        "update_columns",
        rows("id", "ts", "a", "score", scored_at=NULL),
        {},
        KeyValueError,
        "ordering column 'scored_at' is null for key '1'",
    ),
    "no key": (
        "upsert",
        rows("score", "band", "scored_at"),
        {},
        SchemaError,
        "record key column 'id' is missing",
    ),
    "a null in the key": (
        "update_columns",
        rows("score", "scored_at", id=NULL),
        {},
        KeyValueError,
        "record key field 'id', row 0",
    ),
    "a new column": (
        "upsert",
        rows("id", "score", "band", "scored_at", z=[1, 2]),
        {},
        SchemaError,
        r"column 'z' is new\. Writes do not change the columns of a table with column groups",
    ),
    "a new column with evolve": (
        "upsert",
        rows("id", "score", "band", "scored_at", z=[1, 2]),
        {"evolve": True},
        SchemaError,
        r"column 'z' is new\. evolve=True has no effect here.*call add_column_group",
    ),
    "an update with a new column and evolve": (
        "update_columns",
        rows("id", "score", "scored_at", z=[1, 2]),
        {"evolve": True},
        SchemaError,
        "column 'z' is new",
    ),
    "whole rows with a new column and evolve": (
        "bulk_insert",
        rows(*ROWS, z=[1, 2]),
        {"evolve": True},
        SchemaError,
        "column 'z' is new",
    ),
    "an overwrite with a new column and evolve": (
        "insert_overwrite",
        rows(*ROWS, z=[1, 2]),
        {"evolve": True},
        SchemaError,
        "column 'z' is new",
    ),
    "another type": (
        "update_columns",
        rows("id", "scored_at", score=["x", "y"]),
        {"evolve": True},
        SchemaError,
        "column 'score': expected double, found string",
    ),
}


@pytest.mark.parametrize("case", WRITES)
def test_a_write_that_breaks_a_rule_is_refused_and_writes_nothing(case: str, table: Table):
    call, given, options, kind, message = WRITES[case]
    before, was = contents(table._storage), table.to_arrow().to_pylist()
    with pytest.raises(kind, match=message):
        getattr(table, call)(given, **options)
    left = {path for path in contents(table._storage) if not path.startswith(".hoodie/.locks/")}
    assert left == {path for path in before if not path.startswith(".hoodie/.locks/")}
    assert {
        path: data for path, data in contents(table._storage).items() if path in before
    } == before
    assert table.to_arrow().to_pylist() == was


def test_wider_numbers_are_refused_too():
    schema = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("b", pa.int32())])
    table = lakebed.create_table(
        None, "memory://refused/wider", schema, key="id", buckets=2, column_groups={"x": "a"}
    )
    before = contents(table._storage)
    with pytest.raises(SchemaError, match=r"column 'a' .*call add_column_group with new columns"):
        table.upsert(pa.table({"id": [1], "a": pa.array([1], pa.int64())}), evolve=True)
    assert contents(table._storage) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.columngroup.y", "name"),
        ("hoodie.colgroup.risk", "score"),
        ("hoodie.table.cdc.enabled", "true"),
    ],
)
def test_an_option_neither_redefines_a_group_nor_moves_a_column(
    name: str, value: str, table: Table
):
    before = contents(table._storage)
    with pytest.raises(OptionError, match=f"option {name}: cannot be changed"):
        table.set_properties({name: value})
    assert contents(table._storage) == before


def test_clustering_is_refused(table: Table):
    before = contents(table._storage)
    with pytest.raises(InvalidError, match="each bucket is one sorted file group"):
        table.cluster()
    assert contents(table._storage) == before


ADDED: dict[str, tuple[str, Any, dict[str, Any], type[Exception], str]] = {
    "a name that is taken": (
        "risk",
        "z INT",
        {},
        ExistsError,
        "column group 'risk' already exists",
    ),
    "a name in other letters": (
        "Risk",
        "z INT",
        {},
        ExistsError,
        "column group 'risk' already exists",
    ),
    "a bad name": ("r_1", "z INT", {}, InvalidError, "column group 'r_1': expected a name of"),
    "a redefinition": (
        "ab",
        ["a", "b", "name"],
        {},
        ExistsError,
        "column group 'ab' already exists",
    ),
    "a column of another group": (
        "x",
        ["score"],
        {},
        InvalidError,
        "column 'score' is in the column groups 'risk' and 'x'",
    ),
    "a column that was written": (
        "x",
        ["name"],
        {},
        InvalidError,
        r"column 'name' has been written in the default column group \(by \d+\) and cannot move",
    ),
    "a column that is there, with a type": (
        "x",
        "name STRING",
        {},
        SchemaError,
        "the table already has the column 'name'",
    ),
    "an unknown column": ("x", ["nope"], {}, SchemaError, "group 'x': no column 'nope'"),
    "an ordering column of another group": (
        "x",
        "z INT",
        {"ordering": "scored_at"},
        InvalidError,
        "column 'scored_at' is in the column groups 'risk' and 'x'",
    ),
    "ordered by the key": ("x", "z INT", {"ordering": "id"}, InvalidError, "'id' is a key or"),
    "ordered by bytes": (
        "x",
        "z INT, bytes BINARY",
        {"ordering": "bytes"},
        SchemaError,
        "group 'x': the ordering column 'bytes' is binary",
    ),
    "no columns": ("x", [], {}, InvalidError, "group 'x': expected columns as a DDL string"),
}


@pytest.mark.parametrize("case", ADDED)
def test_a_group_that_breaks_a_rule_is_not_added(case: str, table: Table):
    name, columns, options, kind, message = ADDED[case]
    before = contents(table._storage)
    with pytest.raises(kind, match=message):
        table.add_column_group(name, columns, **options)
    after = contents(table._storage)
    assert {path for path in after if not path.startswith(".hoodie/.locks/")} == {
        path for path in before if not path.startswith(".hoodie/.locks/")
    }
    assert {path: data for path, data in after.items() if path in before} == before


def test_a_group_is_not_added_to_a_table_of_version_9(tmp_path: Path):
    table = lakebed.create_table(None, str(tmp_path / "t"), DDL, **ORDERED)
    with pytest.raises(UnsupportedError, match=r"has version 9: .* call upgrade\(\) first"):
        table.add_column_group("x", "z INT")


def test_the_name_of_a_dropped_group_is_not_reused(table: Table):
    table.drop_column_group("ab")
    with pytest.raises(InvalidError, match="'ab' was dropped, and its name cannot be reused"):
        table.add_column_group("ab", "z INT")
    with pytest.raises(NotFoundError, match="no column group 'ab'; there are: risk"):
        table.drop_column_group("ab")
    with pytest.raises(NotFoundError, match="no column group ''"):
        table.drop_column_group("")


def test_filling_what_is_missing_writes_whole_rows(table: Table):
    table.upsert(rows("id", "ts", "scored_at", "score"), fill_missing=True)
    [row] = table.lookup([{"id": 1}]).to_pylist()
    assert (row["score"], row["scored_at"], row["ts"]) == (1.0, 5, 1)
    assert (row["name"], row["band"], row["a"]) == (None, None, None)
    with pytest.raises(KeyValueError, match="ordering column 'ts' is null"):
        table.upsert(rows("id", "scored_at", "score"), fill_missing=True)
