"""Apache Hudi and Lakebed write the same tables in turns, both by the simple index."""

import pathlib
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi
from interop.rows import user_rows

SCHEMA = pa.schema(
    [("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("dt", pa.string())]
)
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
INDEXES = pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "BLOOM", "GLOBAL_BLOOM"])


def rows_of(*rows: tuple[str, int, int, str]) -> pa.Table:
    """Return rows of SCHEMA."""
    named = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, schema=SCHEMA)


def hudi_options(path: pathlib.Path, index: str, table_type: str, **more: str) -> dict[str, str]:
    """Return the options of a Hudi writer that looks keys up in base files."""
    return {
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": index,
        "hoodie.logfile.data.block.format": "parquet",
        "hoodie.metadata.enable": "false",
        "hoodie.simple.index.parallelism": "2",
        "hoodie.global.simple.index.parallelism": "2",
        "hoodie.upsert.shuffle.parallelism": "2",
        **more,
    }


def found(table: pa.Table | Any) -> list[dict[str, Any]]:
    """Return every row, so that a key that comes twice shows."""
    read = table.read_all() if isinstance(table, pa.RecordBatchReader) else table
    return user_rows(read, ["id", "dt"])


def brief(table: lakebed.Table) -> list[tuple[str, int, str]]:
    """Return key, value and partition of every row."""
    return [(row["id"], row["v"], row["dt"]) for row in found(table.read())]


def create(path: pathlib.Path, table_type: str, index: str) -> lakebed.Table:
    """Create a table of SCHEMA with this index."""
    return lakebed.create_table(
        None,
        str(path),
        SCHEMA,
        key="id",
        ordering="ts",
        partition_by="dt",
        table_type=table_type,
        index=index.lower(),
    )


@TYPES
def test_an_insert_drops_marked_rows_as_hudis_does(
    hudi: Hudi, tmp_path: pathlib.Path, table_type: str
):
    first = rows_of(("a", 1, 1, "p"), ("b", 1, 1, "p"))
    second = rows_of(("a", 2, 2, "p"), ("c", 2, 2, "p"), ("d", 2, 2, "p"))
    marks = pa.array([True, True, False])
    table = create(tmp_path / "ours", table_type, "SIMPLE")
    table.upsert(first)
    table.insert(second.append_column("_hoodie_is_deleted", marks))
    twin = tmp_path / "twin"
    unmarked = first.append_column("_hoodie_is_deleted", pa.array([False, False]))
    hudi.write(twin, unmarked, hudi_options(twin, "SIMPLE", table_type))
    inserts = {"hoodie.datasource.write.operation": "insert"}
    marked = second.append_column("_hoodie_is_deleted", marks)
    hudi.write(twin, marked, hudi_options(twin, "SIMPLE", table_type, **inserts))
    want = [("a", 1, "p"), ("b", 1, "p"), ("d", 2, "p")]
    assert [(row["id"], row["v"], row["dt"]) for row in found(hudi.read(twin))] == want
    assert brief(table) == want


@INDEXES
@TYPES
def test_hudi_and_lakebed_upsert_our_table_in_turns(
    hudi: Hudi, tmp_path: pathlib.Path, table_type: str, index: str
):
    path = tmp_path / "t"
    table = create(path, table_type, index)
    table.upsert(rows_of(*((f"k{n}", 0, 1, "pq"[n % 2]) for n in range(10))))
    table.upsert(rows_of(("k0", 1, 2, "p"), ("k1", 1, 2, "q"), ("new", 1, 2, "p")))
    table.delete([{"id": "k2", "dt": "p"}])
    assert found(hudi.read(path)) == found(table.read())
    # What we put into logs and base files, Hudi's own index has to find.
    came = rows_of(("k0", 2, 3, "p"), ("new", 2, 3, "p"), ("k3", 2, 3, "q"), ("hudi", 2, 3, "q"))
    hudi.write(path, came, hudi_options(path, index, table_type))
    after = {row["id"]: (row["v"], row["dt"]) for row in found(table.read())}
    assert len(after) == len(found(table.read())) == 11
    assert [after[key] for key in ("k0", "new", "k3", "hudi")] == [
        (2, "p"),
        (2, "p"),
        (2, "q"),
        (2, "q"),
    ]
    # And what Hudi wrote, ours.
    table.upsert(rows_of(("hudi", 3, 4, "q"), ("k0", 3, 4, "p"), ("k3", 3, 0, "q")))
    assert found(hudi.read(path)) == found(table.read())
    after = {row["id"]: row["v"] for row in found(table.read())}
    assert (after["hudi"], after["k0"], after["k3"], len(found(table.read()))) == (3, 3, 2, 11)


