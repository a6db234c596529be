"""What Lakebed rolls back, saves, restores and moves between versions, Apache Hudi takes; and back."""

import pathlib
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, HudiRs
from interop.rows import user_rows
from lakebed.commit.hold import hold_table
from lakebed.format.names.instant_name import Action
from lakebed.model.clock import SystemClock
from lakebed.services.compaction.execute import execute_compaction
from lakebed.services.compaction.schedule import schedule_compaction
from lakebed.services.restore.execute import restore
from lakebed.services.rollback.execute import rollback
from lakebed.services.rollback.plan import RollbackPlan
from lakebed.services.rollback.undo import address
from lakebed.services.savepoint.execute import savepoint, savepoints
from lakebed.services.upgrade.execute import downgrade, upgrade
from lakebed.table.snapshot import load_snapshot
from lakebed.timeline.active import load_timeline

SCHEMA = pa.schema(
    [("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("dt", pa.string())]
)
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


def rows_of(*rows: tuple[str, int, int, str]) -> pa.Table:
    """Return rows of SCHEMA."""
    named = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, schema=SCHEMA)


FIRST = rows_of(*((f"k{i}", i, 1, f"p{i % 2}") for i in range(8)))
SECOND = rows_of(("k1", 100, 2, "p1"), ("new", 7, 2, "p0"), ("far", 8, 2, "p2"))
THIRD = rows_of(("k2", 200, 3, "p0"), ("k1", 300, 3, "p1"))


def made(path: pathlib.Path, table_type: str, **changes: Any) -> lakebed.Table:
    """Make a table of ours with one commit."""
    hashed = {} if "index" in changes else {"buckets": 2}
    arguments = {"layout": "lsm_tree", **hashed, **changes}
    table = lakebed.create_table(
        None,
        str(path),
        SCHEMA,
        key="id",
        ordering="ts",
        partition_by="dt",
        table_type=table_type,
        **arguments,
    )
    table.bulk_insert(FIRST)
    return table


def ours(path: pathlib.Path) -> list[dict[str, Any]]:
    """Read as we do, in a table that was just opened."""
    return user_rows(lakebed.open_table(None, str(path)).read().read_all(), ["id", "dt"])


def hudis(hudi: Hudi | HudiRs, path: pathlib.Path) -> list[dict[str, Any]]:
    """Read as another engine does."""
    return user_rows(hudi.read(path), ["id", "dt"])


def target(path: pathlib.Path) -> Any:
    return lakebed.open_table(None, str(path))._target()


def named(hudi: Hudi, path: pathlib.Path) -> str:
    """Return the table a name in Hudi's catalog, which its procedures ask for."""
    name = f"t_{abs(hash(str(path)))}"
    hudi.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{path}'")
    return name


@TYPES
def test_others_read_our_table_after_a_rollback_and_the_write_after_it(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, table_type: str
):
    path = tmp_path / "t"
    table = made(path, table_type)
    expected = ours(path)
    commit = table.upsert(SECOND)
    assert hudis(hudi, path) == ours(path) != expected
    rollback(target(path), commit.instant)
    assert hudis(hudi, path) == hudis(hudi_rs, path) == ours(path) == expected
    table.upsert(THIRD)
    assert hudis(hudi, path) == hudis(hudi_rs, path) == ours(path) != expected


def test_hudi_reads_what_comes_back_after_our_rollback_of_an_overwrite_and_a_compaction(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
):
    path = tmp_path / "t"
    table = made(path, "MERGE_ON_READ")
    table.upsert(SECOND)
    expected = ours(path)
    rollback(target(path), table.insert_overwrite(THIRD).instant)
    assert hudis(hudi, path) == hudis(hudi_rs, path) == ours(path) == expected
    planned = schedule_compaction(target(path), force=True)
    assert planned is not None
    execute_compaction(target(path), planned.instant)
    rollback(target(path), planned.instant.requested)
    assert hudis(hudi, path) == hudis(hudi_rs, path) == ours(path) == expected


@TYPES
def test_hudi_reads_our_restore_and_lists_our_savepoint(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, table_type: str
):
    path = tmp_path / "t"
    table = made(path, table_type)
    table.upsert(SECOND)
    expected = ours(path)
    kept = savepoint(target(path), user="me", comment="why")
    table.upsert(THIRD)
    table.insert_overwrite(THIRD)
    listed = hudi.sql(f"CALL show_savepoints(table => '{named(hudi, path)}')")
    assert [row[0] for row in listed["rows"]] == [kept.instant]
    restore(target(path), kept.instant)
    assert hudis(hudi, path) == hudis(hudi_rs, path) == ours(path) == expected
    table.upsert(THIRD)
    assert hudis(hudi, path) == hudis(hudi_rs, path) == ours(path) != expected


@TYPES
def test_hudi_restores_our_savepoint(hudi: Hudi, tmp_path: pathlib.Path, table_type: str):
    path = tmp_path / "t"
    table = made(path, table_type)
    table.upsert(SECOND)
    expected = ours(path)
    kept = savepoint(target(path))
    table.upsert(THIRD)
    hudi.sql(
        f"CALL rollback_to_savepoint(table => '{named(hudi, path)}', "
        f"instant_time => '{kept.instant}')"
    )
    assert hudis(hudi, path) == ours(path) == expected


@TYPES
def test_we_restore_a_savepoint_of_hudi(hudi: Hudi, tmp_path: pathlib.Path, table_type: str):
    path = tmp_path / "t"
    table = made(path, table_type)
    commit = table.upsert(SECOND)
    expected = ours(path)
    hudi.sql(
        f"CALL create_savepoint(table => '{named(hudi, path)}', commit_time => '{commit.instant}')"
    )
    table = lakebed.open_table(None, str(path))
    (found,) = savepoints(load_snapshot(table._storage, table.config))
    read = {row["path"] for row in table.files().to_pylist()}
    assert (found.instant, set(found.paths)) == (commit.instant, read)
    table.upsert(THIRD)
    restore(target(path), commit.instant)
    assert hudis(hudi, path) == ours(path) == expected


@TYPES
def test_hudi_rolls_back_our_commit(hudi: Hudi, tmp_path: pathlib.Path, table_type: str):
    path = tmp_path / "t"
    table = made(path, table_type)
    expected = ours(path)
    commit = table.upsert(SECOND)
    hudi.sql(
        f"CALL rollback_to_instant(table => '{named(hudi, path)}', "
        f"instant_time => '{commit.instant}')"
    )
    assert hudis(hudi, path) == ours(path) == expected


def test_hudi_finishes_a_rollback_that_we_began(hudi: Hudi, tmp_path: pathlib.Path):
    path = tmp_path / "t"
    table = made(path, "COPY_ON_WRITE", index="simple")
    expected = ours(path)
    commit = table.upsert(SECOND)
    storage = table._storage
    paths = tuple(str(stat.path) for stat in commit.write_stats)
    plan = RollbackPlan(commit.instant, commit.action, paths)
    with hold_table(storage, SystemClock()) as hold:
        data = plan.encode(lambda name: address(storage, name))
        own = hold.start(hold.request(Action.ROLLBACK, data)).requested
    storage.delete(f".hoodie/timeline/{commit.instant}_{commit.completion_time}.commit")
    assert hudis(hudi, path) == ours(path) == expected
    hudi.write(
        path,
        THIRD,
        {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "dt",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.index.type": "SIMPLE",
            "hoodie.metadata.enable": "false",
        },
    )
    timeline = load_timeline(storage)
    assert [i.requested for i in timeline.select(Action.ROLLBACK) if i.is_completed] == [own]
    assert not timeline.pending()
    there = {entry.path for entry in storage.list()}
    assert not there & set(paths)
    assert hudis(hudi, path) == ours(path) != expected


@TYPES
@pytest.mark.parametrize("layout", ["default", "lsm_tree"])
def test_a_table_that_was_moved_to_version_9_is_read_by_others(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, table_type: str, layout: str
):
    path = tmp_path / "t"
    table = made(path, table_type, table_version=10, layout=layout)
    table.upsert(SECOND)
    table.delete(where="id = 'k3'")
    expected = ours(path)
    downgrade(target(path), 9)
    assert hudis(hudi, path) == hudis(hudi_rs, path) == ours(path) == expected
    lakebed.open_table(None, str(path)).upsert(THIRD)
    assert hudis(hudi, path) == hudis(hudi_rs, path) == ours(path) != expected


@TYPES
def test_a_table_that_was_moved_from_version_8_is_read_by_others(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, table_type: str
):
    path = tmp_path / "t"
    made(path, table_type, table_version=8).upsert(SECOND)
    expected = ours(path)
    upgrade(target(path), 9)
    lakebed.open_table(None, str(path)).upsert(THIRD)
    assert hudis(hudi, path) == hudis(hudi_rs, path) == ours(path) != expected
    assert hudi.properties(path)["hoodie.table.version"] == "9"
