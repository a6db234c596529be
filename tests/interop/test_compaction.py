"""Compaction between Lakebed, Apache Hudi and hudi-rs: plans of one, carried out by the other."""

import pathlib
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, HudiRs
from interop.rows import user_rows
from lakebed.api.table import Table
from lakebed.model.options.services import CompactionOptions
from lakebed.services.compaction.execute import execute_compaction, pending_compactions
from lakebed.services.compaction.plan_file import Kind
from lakebed.services.compaction.schedule import schedule_compaction
from lakebed.table.snapshot import load_snapshot

SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("v", pa.int64())]
)
JOIN = CompactionOptions(blocks_threshold=2, log_ratio=1000.0)


def rows(*told: tuple[str, int]) -> pa.Table:
    """Return a row for each key and ordering value."""
    made = [{"id": key, "region": "eu", "ts": ts, "v": ts * 10} for key, ts in told]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def keys(*names: str) -> list[dict[str, str]]:
    return [{"id": name, "region": "eu"} for name in names]


def history(path: pathlib.Path) -> Table:
    """Make a table with updates, late rows, deletes, and a key that came back after its delete."""
    table = lakebed.create_table(
        None,
        path,
        SCHEMA,
        key=["id"],
        ordering="ts",
        partition_by=["region"],
        name="compacted",
        buckets=2,
    )
    table.upsert(rows(*((f"k{n}", 10) for n in range(12))))
    table.upsert(rows(("k1", 11), ("k2", 9), ("n1", 5), ("n2", 5)))
    table.delete(keys("k3", "k4", "n1"))
    table.upsert(rows(("k5", 12), ("n1", 3), ("k1", 12)))
    table.delete(keys("k6", "n2"))
    return table


def seen_by_all(path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs) -> list[dict[str, Any]]:
    """Read the table with every engine; all must see the same."""
    ours = user_rows(lakebed.open_table(None, path).read().read_all(), ["id"])
    assert user_rows(hudi.read(path), ["id"]) == ours
    assert user_rows(hudi_rs.read(path), ["id"]) == ours
    return ours


def run(hudi: Hudi, path: pathlib.Path, instant: str) -> None:
    hudi.sql(f"CALL run_compaction(op => 'run', path => '{path}', timestamp => {instant})")


@pytest.mark.parametrize("mode", ["full", "log", "hybrid"])
def test_what_we_compact_all_engines_read(
    mode: str, tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs
):
    table = history(tmp_path)
    before = seen_by_all(tmp_path, hudi, hudi_rs)
    planned = schedule_compaction(table._target(), JOIN, mode, force=True)
    assert planned is not None
    assert seen_by_all(tmp_path, hudi, hudi_rs) == before, "while it is planned"
    execute_compaction(table._target(), planned.instant)
    assert seen_by_all(tmp_path, hudi, hudi_rs) == before
    # Where a late row follows a delete by key, Hudi shows another row until we compact.
    table.upsert(rows(("k5", 13), ("k3", 12), ("n9", 1)))
    table.delete(keys("k7"))
    after = seen_by_all(tmp_path, hudi, hudi_rs)
    again = schedule_compaction(table._target(), JOIN, mode, force=True)
    assert again is not None
    execute_compaction(table._target(), again.instant)
    assert seen_by_all(tmp_path, hudi, hudi_rs) == after


@pytest.mark.parametrize("mode", ["full", "hybrid"])
def test_hudi_carries_out_our_plans_and_loses_no_row(
    mode: str, tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs
):
    table = history(tmp_path)
    before = seen_by_all(tmp_path, hudi, hudi_rs)
    planned = schedule_compaction(table._target(), JOIN, mode, force=True)
    assert planned is not None
    assert {o.kind for o in planned.plan.operations} == {Kind.FULL if mode == "full" else Kind.LOG}
    run(hudi, tmp_path, planned.instant.requested)
    again = lakebed.open_table(None, tmp_path)
    snapshot = load_snapshot(again._storage, again.config)
    assert pending_compactions(snapshot) == ()
    assert not any(slice_.log_files for slice_ in snapshot.slices)
    assert seen_by_all(tmp_path, hudi, hudi_rs) == before


def test_we_carry_out_a_plan_of_hudis(tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs):
    table = history(tmp_path)
    before = seen_by_all(tmp_path, hudi, hudi_rs)
    hudi.sql(f"CALL run_compaction(op => 'schedule', path => '{tmp_path}')")
    table = lakebed.open_table(None, tmp_path)
    [pending] = pending_compactions(load_snapshot(table._storage, table.config))
    done = execute_compaction(table._target(), pending)
    assert done.full >= 1
    assert seen_by_all(tmp_path, hudi, hudi_rs) == before


def test_an_empty_base_file_is_read_by_all(tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs):
    table = history(tmp_path)
    left = [row["id"] for row in seen_by_all(tmp_path, hudi, hudi_rs)]
    table.delete(keys(*left))
    planned = schedule_compaction(table._target(), None, "full", force=True)
    assert planned is not None
    assert execute_compaction(table._target(), planned.instant).rows == 0
    assert seen_by_all(tmp_path, hudi, hudi_rs) == []
    table.upsert(rows(("k1", 1)))
    assert [row["id"] for row in seen_by_all(tmp_path, hudi, hudi_rs)] == ["k1"]