@TYPES
def test_a_row_moves_between_partitions_for_both(
    hudi: Hudi, tmp_path: pathlib.Path, table_type: str
):
    path = tmp_path / "t"
    table = create(path, table_type, "GLOBAL_SIMPLE")
    options = hudi_options(path, "GLOBAL_SIMPLE", table_type)
    hudi.write(path, rows_of(*((k, 0, 1, "p") for k in "abcd")), options)
    table.upsert(rows_of(("a", 1, 2, "q"), ("b", 1, 0, "q")))
    assert brief(table) == [("a", 1, "q"), ("b", 0, "p"), ("c", 0, "p"), ("d", 0, "p")]
    assert found(hudi.read(path)) == found(table.read())
    hudi.write(path, rows_of(("a", 2, 3, "p"), ("c", 2, 3, "q")), options)
    table.upsert(rows_of(("a", 3, 4, "p"), ("c", 3, 1, "p"), ("c", 4, 5, "q")))
    assert brief(table) == [("a", 3, "p"), ("b", 0, "p"), ("c", 4, "q"), ("d", 0, "p")]
    assert found(hudi.read(path)) == found(table.read())


@TYPES
def test_we_go_on_with_a_table_that_hudi_made(hudi: Hudi, tmp_path: pathlib.Path, table_type: str):
    path = tmp_path / "t"
    options = hudi_options(path, "SIMPLE", table_type)
    hudi.write(path, rows_of(*((k, 0, 1, "p") for k in "ab")), options, mode="overwrite")
    hudi.write(path, rows_of(("a", 1, 2, "p")), options)
    table = lakebed.open_table(None, str(path))
    table.upsert(rows_of(("a", 2, 3, "p"), ("b", 2, 0, "p"), ("c", 2, 1, "p")), index="simple")
    assert brief(table) == [("a", 2, "p"), ("b", 0, "p"), ("c", 2, "p")]
    assert found(hudi.read(path)) == found(table.read())


@TYPES
def test_hudi_writes_between_our_writes_to_a_table_with_a_record_index(
    hudi: Hudi, tmp_path: pathlib.Path, table_type: str
):
    """Hudi's record index is in its metadata table; without one it looks into base files."""
    path = tmp_path / "t"
    table = create(path, table_type, "global_record")
    table.upsert(rows_of(*((f"k{n}", 0, 1, "pq"[n % 2]) for n in range(6))))
    table.upsert(rows_of(("k0", 1, 2, "p"), ("new", 1, 2, "p")))
    assert found(hudi.read(path)) == found(table.read())
    came = rows_of(("k0", 2, 3, "p"), ("k3", 2, 3, "q"), ("hudi", 2, 3, "q"))
    hudi.write(path, came, hudi_options(path, "RECORD_INDEX", table_type))
    table.upsert(rows_of(("hudi", 3, 4, "q"), ("k0", 3, 4, "p"), ("k1", 3, 4, "p")))
    after = {row["id"]: (row["v"], row["dt"]) for row in found(table.read())}
    assert len(after) == len(found(table.read())) == 8
    assert [after[key] for key in ("hudi", "k0", "k1", "k3")] == [
        (3, "q"),
        (3, "p"),
        (3, "p"),
        (2, "q"),
    ]
    assert found(hudi.read(path)) == found(table.read())
