"""Every operation by name: what a reader of the docs would try first."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakebed
from lakebed.api.table import Table
from lakebed.errors import (
    InvalidError,
    KeyValueError,
    LakebedError,
    SchemaError,
    UnsupportedError,
)
from lakebed.format.names.data_names import InlineLogName, NativeLogName
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.snapshot import load_snapshot
from support.machine import memory_of
from support.tables import (
    SCHEMA,
    batch,
    check_files,
    check_no_leftovers,
    log_runs,
    make,
    reopen,
    user_rows,
)

EMPTY = SCHEMA.empty_table()
KINDS = {
    "inline logs": {"table_type": "MERGE_ON_READ", "table_version": 9},
    "native logs": {"table_type": "MERGE_ON_READ", "table_version": 10},
    "copy on write": {"table_type": "COPY_ON_WRITE"},
}


@pytest.fixture(params=KINDS)
def new(request: pytest.FixtureRequest) -> Callable[..., Table]:
    """Make an empty table of each kind, ordered by `ts` unless told otherwise."""

    def build(**changes: Any) -> Table:
        return make(**{"ordering": ("ts",), **KINDS[request.param], **changes})

    return build


def values(table: Table, column: str = "v") -> dict[str, Any]:
    """Return one column by key."""
    found = {key: row[column] for (_, key), row in user_rows(table).items()}
    assert len(found) == len(user_rows(table))
    return found


def some(**columns: list[Any]) -> pa.Table:
    """Return some columns of SCHEMA."""
    types = pa.schema([SCHEMA.field(name) for name in columns])
    return pa.table(columns, schema=types)


@pytest.mark.parametrize(
    "operation", ["bulk_insert", "insert", "upsert", "update_columns", "delete", "insert_overwrite"]
)
def test_no_rows_are_a_commit_that_changes_nothing(new, operation):
    table = new()
    table.upsert(batch(("a", 1, 1, "p")))
    commit = getattr(table, operation)(EMPTY)
    assert (commit.rows, commit.deleted, commit.write_stats) == (0, 0, ())
    assert values(table) == {"a": 1}
    assert table.history().column("instant").to_pylist()[0] == commit.instant
    table.upsert(batch(("b", 1, 1, "p")))
    assert values(table) == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    "act",
    [
        lambda t: t.delete([]),
        lambda t: t.delete(where="v > 100"),
    ],
)
def test_deleting_nothing_is_a_commit_that_changes_nothing(new, act):
    table = new()
    table.upsert(batch(("a", 1, 1, "p")))
    assert act(table).write_stats == ()
    assert values(table) == {"a": 1}


def test_no_rows_over_the_whole_table_empty_it(new):
    table = new()
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "q")))
    assert table.insert_overwrite(EMPTY, whole_table=True).replaced_file_groups > 0
    assert user_rows(table) == {}


@pytest.mark.parametrize("operation", ["bulk_insert", "insert", "upsert", "insert_overwrite"])
def test_one_row_is_written_and_read(new, operation):
    table = new()
    commit = getattr(table, operation)(batch(("a", 1, 1, "p")))
    assert commit.rows == 1
    assert user_rows(table) == {("p", "a"): {"id": "a", "v": 1, "ts": 1, "dt": "p"}}
    check_files(table)


def test_keys_in_any_script_are_updated_found_and_deleted(new):
    table = new()
    keys = ["钥匙", "ключ", "🔑", "🔑🔑", "\u00e9", "e\u0301", "￿", "z"]
    table.bulk_insert(batch(*((key, 1, 1, "分区") for key in keys)))
    table.upsert(batch(*((key, 2, 2, "分区") for key in keys[::2])))
    table.delete([{"id": "🔑", "dt": "分区"}, {"id": "ключ", "dt": "分区"}])
    left = [key for key in keys if key not in ("🔑", "ключ")]
    assert values(table) == {key: 2 if key in keys[::2] else 1 for key in left}
    found = table.lookup([{"id": key, "dt": "分区"} for key in keys]).column("id").to_pylist()
    assert sorted(found) == sorted(left)
    check_files(table)


def test_a_column_may_be_named_like_a_word_of_sql(new):
    schema = pa.schema([("id", pa.string()), ("select", pa.int64()), ("ts", pa.int64())])
    table = new(schema=schema, partition_by=())
    table.upsert(pa.table({"id": ["a", "b"], "select": [1, 2], "ts": [1, 1]}, schema=schema))
    table.update_columns(pa.table({"id": ["a"], "select": [3], "ts": [2]}, schema=schema))
    assert values(table, "select") == {"a": 3, "b": 2}
    assert table.read(columns=["select"], where="`select` > 2").read_all().to_pydict() == {
        "select": [3]
    }
    table.delete(where="`select` = 3")
    assert values(table, "select") == {"b": 2}


@pytest.mark.parametrize("operation", ["upsert", "update_columns", "bulk_insert"])
def test_a_null_ordering_value_is_refused_by_the_name_of_its_key(new, operation):
    table = new()
    table.upsert(batch(("a", 1, 1, "p")))
    rows = some(id=["b", "bad one"], v=[1, 2], ts=[1, None], dt=["p", "p"])
    with pytest.raises(KeyValueError, match="'ts' is null for key 'bad one'"):
        getattr(table, operation)(rows)
    assert values(table) == {"a": 1}
    check_no_leftovers(table._storage)


def test_a_late_row_loses_and_an_equal_one_wins(new):
    table = new()
    table.upsert(batch(("a", 1, 5, "p"), ("b", 1, 5, "p"), ("c", 1, 5, "p")))
    table.upsert(batch(("a", 2, 4, "p"), ("b", 2, 5, "p"), ("c", 2, 6, "p")))
    assert values(table) == {"a": 1, "b": 2, "c": 2}


def test_without_ordering_columns_the_later_row_wins(new):
    table = new(ordering=())
    table.upsert(batch(("a", 1, 5, "p")))
    table.upsert(batch(("a", 2, 4, "p"), ("a", 3, 3, "p")))
    assert values(table) == {"a": 3}


def test_two_ordering_columns_are_compared_one_after_the_other(new):
    table = new(ordering=("ts", "v"))
    table.upsert(batch(("a", 5, 5, "p"), ("b", 5, 5, "p"), ("c", 5, 5, "p")))
    table.upsert(batch(("a", 9, 4, "p"), ("b", 4, 5, "p"), ("c", 1, 6, "p")))
    assert values(table) == {"a": 5, "b": 5, "c": 1}


def test_of_a_key_that_comes_twice_the_greater_ordering_stands_then_the_later(new):
    table = new()
    table.upsert(batch(("x", 0, 0, "p")))
    table.upsert(batch(("a", 1, 2, "p"), ("a", 2, 1, "p"), ("b", 1, 1, "p"), ("b", 2, 1, "p")))
    assert values(table) == {"x": 0, "a": 1, "b": 2}
    check_files(table)


def test_a_deleted_key_comes_back(new):
    table = new()
    table.upsert(batch(("a", 1, 5, "p"), ("b", 1, 5, "p")))
    table.delete([{"id": "a", "dt": "p"}])
    assert values(table) == {"b": 1}
    table.upsert(batch(("a", 2, 5, "p")))
    assert values(table) == {"a": 2, "b": 1}


def test_a_delete_by_key_needs_no_ordering_value_and_always_wins(new):
    table = new()
    table.upsert(batch(("a", 1, 2**62, "p"), ("b", 1, 1, "p")))
    table.upsert(batch(("a", 2, 2**62 + 1, "p")))
    table.delete(some(id=["a"], dt=["p"], ts=[0]))
    assert values(table) == {"b": 1}


def test_a_key_that_is_not_there_is_deleted_without_a_word(new):
    table = new()
    table.upsert(batch(("a", 1, 1, "p")))
    table.delete([{"id": "zz", "dt": "p"}, {"id": "a", "dt": "elsewhere"}])
    assert values(table) == {"a": 1}
    check_no_leftovers(table._storage)


def test_a_marked_row_deletes_at_its_ordering_value(new):
    table = new()
    table.upsert(batch(("late", 1, 5, "p"), ("due", 1, 5, "p"), ("kept", 1, 5, "p")))
    marked = batch(("late", 2, 4, "p"), ("due", 2, 6, "p"), ("kept", 2, 6, "p"))
    table.upsert(marked.append_column("_hoodie_is_deleted", pa.array([True, True, False])))
    assert values(table) == {"late": 1, "kept": 2}
    assert table.schema == SCHEMA


def test_a_delete_with_an_ordering_value_is_remembered_where_there_are_logs(new):
    table = new()
    table.upsert(batch(("a", 1, 5, "p"), ("b", 1, 1, "p")))
    gone = batch(("a", 1, 7, "p"))
    table.upsert(gone.append_column("_hoodie_is_deleted", pa.array([True])))
    table.upsert(batch(("a", 2, 6, "p")))
    remembers = table.config.table_type == "MERGE_ON_READ"
    assert values(table) == ({"b": 1} if remembers else {"a": 2, "b": 1})
    table.upsert(batch(("a", 3, 7, "p")))
    assert values(table) == {"a": 3, "b": 1}


def test_a_marker_of_the_tables_own_deletes(new):
    schema = pa.schema([*SCHEMA, ("op", pa.string())])
    table = new(
        schema=schema,
        properties={"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"},
    )

    def changes(*rows: tuple[str, int, int, str, str | None]) -> pa.Table:
        return pa.Table.from_pylist(
            [dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema
        )

    table.upsert(changes(("a", 1, 1, "p", "I"), ("b", 1, 1, "p", None), ("c", 1, 1, "p", "d")))
    table.upsert(changes(("a", 2, 2, "p", "D"), ("b", 2, 2, "p", "U"), ("c", 2, 0, "p", "D")))
    assert values(table) == {"b": 2, "c": 1}
    assert values(reopen(table._storage), "op") == {"b": "U", "c": "d"}


def test_update_columns_leaves_the_others(new):
    table = new()
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    table.update_columns(some(id=["a"], dt=["p"], ts=[2]))
    assert user_rows(table)["p", "a"] == {"id": "a", "v": 1, "ts": 2, "dt": "p"}
    table.update_columns(some(id=["a", "b"], dt=["p", "p"], ts=[3, 0], v=[9, 9]))
    assert values(table) == {"a": 9, "b": 1}, "b's update is late"


def test_update_columns_of_a_new_key_leaves_nulls(new):
    table = new()
    table.upsert(batch(("a", 1, 1, "p")))
    table.update_columns(some(id=["n", "m"], dt=["p", "q"], ts=[2, 2]))
    assert values(table) == {"a": 1, "n": None, "m": None}


def test_update_columns_may_set_null(new):
    table = new()
    table.upsert(batch(("a", 1, 1, "p")))
    table.update_columns(some(id=["a"], dt=["p"], ts=[2], v=[None]))
    assert values(table) == {"a": None}


@pytest.mark.parametrize("version", [8, 9, 10])
def test_update_columns_writes_whole_rows_wherever_hudi_would_misread_partial_ones(version):
    """Up to version 9 in every table: its incremental query reads them as garbage."""
    for mark in ("", "_hoodie_is_deleted"):
        schema = pa.schema([*SCHEMA, (mark, pa.bool_())] if mark else SCHEMA)
        table = make(
            schema=schema,
            ordering=("ts",),
            table_version=version,
            table_type="MERGE_ON_READ",
            buckets=1,
        )
        rows = batch(("a", 1, 1, "p"), ("b", 1, 1, "p"))
        table.upsert(rows.append_column(mark, pa.array([False, None])) if mark else rows)
        table.update_columns(some(id=["a", "b"], dt=["p", "p"], ts=[2, 0], v=[3, 3]))
        table.update_columns(some(id=["a", "n"], dt=["p", "p"], ts=[3, 3]))
        assert values(table) == {"a": 3, "b": 1, "n": None}
        snapshot = load_snapshot(table._storage, table.config)
        (slice_,) = snapshot.slices
        sources = slice_sources(snapshot.view(), slice_)
        assert any(source.partial for source in sources) == (version == 10 and not mark)


def test_update_columns_with_a_new_column_adds_it(new):
    table = new()
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    rows = some(id=["a"], dt=["p"], ts=[2]).append_column("note", pa.array(["hello"]))
    with pytest.raises(SchemaError, match=r"column 'note' is new.*evolve=True"):
        table.update_columns(rows)
    table.update_columns(rows, evolve=True)
    assert table.schema.names == [*SCHEMA.names, "note"]
    assert values(table, "note") == {"a": "hello", "b": None}
    assert values(table) == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (some(id=["a"], dt=["p"], v=[2]), "ordering column 'ts' is missing"),
        (some(id=["a"], ts=[2], v=[2]), "partition column 'dt' is missing"),
        (some(dt=["p"], ts=[2], v=[2]), "record key column 'id' is missing"),
    ],
)
def test_update_columns_without_a_needed_column_is_refused_by_name(new, given, message):
    table = new()
    table.upsert(batch(("a", 1, 1, "p")))
    with pytest.raises(SchemaError, match=message):
        table.update_columns(given)
    assert values(table) == {"a": 1}
    check_no_leftovers(table._storage)


def test_an_upsert_without_a_column_of_the_table_points_to_update_columns(new):
    table = new()
    with pytest.raises(SchemaError, match=r"'v' is missing.*update_columns"):
        table.upsert(some(id=["a"], dt=["p"], ts=[1]))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda t: t.delete([{"dt": "p"}]), "column 'id' is missing"),
        (lambda t: t.delete(some(id=["a"])), "partition column 'dt' is missing"),
        (lambda t: t.delete(some(dt=["p"])), "record key column 'id' is missing"),
        (lambda t: t.delete([{"id": "a", "dt": "p"}], where="v = 1"), "either keys or where"),
        (lambda t: t.delete(), "either keys or where"),
        (lambda t: t.delete("a"), "found str"),
        (lambda t: t.delete([7]), "keys: expected values of id string"),
        (lambda t: t.delete([{"id": 1, "dt": "p"}]), "expected values of id string"),
        (lambda t: t.delete(where="nope = 1"), "no column nope"),
        (lambda t: t.delete(where=" "), "expected a predicate"),
        (lambda t: t.delete_partitions([]), "at least one partition"),
        (lambda t: t.delete_partitions([7]), "partition 7: expected its path"),
        (lambda t: t.delete_partitions(7), "expected a list, found int"),
        (lambda t: t.delete_partitions([{"id": "a"}]), "expected a value for each of dt"),
        (lambda t: t.lookup("a"), "expected a list of keys"),
        (
            lambda t: t.upsert(EMPTY.append_column("_hoodie_is_deleted", pa.array([], pa.int64()))),
            "'_hoodie_is_deleted': expected boolean, found int64",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_by_name_and_changes_nothing(new, act, message):
    table = new()
    table.upsert(batch(("a", 1, 1, "p")))
    with pytest.raises(InvalidError, match=message):
        act(table)
    assert values(table) == {"a": 1}
    check_no_leftovers(table._storage)


def test_delete_where_deletes_what_fulfils_it_now(new):
    table = new()
    table.upsert(batch(("a", 1, 1, "p"), ("b", 5, 1, "p"), ("c", 5, 1, "q")))
    table.upsert(batch(("a", 5, 2, "p"), ("b", 1, 2, "p")))
    assert table.delete(where="v = 5").deleted == 2
    assert values(table) == {"b": 1}


def test_insert_overwrite_replaces_the_partitions_that_it_brings_and_no_other(new):
    table = new()
    table.upsert(batch(("a", 1, 9, "p"), ("b", 1, 9, "p"), ("c", 1, 9, "q")))
    table.delete([{"id": "b", "dt": "p"}])
    table.insert_overwrite(batch(("a", 2, 1, "p"), ("b", 2, 1, "p"), ("n", 2, 1, "r")))
    assert values(table) == {"a": 2, "b": 2, "c": 1, "n": 2}
    table.upsert(batch(("a", 3, 2, "p"), ("c", 3, 9, "q")))
    assert values(table) == {"a": 3, "b": 2, "c": 3, "n": 2}
    check_files(table)


def test_insert_overwrite_of_the_whole_table_leaves_only_its_rows(new):
    table = new()
    table.upsert(batch(("a", 1, 9, "p"), ("c", 1, 9, "q")))
    before = table.upsert(batch(("a", 2, 9, "p"))).instant
    table.insert_overwrite(batch(("z", 1, 1, "q")), whole_table=True)
    assert values(table) == {"z": 1}
    assert user_rows(table, before).keys() == {("p", "a"), ("q", "c")}


def test_partitions_are_deleted_by_path_or_by_value(new):
    table = new()
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "q"), ("c", 1, 1, "r")))
    assert table.delete_partitions("p").action == "replacecommit"
    table.delete_partitions([{"dt": "q"}])
    assert values(table) == {"c": 1}
    table.upsert(batch(("a", 2, 0, "p")))
    assert values(table) == {"a": 2, "c": 1}, "nothing of the old partition takes part"


def test_a_table_without_partitions_is_one_partition(new):
    table = new(partition_by=())
    table.upsert(batch(("a", 1, 1, "p")))
    table.insert_overwrite(batch(("b", 1, 1, "p")))
    assert values(table) == {"b": 1}
    table.delete(["b"])
    assert values(table) == {}


@pytest.mark.parametrize("version", [8, 9, 10])
def test_every_log_of_a_delta_commit_is_ordered_and_marked(version):
    table = make(table_type="MERGE_ON_READ", ordering=("ts",), table_version=version, buckets=1)
    assert table.bulk_insert(batch(("m", 1, 1, "p"), ("b", 1, 1, "p"))).action == "deltacommit"
    rows = [batch((key, 2, 2, "p")).to_batches()[0] for key in ("z", "a", "k")]
    joined = [pa.concat_batches(rows), rows[1]]
    with memory_of(table, 1):
        commit = table.upsert(pa.RecordBatchReader.from_batches(SCHEMA, joined))
    table.delete([{"id": "z", "dt": "p"}, {"id": "a", "dt": "p"}])
    (slice_,) = load_snapshot(table._storage, table.config).slices
    kind = NativeLogName if version == 10 else InlineLogName
    assert all(isinstance(log.name, kind) for log in slice_.log_files)
    runs = [log_runs(table._storage, log, table) for log in slice_.log_files]
    keys = [found.to_pylist() for run in runs for _, found in run]
    assert keys == [["a", "k", "z"], ["a"], ["a", "z"]]
    assert [log.name.version for log in slice_.log_files] == [1, 2, 1]
    assert sum(stat.num_writes for stat in commit.write_stats) == 4
    assert values(table) == {"b": 1, "k": 2, "m": 1}
    assert str(table.layers()).count("L0") >= 1


def add_up(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
    """Merge two versions by the sum of `v`."""
    at = newer.schema.get_field_index("v")
    total = pc.add(older.column("v"), newer.column("v"))
    return newer.set_column(at, newer.schema.field(at), total)


@pytest.mark.parametrize("kind", KINDS)
def test_a_merger_of_the_users_own_makes_the_rows(kind, tmp_path):
    path = str(tmp_path / "sums")
    table = lakebed.create_table(
        None, path, SCHEMA, key="id", partition_by="dt", merger=add_up, buckets=1, **KINDS[kind]
    )
    table.upsert(batch(("a", 1, 1, "p"), ("a", 2, 1, "p"), ("b", 5, 1, "p")))
    assert values(table) == {"a": 3, "b": 5}
    table.upsert(batch(("a", 10, 1, "p"), ("c", 1, 1, "p"), ("a", 20, 1, "p")))
    with memory_of(table, 1):
        stream = [batch(("a", 100, 1, "p")).to_batches()[0]] * 2
        table.upsert(pa.RecordBatchReader.from_batches(SCHEMA, stream))
    assert values(table) == {"a": 233, "b": 5, "c": 1}
    assert table.lookup([{"id": "a", "dt": "p"}], columns=["v"]).to_pylist() == [{"v": 233}]
    table.delete([{"id": "a", "dt": "p"}])
    table.upsert(batch(("a", 7, 1, "p")))
    assert values(lakebed.open_table(None, path, merger=add_up)) == {"a": 7, "b": 5, "c": 1}
    check_files(table)


def test_a_table_with_a_merger_is_refused_without_it_where_rows_must_be_merged():
    path = "memory://unit/api/operations/merger"
    table = lakebed.create_table(None, path, SCHEMA, key="id", merger=add_up, buckets=1)
    table.upsert(batch(("a", 1, 1, "p")))
    stranger = lakebed.open_table(None, path)
    assert values(stranger) == {"a": 1}, "a base file alone needs no merger"
    with pytest.raises(UnsupportedError, match="pass a custom merger"):
        stranger.upsert(batch(("a", 2, 1, "p")))
    table.upsert(batch(("a", 2, 1, "p")))
    for read in (stranger.read, lambda: stranger.lookup(["a"])):
        with pytest.raises(UnsupportedError, match="pass a custom merger"):
            read()
    assert stranger.read(mode="read_optimized").read_all().column("v").to_pylist() == [1]
    assert values(table) == {"a": 3}


def test_a_merger_for_a_table_that_has_none_is_refused():
    path = "memory://unit/api/operations/no-merger"
    lakebed.create_table(None, path, SCHEMA, key="id")
    with pytest.raises(InvalidError, match="created with a merger"):
        lakebed.open_table(None, path, merger=add_up)


@pytest.mark.parametrize(
    ("merger", "message"),
    [
        (lambda older, newer: None, "expected a RecordBatch, found NoneType"),
        (lambda older, newer: newer.slice(0, 0), "expected 1 rows, found 0"),
        (lambda older, newer: newer.drop_columns(["v"]), "expected the schema that it was given"),
    ],
)
def test_a_merger_that_gives_something_else_is_refused(merger, message):
    table = lakebed.create_table(
        None, f"memory://unit/api/operations/{message}", SCHEMA, key="id", merger=merger
    )
    table.upsert(batch(("a", 1, 1, "p")))
    with pytest.raises(LakebedError, match=message):
        table.upsert(batch(("a", 2, 1, "p")))
        table.read().read_all()
