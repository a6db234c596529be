"""Clustering between Lakebed, Apache Hudi and hudi-rs: what one rewrote, the others read and write."""

import pathlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, HudiRs
from interop.rows import user_rows
from lakebed.format.names.instant_name import Action
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.services.clustering.execute import cluster
from lakebed.timeline.active import load_timeline

SCHEMA = pa.schema(
    [("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("dt", pa.string())]
)
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
OPTIONS = {
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.type": "SIMPLE",
    "hoodie.logfile.data.block.format": "parquet",
    "hoodie.metadata.enable": "false",
    "hoodie.simple.index.parallelism": "2",
    "hoodie.upsert.shuffle.parallelism": "2",
}


def rows(*told: tuple[str, int, str]) -> pa.Table:
    """Return a row for each key, ordering value and partition."""
    made = [{"id": key, "v": ts * 10, "ts": ts, "dt": dt} for key, ts, dt in told]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def history(path: pathlib.Path, table_type: str) -> lakebed.Table:
    """Make two partitions of small file groups, with updates, deletes and a late row on top."""
    table = lakebed.create_table(
        None,
        str(path),
        SCHEMA,
        key="id",
        ordering="ts",
        partition_by="dt",
        name="clustered",
        table_type=table_type,
        index="simple",
        properties={"hoodie.parquet.small.file.limit": "0"},
    )
    for part in range(3):
        keys = [f"k{n}" for n in range(part, 12, 3)]
        table.bulk_insert(rows(*((k, 5, "p") for k in keys), *((k, 5, "q r") for k in keys)))
    table.upsert(rows(("k1", 6, "p"), ("k2", 1, "p"), ("k3", 6, "q r")))
    table.delete([{"id": "k4", "dt": "p"}])
    return table


def seen_by_all(path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs) -> list[dict[str, Any]]:
    """Read the table with every engine; all must see the same."""
    ours = user_rows(lakebed.open_table(None, str(path)).read().read_all(), ["id", "dt"])
    assert user_rows(hudi.read(path), ["id", "dt"]) == ours
    assert user_rows(hudi_rs.read(path), ["id", "dt"]) == ours
    return ours


def write(hudi: Hudi, path: pathlib.Path, table_type: str, given: pa.Table) -> None:
    told = {"hoodie.table.name": "clustered", "hoodie.datasource.write.table.type": table_type}
    hudi.write(path, given, {**OPTIONS, **told})


@TYPES
def test_what_we_cluster_all_engines_read_and_hudi_writes_on(
    table_type: str, tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs
):
    path = tmp_path / "t"
    table = history(path, table_type)
    before = seen_by_all(path, hudi, hudi_rs)
    done = table.cluster()
    assert done is not None
    assert (done.replaced, done.written) == (6, 2)
    assert seen_by_all(path, hudi, hudi_rs) == before
    write(hudi, path, table_type, rows(("k1", 9, "p"), ("new", 9, "p"), ("k3", 2, "q r")))
    after = {(row["id"], row["dt"]): row["ts"] for row in seen_by_all(path, hudi, hudi_rs)}
    told = {(row["id"], row["dt"]): row["ts"] for row in before}
    assert after == {**told, ("k1", "p"): 9, ("new", "p"): 9}
    lakebed.open_table(None, str(path)).upsert(rows(("k1", 10, "p"), ("newer", 1, "q r")))
    seen_by_all(path, hudi, hudi_rs)


class Meanwhile(LocalExecutor):
    """Lets something happen while a clustering is under way."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(1)
        self._act = act

    def run(
        self, task: Callable[[Any, TaskId], Any], items: Sequence[Any], label: str
    ) -> Iterator[Any]:
        self._act()
        return super().run(task, items, label)


def test_while_we_cluster_hudi_reads_and_lists_the_plan(
    tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs
):
    path = tmp_path / "t"
    table = history(path, "MERGE_ON_READ")
    before = seen_by_all(path, hudi, hudi_rs)
    seen: list[Any] = []

    def look() -> None:
        assert seen_by_all(path, hudi, hudi_rs) == before
        seen.append(hudi.sql(f"CALL show_clustering(path => '{path}')"))

    done = cluster(replace(table._target(), executor=Meanwhile(look)))
    assert done is not None
    assert done.instant in str(seen[0])
    assert seen_by_all(path, hudi, hudi_rs) == before


@TYPES
def test_after_hudi_clustered_ours_we_read_write_and_cluster_on(
    table_type: str, tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs
):
    path = tmp_path / "t"
    history(path, table_type)
    before = seen_by_all(path, hudi, hudi_rs)
    hudi.sql(
        f"CALL run_clustering(path => '{path}', order => 'v', "
        "options => 'hoodie.metadata.enable=false')"
    )
    table = lakebed.open_table(None, str(path))
    last = load_timeline(table._storage).commits[-1]
    assert last.plan_action is Action.CLUSTERING
    assert seen_by_all(path, hudi, hudi_rs) == before
    table.upsert(rows(("k1", 9, "p"), ("new", 9, "p")))
    after = {(row["id"], row["dt"]): row["ts"] for row in seen_by_all(path, hudi, hudi_rs)}
    told = {(row["id"], row["dt"]): row["ts"] for row in before}
    assert after == {**told, ("k1", "p"): 9, ("new", "p"): 9}
    # Hudi's files are not in key order.
    assert table.cluster() is not None
    now = {(row["id"], row["dt"]): row["ts"] for row in seen_by_all(path, hudi, hudi_rs)}
    assert now == after
