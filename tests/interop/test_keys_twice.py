"""Tables in which Hudi's `insert` left a key twice in a base file: no row gets lost."""

import pathlib
import shutil

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi
from interop.rows import user_rows

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"


def table_of(*rows: tuple[str, int, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in rows], SCHEMA)


def options(table_type: str, operation: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.keygenerator.class": (
            "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
        ),
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": operation,
        "hoodie.insert.shuffle.parallelism": "1",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.metadata.enable": "false",
    }


def rows(found: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in user_rows(found, SCHEMA.names)]


def ours(path: pathlib.Path) -> list[tuple[object, ...]]:
    return rows(lakebed.open_table(None, str(path)).read().read_all())


@pytest.mark.parametrize("table_type", [COW, MOR])
def test_rows_of_a_key_that_comes_twice_stay(hudi: Hudi, tmp_path: pathlib.Path, table_type: str):
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    first = table_of(("x", 1, 1), ("z", 1, 1), ("x", 2, 2), ("y", 1, 1))
    hudi.write(theirs, first, options(table_type, "insert"), mode="overwrite")
    assert rows(hudi.read(theirs)) == ours(theirs) == rows(first)
    shutil.copytree(theirs, mine)
    update = table_of(("y", 9, 9))
    hudi.write(theirs, update, options(table_type, "upsert"))
    lakebed.open_table(None, str(mine)).upsert(update)
    wanted = [("x", 1, 1), ("x", 2, 2), ("y", 9, 9), ("z", 1, 1)]
    for path in (theirs, mine):
        assert rows(hudi.read(path)) == ours(path) == wanted

    both = table_of(("x", 9, 9))
    hudi.write(theirs, both, options(table_type, "upsert"))
    lakebed.open_table(None, str(mine)).upsert(both)
    wanted = [("x", 9, 9), ("x", 9, 9), ("y", 9, 9), ("z", 1, 1)]
    first_only = [("x", 2, 2), *wanted[1:]]
    assert ours(mine) == wanted
    if table_type == MOR:
        # Its own log has two rows of the key, each with the position of one in the base file;
        # where there are no positions it takes the first row of the base file only.
        assert rows(hudi.read(theirs)) == ours(theirs) == wanted
        assert rows(hudi.read(mine)) == first_only
        lakebed.open_table(None, str(mine)).compact()
    else:
        # Hudi's writer updates one of the two.
        assert rows(hudi.read(theirs)) == ours(theirs) == first_only
    assert rows(hudi.read(mine)) == ours(mine) == wanted
