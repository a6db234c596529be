"""Base files of another writer: in any order, with a key that comes twice.

Hudi's `insert` makes them. What Hudi 1.2.0 answered: every row of a base file is shown, with logs on
top too, and its writers keep them. An update of the key in a log of its own changes each of them;
its writer of copy-on-write tables changes the first row only, where we change all.
"""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.api.table import Table
from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.logs.cdc import ENABLED
from support.machine_services import BY_HAND
from support.tables import SCHEMA, batch, make, reopen

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
META = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key"]
META += ["_hoodie_partition_path", "_hoodie_file_name"]


def foreign(table_type: str, **changes: Any) -> Table:
    """Make a table whose base file holds c, a, b and a, in this order, and is not marked as sorted."""
    arguments = {"ordering": ("ts",), "buckets": 1, "properties": BY_HAND, **changes}
    table = make(table_type=table_type, **arguments)
    table.bulk_insert(batch(*((key, 1, 1, "p") for key in "abc")))
    [file] = table.files().to_pylist()
    rows = table.read([*META, *SCHEMA.names]).read_all()
    doubled = rows.take([2, 0, 1, 0])
    at = SCHEMA.get_field_index("v") + len(META)
    doubled = doubled.set_column(at, doubled.schema.field(at), pa.array([1, 1, 1, 2], pa.int64()))
    sink = pa.BufferOutputStream()
    # Longer than the one that it replaces: a file that shrank is refused.
    padded = doubled.replace_schema_metadata({"so that it is": "long enough" * 500})
    pq.write_table(padded, sink)
    table._storage.put(file["path"], sink.getvalue().to_pybytes())
    return reopen(table._storage)


def shown(table: Table, **arguments: Any) -> list[tuple[str, int]]:
    rows = reopen(table._storage).read(["id", "v"], **arguments).read_all().to_pylist()
    return sorted((row["id"], row["v"]) for row in rows)


@pytest.mark.parametrize("ordering", [("ts",), ()])
@pytest.mark.parametrize("table_type", [COW, MOR])
def test_rows_of_a_key_stay_while_others_are_written(table_type: str, ordering: tuple[str, ...]):
    table = foreign(table_type, ordering=ordering)
    assert shown(table) == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
    table.upsert(batch(("b", 5, 5, "p"), ("d", 5, 5, "p")))
    wanted = [("a", 1), ("a", 2), ("b", 5), ("c", 1), ("d", 5)]
    assert shown(table) == wanted
    table.delete([{"id": "c", "dt": "p"}])
    wanted.remove(("c", 1))
    assert shown(table) == wanted
    assert shown(table, where="id = 'a'") == [("a", 1), ("a", 2)]
    assert [row["v"] for row in table.lookup([{"id": "a", "dt": "p"}]).to_pylist()] == [1, 2]
    if table_type == MOR:
        table.compact()
        assert shown(table) == wanted


@pytest.mark.parametrize("table_type", [COW, MOR])
def test_an_update_and_a_delete_reach_every_row_of_a_key(table_type: str):
    table = foreign(table_type)
    table.upsert(batch(("a", 5, 5, "p")))
    assert shown(table) == [("a", 5), ("a", 5), ("b", 1), ("c", 1)]
    table.upsert(batch(("a", 0, 0, "p")))  # late
    assert shown(table) == [("a", 5), ("a", 5), ("b", 1), ("c", 1)]
    table.delete([{"id": "a", "dt": "p"}])
    assert shown(table) == [("b", 1), ("c", 1)]


@pytest.mark.parametrize("ordering", [("ts",), ()])
@pytest.mark.parametrize("table_type", [COW, MOR])
def test_columns_are_changed_in_every_row_of_a_key(table_type: str, ordering: tuple[str, ...]):
    table = foreign(table_type, ordering=ordering)
    two = {"dt": ["p", "p"], "ts": [7, 7], "v": [7, 7]}
    table.update_columns(pa.table({"id": ["b", "c"], **two}))
    assert shown(table) == [("a", 1), ("a", 2), ("b", 7), ("c", 7)]
    table.update_columns(pa.table({"id": ["a", "b"], **two}))
    assert shown(table) == [("a", 7), ("a", 7), ("b", 7), ("c", 7)]


@pytest.mark.parametrize("table_type", [COW, MOR])
def test_what_such_rows_became_is_refused(table_type: str):
    table = foreign(table_type)
    one = max(table.history()["completion_time"].to_pylist())
    table.upsert(batch(("a", 5, 5, "p")))
    with pytest.raises(UnsupportedError, match="key 'a' occurs more than once"):
        table.read(mode="cdc", since=one).read_all()


def test_a_write_that_logs_such_changes_is_refused_and_leaves_the_rows():
    table = foreign(COW, properties={**BY_HAND, ENABLED: "true"})
    before = shown(table)
    with pytest.raises(UnsupportedError, match="key 'a' occurs more than once"):
        table.upsert(batch(("b", 5, 5, "p")))
    assert shown(table) == before


def test_clustering_refuses_a_key_that_a_base_file_below_logs_holds_twice():
    table = foreign(MOR, index="simple")
    table.upsert(batch(("b", 5, 5, "p")))
    with pytest.raises(CorruptError, match="record key 'a' is twice in"):
        table.cluster()
    assert shown(table) == [("a", 1), ("a", 2), ("b", 5), ("c", 1)]
