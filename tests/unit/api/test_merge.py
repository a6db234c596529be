"""Merges and updates in process: the rules that tables add to the clauses, and other writers."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import (
    ConflictError,
    InvalidError,
    KeyValueError,
    SchemaError,
    UnsupportedError,
)
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from support.faulty import FaultyStorage
from support.tables import batch, check_files, check_no_leftovers, make, reopen, user_rows

OPTIMISTIC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": "3"}
BOTH_TYPES = pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])


def table_of(rows: Any = None, **changes: Any) -> Any:
    """Return a table with the rows a, b and c in the partitions p and q."""
    table = make(**{"table_type": "MERGE_ON_READ", **changes})
    table.upsert(rows or batch(("a", 1, 5, "p"), ("b", 2, 5, "p"), ("c", 3, 5, "q")))
    return table


def values(table: Any) -> dict[str, int]:
    return {key: row["v"] for (_, key), row in user_rows(table).items()}


@BOTH_TYPES
def test_an_update_wins_although_its_ordering_value_is_unchanged(table_type):
    t = table_of(table_type=table_type, ordering=("ts",))
    assert t.update({"v": "v + 10"}, where="dt = 'p'").updated == 2
    assert values(t) == {"a": 11, "b": 12, "c": 3}
    t.upsert(batch(("a", 0, 4, "p")))  # older than the updated row
    assert values(t)["a"] == 11
    check_files(t)


@BOTH_TYPES
def test_a_delete_of_a_merge_restarts_the_key(table_type):
    t = table_of(table_type=table_type, ordering=("ts",))
    gone = batch(("a", 0, 0, "p"))
    t.merge(gone, ["id", "dt"]).when_matched().delete().when_not_matched().insert().execute()
    assert "a" not in values(t)
    t.upsert(batch(("a", 9, 1, "p")))  # lower than the ordering value that was deleted
    assert values(t)["a"] == 9


def test_an_update_that_lowers_the_ordering_value_is_refused_with_the_key():
    t = table_of(ordering=("ts",))
    with pytest.raises(InvalidError, match=r"\(ts\) of the row with key id='b', dt='p' is lower"):
        t.update({"ts": "if(id = 'b', 1, 9)"})
    assert t.update({"ts": "ts + 1"}).updated == 3


def test_a_late_row_of_the_source_changes_nothing_as_in_an_upsert():
    t = table_of(ordering=("ts",))
    source = batch(("a", 100, 4, "p"), ("b", 200, 6, "p"))
    commit = t.merge(source, ["id", "dt"]).when_matched("source.v > 0").update("all").execute()
    assert (commit.updated, values(t)) == (1, {"a": 1, "b": 200, "c": 3})
    t.merge(
        source, ["id", "dt"]
    ).when_matched().update_all().when_not_matched().insert_all().execute()
    assert values(t) == {"a": 1, "b": 200, "c": 3}


@pytest.mark.parametrize("on", [["id", "dt"], ["id"], "source.id = target.id AND target.ts = 5"])
def test_several_source_rows_for_one_target_row_are_refused_with_the_key(on):
    t = table_of()
    twice = batch(("a", 1, 1, "p"), ("a", 2, 1, "p"))
    with pytest.raises(InvalidError, match=r"2 source rows match .* id='a', dt='p'"):
        t.merge(twice, on).when_matched().update({"v": "source.v"}).execute()
    upsert = t.merge(twice, ["id", "dt"]).when_matched().update_all().when_not_matched()
    with pytest.raises(InvalidError, match="2 source rows have the key id='a', dt='p'"):
        upsert.insert_all().execute()
    # Only one of them may apply, and deleting twice is deleting once.
    commit = t.merge(twice, on).when_matched("source.v = 2").update({"v": "source.v"}).execute()
    assert commit.updated == 1
    assert t.merge(twice, on).when_matched().delete().execute().deleted == 1
    check_no_leftovers(t._storage)


def test_two_rows_to_insert_with_one_key_are_refused():
    t = table_of()
    twice = batch(("n", 1, 1, "p"), ("n", 2, 1, "p"))
    with pytest.raises(InvalidError, match="2 source rows have the key id='n', dt='p'"):
        t.merge(twice, ["id", "dt"]).when_not_matched().insert().execute()


def test_a_row_to_insert_never_replaces_a_row_that_did_not_match():
    t = table_of()
    source = batch(("a", 7, 1, "p"))
    with pytest.raises(InvalidError, match="has the key id='a', dt='p' of a row of the table"):
        t.merge(source, "source.v = target.v").when_not_matched().insert().execute()
    with pytest.raises(InvalidError, match="has the key id='b'"):
        shifted = {"id": lakebed.lit("b"), "dt": "source.dt", "v": 1, "ts": 1}
        t.merge(batch(("x", 1, 1, "p")), ["id", "dt"]).when_not_matched().insert(shifted).execute()
    assert values(t) == {"a": 1, "b": 2, "c": 3}


def test_an_error_of_an_update_names_the_call_that_was_made():
    with pytest.raises(SchemaError, match=r"^update\(\): no column vv \(did you mean v\?\)"):
        table_of().update({"vv": 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "source.v"}, "key column 'id' identifies a row"),
        ({"dt": "'z'"}, "partition column 'dt' identifies a row"),
        ({"vv": "1"}, r"no column vv \(did you mean v\?\)"),
        ({"v": "source.vv"}, r"source: no column vv \(did you mean v\?\)"),
        ({"v": "v + 1"}, "write target.v or source.v"),
        ({"v": "surce.v"}, "surce is neither a table nor a column"),
        ({"v": "'x'"}, "not a BIGINT|of type|expected"),
        ({"v": "1", "V": "2"}, "assigned twice"),
        ({"_hoodie_commit_time": "1"}, "meta column"),
        ({}, "at least one column"),
        ("id", "expected a dict"),
        ({"v": [1]}, "expected an expression"),
        ({"v": lakebed.lit("x")}, "expected a value of BIGINT"),
    ],
)
def test_an_assignment_that_is_not_valid_is_refused_by_name(change, message):
    t = table_of()
    with pytest.raises(InvalidError, match=message):
        t.merge(batch(("a", 1, 1, "p")), ["id", "dt"]).when_matched().update(change).execute()
    assert values(t) == {"a": 1, "b": 2, "c": 3}


def test_a_clause_after_one_without_a_condition_is_refused():
    builder = table_of().merge(batch(), ["id", "dt"]).when_matched().delete()
    with pytest.raises(InvalidError, match=r"when_matched\(\).delete\(\), which has no condition"):
        builder.when_matched("source.v > 1").update("all")
    with pytest.raises(InvalidError, match="at least one clause"):
        table_of().merge(batch(), ["id"]).execute()


def test_not_null_columns_and_null_keys_are_checked():
    schema = pa.schema([pa.field("id", pa.string(), False), pa.field("v", pa.int64(), False)])
    t = lakebed.create_table(None, "memory://merge-unit/nulls", schema, key="id")
    t.insert(pa.table({"id": ["a"], "v": [1]}, schema=schema))
    with pytest.raises(SchemaError, match="'v' is NOT NULL"):
        t.update({"v": None})
    with pytest.raises(SchemaError, match=r"column 'v'.*nulls"):
        t.update({"v": "nullif(v, 1)"})
    source = pa.table({"id": ["n"], "v": [None]}, schema=pa.schema([("id", "str"), ("v", "i8")]))
    with pytest.raises(SchemaError, match="column 'v'"):
        t.merge(source, ["id"]).when_not_matched().insert().execute()
    with pytest.raises(SchemaError, match="'v' is NOT NULL"):
        t.merge(source, ["id"]).when_not_matched().insert({"id": "id"}).execute()
    no_key = pa.table({"id": pa.array([None], pa.string()), "v": [1]})
    with pytest.raises((SchemaError, KeyValueError)):
        t.merge(no_key, ["id"]).when_matched().delete().when_not_matched().insert().execute()
    assert t.to_arrow().to_pylist() == [{"id": "a", "v": 1}]


def test_an_empty_source_deletes_what_it_lacks_and_inserts_nothing():
    t = table_of()
    commit = t.merge(batch(), ["id", "dt"]).when_matched().delete().when_not_matched().insert()
    assert commit.execute().deleted == 0
    by_source = t.merge(batch(), ["id", "dt"]).when_not_matched_by_source("v > 1").delete()
    assert (by_source.execute().deleted, values(t)) == (2, {"a": 1})


def test_a_source_may_be_a_stream_of_the_same_table_with_meta_columns():
    t = table_of()
    stream = t.read(columns=["_hoodie_commit_time", *t.schema.names])
    commit = (
        t.merge(stream, ["id", "dt"]).when_matched("source.v > 1").update({"v": "source.v * 2"})
    )
    assert (commit.execute().updated, values(t)) == (2, {"a": 1, "b": 4, "c": 6})


def test_names_in_other_scripts_and_words_of_sql_are_columns():
    schema = pa.schema([("select", pa.string()), ("order", pa.int64())])
    t = lakebed.create_table(None, "memory://merge-unit/names", schema, key="select")
    t.insert(pa.table({"select": ["键", "🗝"], "order": [1, 2]}))
    more = pa.table({"select": ["🗝", "new"], "order": [5, 6]})
    t.merge(more, ["select"], source_alias="来源").when_matched().update(
        {"order": "target.`order` + `来源`.order"}
    ).when_not_matched().insert().execute()
    t.update({"order": "`order` + 1"}, where="`select` = '键'")
    assert sorted(t.to_arrow()["order"].to_pylist()) == [2, 6, 7]


def test_equality_may_be_of_expressions_and_need_not_be_of_keys():
    t = table_of()
    source = pa.table({"name": ["A", "Q"], "n": [10, 20]})
    commit = (
        t.merge(source, "upper(target.id) = source.name OR upper(dt) = name")
        .when_matched().update({"v": "n"}).when_not_matched_by_source().delete().execute()
    )  # fmt: skip
    assert (commit.updated, commit.deleted, values(t)) == (2, 1, {"a": 10, "c": 20})


@pytest.mark.parametrize("index", ["simple", "global_simple", "bucket"])
def test_every_index_merges_alike(index):
    t = table_of(index=index, buckets=2 if index == "bucket" else None)
    on = ["id"] if index == "global_simple" else ["id", "dt"]
    source = batch(("a", 10, 6, "p"), ("b", 0, 6, "p"), ("n", 5, 6, "r"))
    commit = (
        t.merge(source, on).when_matched("source.v = 0").delete()
        .when_matched().update({"v": "source.v"}).when_not_matched().insert("all").execute()
    )  # fmt: skip
    assert (commit.inserted, commit.updated, commit.deleted) == (1, 1, 1)
    assert values(t) == {"a": 10, "c": 3, "n": 5}
    check_files(t)


@BOTH_TYPES
def test_with_a_global_index_an_update_may_move_a_row_to_another_partition(table_type):
    t = table_of(index="global_simple", buckets=None, table_type=table_type)
    source = batch(("a", 10, 6, "q"), ("b", 0, 6, "z"), ("n", 5, 6, "r"))
    changes = t.merge(source, ["id"]).when_matched("source.v = 0").delete()
    commit = changes.when_matched().update("all").when_not_matched().insert("all").execute()
    assert (commit.inserted, commit.updated, commit.deleted) == (1, 1, 1)
    assert sorted(user_rows(t)) == [("q", "a"), ("q", "c"), ("r", "n")]
    t.merge(source, ["id"]).when_matched().update_all().when_not_matched().insert_all().execute()
    assert sorted(user_rows(t)) == [("q", "a"), ("q", "c"), ("r", "n"), ("z", "b")]
    with pytest.raises(InvalidError, match="has the key id='a'"):
        other = batch(("a", 1, 7, "p"))
        t.merge(other, ["id", "dt"]).when_not_matched().insert("all").execute()
    check_files(t)


def test_an_update_writes_only_the_column_groups_whose_columns_change():
    t = lakebed.create_table(
        None, "memory://merge-unit/groups", "id BIGINT, v STRING", key="id", table_version=10
    )
    t.add_column_group("risk", "score DOUBLE, at BIGINT", ordering="at")
    t.upsert(pa.table({"id": [1, 2], "v": ["a", "b"], "score": [0.5, 0.6], "at": [1, 1]}))
    commit = t.update({"score": "score * 2"}, where="id = 1")
    assert {stat.path.count("risk") for stat in commit.write_stats} == {1}
    t.merge(pa.table({"id": [1, 2]}), ["id"]).when_matched(
        "target.id = 2"
    ).delete().when_matched().update({"score": 9}).execute()
    assert t.to_arrow().to_pylist() == [{"id": 1, "v": "a", "score": 9.0, "at": 1}]


def table_of_three_groups(name: str) -> lakebed.Table:
    return lakebed.create_table(
        None,
        f"memory://merge-unit/{name}",
        "id BIGINT, ts BIGINT, name STRING, score DOUBLE, scored_at BIGINT, clicks BIGINT",
        key="id",
        ordering="ts",
        buckets=1,
        column_groups={"risk": "score;scored_at", "web": ["clicks"]},
    )


def test_an_update_wins_over_a_greater_ordering_value_that_only_its_column_group_stores():
    t = table_of_three_groups("copies")
    t.upsert(pa.table({"id": [1, 2], "ts": [5, 5], "name": ["a", "b"]}))
    t.upsert(pa.table({"id": [1], "ts": [9], "clicks": [7]}))
    t.update({"clicks": "coalesce(clicks, 0) + 1"})
    t.update({"name": "'n'", "clicks": "clicks + 1"}, where="id = 1")
    t.upsert(pa.table({"id": [1, 2], "ts": [8, 8], "clicks": [70, 80]}))  # late only for key 1
    found = t.to_arrow(["id", "ts", "name", "clicks"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [(1, 5, "n", 9), (2, 5, "b", 80)]


def test_a_merge_deletes_rows_that_some_column_groups_have_never_held():
    t = table_of_three_groups("deletes")
    t.upsert(pa.table({"id": [1, 2, 3], "ts": [5, 5, 5], "name": ["a", "b", "c"]}))
    t.upsert(pa.table({"id": [1, 4], "ts": [9, 9], "clicks": [7, 8]}))
    t.upsert(pa.table({"id": [5], "score": [0.5], "scored_at": [2]}))
    deleting = t.merge(pa.table({"id": [1, 4, 5]}), ["id"]).when_matched().delete()
    commit = deleting.when_not_matched_by_source("id = 2").update({"name": "'n'"}).execute()
    assert (commit.updated, commit.deleted) == (1, 3)
    assert sorted((row["id"], row["name"]) for row in t.to_arrow().to_pylist()) == [
        (2, "n"),
        (3, "c"),
    ]
    t.compact()
    assert t.count() == 2


def test_a_table_that_generates_its_keys_can_be_updated_and_merged():
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    keyless = {"key": (), "makes_keys": True, "partition_by": (), "index": "simple"}
    t = make(schema=schema, buckets=None, **keyless)
    t.insert(pa.table({"a": [1, 1, 2], "b": ["x", "x", "y"]}))
    assert t.update({"b": "'z'"}, where="a = 1").updated == 2
    source = pa.table({"a": [2, 3], "b": ["m", "n"]})
    t.merge(source, ["a"]).when_matched().update("all").when_not_matched().insert("all").execute()
    found = sorted(tuple(row.values()) for row in t.to_arrow().to_pylist())
    assert found == [(1, "z"), (1, "z"), (2, "m"), (3, "n")]
    assert t.merge(source, ["a"]).when_matched().delete().execute().deleted == 2
    assert t.delete(where="b = 'z'").deleted == 2
    assert t.count() == 0


def test_indexes_follow_a_merge():
    t = lakebed.create_table(None, "memory://merge-unit/indexed", "id BIGINT, c STRING", key="id")
    t.insert(pa.table({"id": [1, 2, 3], "c": ["x", "y", "z"]}))
    t.create_index("by_c", ["c"])
    t.merge(pa.table({"id": [1, 2]}), ["id"]).when_matched(
        "source.id = 1"
    ).delete().when_matched().update({"c": "'q'"}).execute()
    assert t.lookup([{"c": "q"}]).to_pylist() == [{"id": 2, "c": "q"}]
    assert t.lookup([{"c": "x"}, {"c": "y"}]).num_rows == 0
    assert t.verify().is_sound


class Meanwhile(FaultyStorage):
    """Lets another writer work, once, when the first data file of ours is about to appear."""

    def __init__(self, inner: Any, deed: Callable[[], None]) -> None:
        super().__init__(inner)
        self._deed: Callable[[], None] | None = deed

    def run(self, op: str, act: Any) -> Any:
        if op.startswith("close") and self._deed is not None:
            deed, self._deed = self._deed, None
            deed()
        return super().run(op, act)


def shared(properties: dict[str, str], *deeds: Any) -> tuple[Any, Any]:
    """Return the storage of a table, and a writer beside which another one upserts `deeds`."""
    storage = memory_storage()
    kind = {"table_type": "MERGE_ON_READ", "properties": properties, "buckets": 4}
    make(storage, ManualClock(step_ms=1), **kind).upsert(
        batch(("a", 1, 1, "p"), ("b", 2, 1, "p"), ("c", 3, 1, "q"))
    )
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).upsert(batch(*deeds))))
    return storage, slow


def test_an_upsert_between_the_read_and_the_commit_of_an_update_is_not_lost():
    storage, slow = shared(OPTIMISTIC, ("a", 50, 2, "p"))
    with pytest.raises(ConflictError, match="retry"):
        slow.update({"v": "v + 1"})
    assert values(reopen(storage))["a"] == 50
    check_no_leftovers(storage)
    storage, slow = shared({**OPTIMISTIC, **RETRIES}, ("a", 50, 2, "p"))
    assert slow.update({"v": "v + 1"}).updated == 3
    assert values(reopen(storage)) == {"a": 51, "b": 3, "c": 4}


def test_an_upsert_between_the_read_and_the_commit_of_a_merge_is_not_lost():
    def merge(t: Any) -> Any:
        changes = t.merge(batch(("a", 1, 3, "p"), ("n", 1, 3, "p")), ["id", "dt"])
        changes = changes.when_matched().update({"v": "target.v + source.v"})
        return changes.when_not_matched().insert("all").execute()

    for other in (("a", 50, 2, "p"), ("n", 50, 2, "p")):
        storage, slow = shared(OPTIMISTIC, other)
        with pytest.raises(ConflictError):
            merge(slow)
        assert values(reopen(storage))[other[0]] == 50
        storage, slow = shared({**OPTIMISTIC, **RETRIES}, other)
        merge(slow)
        assert values(reopen(storage))[other[0]] == 51
    # A writer of another file group is not in the way of a merge by key.
    storage, slow = shared(OPTIMISTIC, ("c", 50, 2, "q"))
    assert merge(slow).updated == 1
    assert values(reopen(storage)) == {"a": 2, "b": 2, "c": 50, "n": 1}


def test_a_merge_that_fails_half_way_leaves_nothing_behind():
    t = table_of()
    with pytest.raises(InvalidError, match="division by zero"):
        t.update({"v": "v % (v - 3)"})
    assert values(t) == {"a": 1, "b": 2, "c": 3}
    check_no_leftovers(t._storage)


def test_commit_metadata_is_kept_by_every_write_and_shown():
    t = table_of()
    given = {"streamer.checkpoint.key.v2": "kafka,0:5", "检查点": "✓"}
    rows = batch(("z", 1, 9, "p"))
    t.update({"v": "v"}, commit_metadata=given)
    t.delete([{"id": "zz", "dt": "p"}], commit_metadata=given)
    t.delete(where="id = 'zz'", commit_metadata=given)
    t.update_columns(rows, commit_metadata=given)
    t.insert_overwrite(rows, commit_metadata=given)
    t.merge(rows, ["id", "dt"]).when_matched().delete().execute(commit_metadata=given)
    shown = t.history().slice(0, 6)["commit_metadata"].to_pylist()
    assert [dict(held) for held in shown] == [given] * 6
    with pytest.raises(InvalidError, match="'schema' is reserved"):
        t.update({"v": "v"}, commit_metadata={"schema": "x"})


def test_expressions_only_spark_evaluates_are_refused_by_name():
    t = table_of()
    with pytest.raises(UnsupportedError, match="the function current_date"):
        t.update({"v": "year(current_date())"})
