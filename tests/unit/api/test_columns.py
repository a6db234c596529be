"""Columns that come, stay away, grow and go: nothing changes a table's columns unasked."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.api.saving import begin_saving
from lakebed.api.table import Table
from lakebed.errors import InvalidError, SchemaError, UnsupportedError
from lakebed.model.executor import TaskId
from support.tables import batch, make, user_rows

ROWS = batch(("a", 1, 1, "p"), ("b", 1, 1, "q"))
NEW = ROWS.append_column("note", pa.array(["x", "y"]))


def with_v(kind: pa.DataType, rows: pa.Table = ROWS) -> pa.Table:
    return rows.set_column(1, "v", rows.column("v").cast(kind))


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest) -> Table:
    made = make(table_type=request.param, ordering=("ts",), buckets=1)
    made.insert(ROWS)
    return made


WRITES: dict[str, Callable[..., Any]] = {
    "bulk_insert": lambda table, rows, **how: table.bulk_insert(rows, **how),
    "insert": lambda table, rows, **how: table.insert(rows, **how),
    "upsert": lambda table, rows, **how: table.upsert(rows, **how),
    "update_columns": lambda table, rows, **how: table.update_columns(rows, **how),
    "insert_overwrite": lambda table, rows, **how: table.insert_overwrite(rows, **how),
    "the whole table": lambda table, rows, **how: table.insert_overwrite(
        rows, whole_table=True, **how
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_a_new_column_is_refused_with_a_hint_and_taken_with_evolve(write: Callable[..., Any]):
    table = make(ordering=("ts",), buckets=1)
    table.insert(ROWS)
    commits = len(table.history())
    with pytest.raises(SchemaError, match=r"table 't': column 'note' is new.*evolve=True"):
        write(table, NEW)
    assert table.schema.names == ROWS.column_names
    assert len(table.history()) == commits
    write(table, NEW, evolve=True)
    assert {row["note"] for row in user_rows(table).values()} == {"x", "y"}


def test_a_wider_type_is_refused_with_a_hint_and_taken_with_evolve():
    schema = with_v(pa.int32()).schema
    table = make(schema=schema, buckets=1)
    table.insert(with_v(pa.int32()))
    with pytest.raises(
        SchemaError, match=r"column 'v' would become int64 \(it is int32\).*evolve=True"
    ):
        table.upsert(ROWS)
    table.upsert(with_v(pa.int8()))  # a narrower one fits
    table.upsert(ROWS, evolve=True)
    assert table.schema.field("v").type == pa.int64()


def test_a_new_field_of_a_struct_is_a_new_column_by_its_path():
    old = pa.table({"id": ["a"], "s": [{"x": 1}]})
    table = lakebed.create_table(None, "memory://columns/struct", old, key="id")
    table.insert(old)
    new = pa.table({"id": ["a"], "s": [{"x": 1, "y": 2}]})
    with pytest.raises(SchemaError, match=r"column 's\.y' is new"):
        table.upsert(new)
    table.upsert(new, evolve=True)
    assert table.to_arrow().to_pylist() == new.to_pylist()


@pytest.mark.parametrize("evolve", [False, True])
def test_what_marks_a_delete_is_no_new_column(evolve: bool):
    table = make(
        ordering=("ts",),
        buckets=1,
        properties={
            "hoodie.payload.delete.field": "op",
            "hoodie.payload.delete.marker": "d",
        },
    )
    table.insert(ROWS)
    marked = batch(("a", 1, 2, "p")).append_column("_hoodie_is_deleted", pa.array([True]))
    table.upsert(marked, evolve=evolve)
    table.upsert(batch(("b", 1, 2, "q")).append_column("op", pa.array(["d"])), evolve=evolve)
    assert table.count() == 0
    assert table.schema.names == ROWS.column_names


def test_a_missing_column_is_refused_with_a_hint_and_null_with_fill_missing(table: Table):
    with pytest.raises(SchemaError, match=r"column 'v' is missing.*fill_missing=True.*update_col"):
        table.upsert(batch(("a", 1, 2, "p")).drop(["v"]))
    table.upsert(batch(("a", 1, 2, "p")).drop(["v"]), fill_missing=True)
    assert {row["id"]: row["v"] for row in user_rows(table).values()} == {"a": None, "b": 1}


def test_a_column_that_must_have_values_is_not_filled():
    schema = pa.schema([("id", pa.string()), pa.field("v", pa.int64(), nullable=False)])
    table = lakebed.create_table(None, "memory://columns/needed", schema, key="id")
    with pytest.raises(SchemaError, match="column 'v' is missing") as refused:
        table.upsert(pa.table({"id": ["a"]}))
    assert "fill_missing" not in str(refused.value)
    with pytest.raises(SchemaError, match="'v'"):
        table.upsert(pa.table({"id": ["a"]}), fill_missing=True)


def test_format_lakebed_takes_new_columns_unless_merge_schema_forbids_it(tmp_path):
    options = {
        "path": str(tmp_path / "t"),
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
    }

    def save(rows: pa.Table, **more: str) -> None:
        saving = begin_saving({**options, **more}, rows.schema, overwrite=False)
        saving.finish([saving.stage(rows.to_batches(), TaskId(0, 0, 0))])

    save(ROWS)
    with pytest.raises(SchemaError, match=r"column 'note' is new.*mergeSchema=false"):
        save(NEW, mergeSchema="false")
    save(NEW)
    assert set(lakebed.open_table(options["path"]).to_pandas().note) == {"x", "y"}


def test_a_dropped_column_is_gone_from_reads_and_writes_and_stays_in_the_past(table: Table):
    table.update_columns(batch(("a", 7, 2, "p")))
    before = user_rows(table)
    last = table.history().column("instant").to_pylist()[0]
    commit = table.drop_column("v")
    assert (commit.operation, commit.rows) == ("ALTER_SCHEMA", 0)
    assert table.schema.names == ["id", "ts", "dt"]
    wanted = {key: {n: row[n] for n in ("id", "ts", "dt")} for key, row in before.items()}
    assert user_rows(table) == wanted
    assert user_rows(table, as_of=last) == before
    table.upsert(batch(("c", 9, 3, "p")).drop(["v"]))
    table.compact() if table.config.table_type == "MERGE_ON_READ" else None
    assert {row["id"] for row in user_rows(table).values()} == {"a", "b", "c"}
    assert not table.verify().findings


def test_a_dropped_name_does_not_bring_its_old_values_back(table: Table):
    table.drop_column("v")
    for evolve in (False, True):
        with pytest.raises(SchemaError, match="column 'v' was dropped, and older files still hold"):
            table.upsert(batch(("c", 9, 3, "p")), evolve=evolve)
    table.insert_overwrite(batch(("c", 9, 3, "p")), whole_table=True, evolve=True)
    table.upsert(batch(("d", 8, 3, "p")))
    assert {row["id"]: row["v"] for row in user_rows(table).values()} == {"c": 9, "d": 8}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x", "no column 'x'; it has id, v, ts, dt"),
        ("id", "part of the record key"),
        ("dt", "part of the partition"),
        ("ts", "part of the ordering"),
    ],
)
def test_a_column_that_cannot_go_is_refused_and_nothing_is_committed(
    table: Table, name: str, words: str
):
    commits = len(table.history())
    with pytest.raises(InvalidError, match=words):
        table.drop_column(name)
    assert len(table.history()) == commits


def test_a_column_is_not_renamed_and_the_reason_is_said(table: Table):
    with pytest.raises(UnsupportedError, match=r"identify columns by name.*drop_column"):
        table.rename_column("v", "w")


def test_added_columns_are_null_in_older_rows_and_written_by_later_ones(table: Table):
    before = user_rows(table)
    commit = table.add_columns("score DOUBLE, `select` STRING")
    assert (commit.operation, commit.rows) == ("ALTER_SCHEMA", 0)
    assert table.schema.names[-2:] == ["score", "select"]
    assert user_rows(table) == {
        key: {**row, "score": None, "select": None} for key, row in before.items()
    }
    rows = batch(("c", 9, 3, "p"))
    table.upsert(
        rows.append_column("score", pa.array([0.5])).append_column("select", pa.array(["x"]))
    )
    assert {row["score"] for row in user_rows(table).values()} == {None, 0.5}
    assert not table.verify().findings


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("ID INT", "cannot add column 'ID': it already has 'id'"),
        ("n INT NOT NULL", "'n' must be nullable"),
        ("_hoodie_x INT", "Hudi's own"),
        (["n"], "expected columns as a DDL string"),
        (pa.field("n", pa.duration("s")), "cannot hold the type"),
    ],
)
def test_a_column_that_cannot_be_added_is_refused_and_nothing_is_committed(
    table: Table, columns: Any, words: str
):
    commits = len(table.history())
    with pytest.raises(InvalidError, match=words):
        table.add_columns(columns)
    assert len(table.history()) == commits


def test_the_name_of_a_dropped_column_is_not_added_again(table: Table):
    table.drop_column("v")
    with pytest.raises(SchemaError, match="column 'v' was dropped"):
        table.add_columns("v INT")


def test_added_columns_of_a_table_with_groups_belong_to_the_default_group():
    t = lakebed.create_table(
        None, "memory://columns/groups", "id BIGINT, a INT, b INT", "id", column_groups={"x": "a"}
    )
    t.upsert(pa.table({"id": [1], "a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())}))
    t.add_columns("c INT")
    (default, _) = t.describe().column_groups
    assert default.columns == ("b", "c")
    t.upsert(pa.table({"id": [1], "b": pa.array([3], pa.int32()), "c": pa.array([4], pa.int32())}))
    assert t.to_arrow().to_pylist() == [{"id": 1, "a": 1, "b": 3, "c": 4}]


def test_a_widened_column_reads_older_files_as_the_wider_type(table: Table):
    before = user_rows(table)
    table.add_columns("n INT")
    rows = batch(("c", 9, 3, "p")).append_column("n", pa.array([7], pa.int32()))
    table.upsert(rows)
    commit = table.widen_column("n", "BIGINT")
    assert (commit.operation, table.schema.field("n").type) == ("ALTER_SCHEMA", pa.int64())
    wide = batch(("d", 9, 3, "p")).append_column("n", pa.array([2**40]))
    table.upsert(wide)
    assert {row["n"] for row in user_rows(table).values()} == {None, 7, 2**40}
    assert len(user_rows(table)) == len(before) + 2


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("w", "BIGINT", "no column 'w'"),
        ("ts", "STRING", "only wider types"),
        ("ts", "INT, x INT", "expected one type"),
        ("ts", 5, "expected a type such as"),
        ("ts", "BIGIN", "expected a type such as"),
    ],
)
def test_a_type_that_is_not_wider_is_refused_and_nothing_is_committed(
    table: Table, name: str, kind: Any, words: str
):
    commits = len(table.history())
    with pytest.raises(InvalidError, match=words):
        table.widen_column(name, kind)
    assert len(table.history()) == commits
