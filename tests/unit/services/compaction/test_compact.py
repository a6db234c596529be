"""Compaction of whole tables: what it writes, what it leaves, who may run it."""

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.api.table import Table
from lakebed.errors import (
    ConflictError,
    InvalidError,
    UnavailableError,
    UnsupportedError,
)
from lakebed.format.logs.log_block import HeaderKey
from lakebed.format.logs.native_footer import parse_log_footer
from lakebed.format.names.instant_name import Action
from lakebed.format.names.meta_columns import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, RECORD_KEY
from lakebed.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakebed.merge.run import FLAGS
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.model.options.services import CompactionOptions
from lakebed.services.compaction.execute import (
    Compaction,
    execute_compaction,
    pending_compactions,
)
from lakebed.services.compaction.plan import full_operation
from lakebed.services.compaction.plan_file import CompactionPlan, Kind
from lakebed.services.compaction.schedule import Scheduled, schedule_compaction
from lakebed.storage.storage import Storage
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.timeline.active import ActiveTimeline
from lakebed.write.log_runs import write_log
from lakebed.write.pipeline import Source, execute_write
from lakebed.write.spec.operation import UPDATE_COLUMNS
from lakebed.write.spec.status import WriteStatus
from lakebed.write.spec.write_spec import WriteSpec
from support.faulty import FaultyStorage
from support.fixtures import expected_rows, files
from support.log_blocks import iter_blocks
from support.tables import (
    batch,
    check_files,
    check_no_leftovers,
    copy_of,
    make,
    reopen,
    rows_of,
    user_rows,
)

JOIN = CompactionOptions(blocks_threshold=2, log_ratio=1000.0)


def table_of(version: int = 9, **changes: Any) -> Table:
    told = {"table_type": "MERGE_ON_READ", "ordering": ("ts",), "buckets": 1, **changes}
    return make(table_version=version, **told)


def plan(table: Table, mode: str = "full", options: CompactionOptions | None = None) -> Scheduled:
    found = schedule_compaction(table._target(), options, mode, force=True)
    assert found is not None
    return found


def compact(
    table: Table, mode: str = "full", options: CompactionOptions | None = None
) -> Compaction:
    return execute_compaction(table._target(), plan(table, mode, options).instant)


def snapshot(table: Table) -> Snapshot:
    return load_snapshot(table._storage, table.config)


def stats(table: Table, instant: str) -> list[WriteStat]:
    return list(metadata(table, instant).write_stats())


def metadata(table: Table, instant: str) -> CommitMetadata:
    now = snapshot(table)
    commit = now.timeline.completed(instant)
    assert commit is not None
    return now.commits.read(commit)


def sound(table: Table) -> None:
    again = reopen(table._storage)
    check_files(again)
    check_no_leftovers(table._storage)


def history(version: int = 9, **changes: Any) -> Table:
    """Make a table with a base file and logs of updates, late rows, deletes and new keys."""
    table = table_of(version, **changes)
    table.upsert(batch(*((key, 1, 1, "p") for key in "abcdef")))
    table.upsert(batch(("a", 2, 2, "p"), ("b", 2, 0, "p"), ("x", 2, 2, "p")))
    table.delete([{"id": "c", "dt": "p"}, {"id": "x", "dt": "p"}])
    table.upsert(batch(("d", 4, 4, "p"), ("é", 4, 4, "p"), ("a", 4, 4, "p")))
    return table


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("layout", ["lsm_tree", "default"])
@pytest.mark.parametrize("mode", ["full", "log", "hybrid"])
def test_a_compaction_shows_the_rows_that_were_there_and_keeps_files_sorted(
    version: int, layout: str, mode: str
):
    table = history(version, layout=layout)
    before = user_rows(table)
    done = compact(table, mode, JOIN)
    assert (done.full, done.log) == ((1, 0) if mode == "full" else (0, 1))
    assert user_rows(reopen(table._storage)) == before
    sound(table)


def test_rows_keep_the_commit_that_wrote_them_and_get_a_new_file():
    table = history()
    kept = {key: (row[COMMIT_TIME], row[COMMIT_SEQNO]) for key, row in rows_of(table).items()}
    done = compact(table)
    found = rows_of(reopen(table._storage))
    assert {key: (row[COMMIT_TIME], row[COMMIT_SEQNO]) for key, row in found.items()} == kept
    [stat] = stats(table, done.instant)
    assert {row[FILE_NAME] for row in found.values()} == {(stat.path or "").rpartition("/")[2]}


def test_each_key_is_in_the_new_base_file_once_in_byte_order():
    table = history()
    [stat] = stats(table, compact(table).instant)
    file = pq.ParquetFile(io.BytesIO(table._storage.read(stat.path or "")))
    assert file.read(["id"]).column("id").to_pylist() == ["a", "b", "d", "e", "f", "é"]


def test_the_commit_says_what_hudis_would():
    table = history()
    done = compact(table)
    told = metadata(table, done.instant)
    assert (told.operation_type, told.compacted) == ("COMPACT", True)
    assert told.extra_metadata["schema"] == snapshot(table).schema_text
    [stat] = told.write_stats()
    base = next(iter(snapshot(table).groups.values()))[0].base_file
    assert base is not None
    assert (stat.prev_commit, stat.prev_base_file) == (base.name.instant, base.name.encode())
    assert (stat.num_writes, stat.num_inserts, stat.num_deletes) == (6, 0, 0)
    assert (stat.total_log_files_compacted, stat.total_log_records) == (3, 8)
    assert (stat.log_files, stat.log_version) == (None, None)
    commit = snapshot(table).timeline.completed(done.instant)
    assert commit is not None
    assert (commit.action, commit.plan_action) == (Action.COMMIT, Action.COMPACTION)
    assert done.rows == 6
    assert "1 file group got a new base file" in str(done)


def test_joined_logs_are_a_delta_commit_that_lists_what_it_replaces():
    table = history()
    logs = [log.name.instant for log in snapshot(table).slices[0].log_files]
    done = compact(table, "log")
    told = metadata(table, done.instant)
    assert (told.operation_type, told.compacted) == ("LOG_COMPACT", True)
    [stat] = told.write_stats()
    assert (stat.num_writes, stat.num_deletes, stat.total_log_files_compacted) == (4, 2, 3)
    blocks = list(iter_blocks(table._storage.read(stat.path or ""), "log"))
    replaced = {block.headers[HeaderKey.COMPACTED_BLOCK_TIMES] for block in blocks}
    assert replaced == {",".join(logs)}
    commit = snapshot(table).timeline.completed(done.instant)
    assert commit is not None
    assert (commit.action, commit.plan_action) == (Action.DELTACOMMIT, Action.LOGCOMPACTION)


def test_joined_native_logs_say_in_their_footers_what_they_replace():
    table = history(10)
    logs = [log.name.instant for log in snapshot(table).slices[0].log_files]
    done = compact(table, "log")
    found = stats(table, done.instant)
    assert len(found) >= 2
    for stat in found:
        file = pq.ParquetFile(io.BytesIO(table._storage.read(stat.path or "")))
        raw = {k.decode(): v.decode() for k, v in file.schema_arrow.metadata.items()}
        times = ",".join(dict.fromkeys(logs))
        assert raw["hudi.log.compacted_block_times"] == times
        footer = parse_log_footer(raw, "log")
        assert footer is not None
        assert footer.headers[HeaderKey.COMPACTED_BLOCK_TIMES] == times


@pytest.mark.parametrize("version", [9, 10])
def test_joined_logs_keep_deletes_for_what_lies_below_and_what_comes_late(version: int):
    table = table_of(version)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    marked = batch(("a", 0, 5, "p")).append_column("_hoodie_is_deleted", pa.array([True]))
    table.upsert(marked)
    table.delete([{"id": "b", "dt": "p"}])
    compact(table, "log")
    assert user_rows(reopen(table._storage)) == {}
    table.upsert(batch(("a", 3, 3, "p"), ("b", 3, 3, "p")))
    assert set(user_rows(table)) == {("p", "b")}


def test_under_the_default_layout_a_new_base_file_forgets_deletes_as_hudis_does():
    table = table_of(layout="default")
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    marked = batch(("a", 0, 5, "p")).append_column("_hoodie_is_deleted", pa.array([True]))
    table.upsert(marked)
    compact(table)
    table.upsert(batch(("a", 3, 3, "p")))
    assert set(user_rows(table)) == {("p", "a"), ("p", "b")}


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("mode", ["full", "log"])
def test_a_row_that_came_back_after_a_delete_stays_as_it_was(version: int, mode: str):
    table = table_of(version)
    table.upsert(batch(("a", 1, 5, "p"), ("z", 1, 1, "p")))
    table.upsert(batch(("b", 1, 5, "p")))
    table.delete([{"id": "a", "dt": "p"}, {"id": "b", "dt": "p"}])
    table.upsert(batch(("a", 2, 2, "p"), ("b", 2, 2, "p")))
    before = user_rows(table)
    compact(table, mode)
    assert user_rows(reopen(table._storage)) == before
    table.upsert(batch(("b", 3, 3, "p")))
    assert user_rows(table)["p", "b"]["v"] == 3
    sound(table)


@pytest.mark.parametrize("version", [9, 10])
def test_a_file_group_of_which_all_rows_are_deleted_gets_an_empty_base_file(version: int):
    table = table_of(version)
    table.upsert(batch(("a", 1, 1, "p")))
    table.delete([{"id": "a", "dt": "p"}])
    done = compact(table)
    assert (done.full, done.rows) == (1, 0)
    assert user_rows(reopen(table._storage)) == {}
    assert table.read(mode="read_optimized").read_all().num_rows == 0
    table.upsert(batch(("a", 2, 0, "p")))
    assert user_rows(table)["p", "a"]["v"] == 2
    compact(table)
    assert user_rows(table)["p", "a"]["v"] == 2
    sound(table)


def test_a_slice_of_logs_alone_gets_its_first_base_file():
    table = table_of()
    marked = batch(("a", 1, 1, "p")).append_column("_hoodie_is_deleted", pa.array([True]))
    table.upsert(marked)
    table.upsert(batch(("a", 2, 2, "p"), ("b", 2, 2, "p")))
    assert snapshot(table).slices[0].base_file is None
    done = compact(table)
    assert set(user_rows(reopen(table._storage))) == {("p", "a"), ("p", "b")}
    [stat] = stats(table, done.instant)
    assert (stat.prev_commit, stat.prev_base_file) == ("null", None)


def test_nothing_is_planned_without_logs_or_before_it_is_due():
    table = table_of()
    assert schedule_compaction(table._target(), force=True) is None
    table.upsert(batch(("a", 1, 1, "p")))
    assert schedule_compaction(table._target(), force=True) is None
    table.upsert(batch(("a", 2, 2, "p")))
    assert schedule_compaction(table._target()) is None
    two = CompactionOptions(max_delta_commits=2)
    assert schedule_compaction(table._target(), two) is not None


def test_the_properties_of_the_table_say_when_it_is_due():
    table = table_of(properties={"hoodie.compact.inline.max.delta.commits": "2"})
    table.upsert(batch(("a", 1, 1, "p")))
    table.upsert(batch(("a", 2, 2, "p")))
    assert schedule_compaction(table._target()) is not None


def test_a_copy_on_write_table_has_nothing_to_compact():
    table = make()
    with pytest.raises(InvalidError, match="COPY_ON_WRITE: only MERGE_ON_READ has logs"):
        schedule_compaction(table._target(), force=True)


@pytest.mark.parametrize("mode", ["full", "log", "hybrid"])
def test_file_groups_in_a_plan_that_is_pending_are_not_planned_again(mode: str):
    table = history()
    plan(table, mode, JOIN)
    for other in ("full", "log", "hybrid"):
        assert schedule_compaction(table._target(), JOIN, other, force=True) is None


@pytest.mark.parametrize("mode", ["full", "hybrid"])
@pytest.mark.parametrize("version", [9, 10])
def test_logs_that_come_after_the_plan_stay_on_top(mode: str, version: int):
    table = history(version)
    planned = plan(table, mode, JOIN)
    table.upsert(batch(("a", 9, 9, "p"), ("e", 9, 0, "p"), ("new", 9, 9, "p")))
    before = user_rows(table)
    done = execute_compaction(table._target(), planned.instant.requested)
    assert done.logs_merged == 3
    assert user_rows(reopen(table._storage)) == before
    assert snapshot(table).slices[0].log_files
    sound(table)


def test_a_hybrid_plan_treats_each_file_group_by_its_shape():
    table = table_of(buckets=2)
    table.bulk_insert(
        batch(*((f"k{n:04d}", n * 2654435761 % 2**40, 1, "large") for n in range(9999)))
    )
    table.bulk_insert(batch(*((f"k{n:04d}", n, 1, "small") for n in range(4))))
    for ts in range(2, 8):
        table.upsert(batch(("k0000", 0, ts, "large"), ("k0001", 0, ts, "large")))
        table.upsert(batch(("k0000", 0, ts, "small"), ("k0001", 0, ts, "small")))
    before = user_rows(table)
    by_shape = CompactionOptions(log_ratio=2.0)
    planned = plan(table, "hybrid", by_shape)
    kinds = {(o.group.partition, o.kind) for o in planned.plan.operations}
    assert kinds == {("large", Kind.LOG), ("small", Kind.FULL)}
    done = execute_compaction(table._target(), planned.instant)
    assert done.full >= 1
    assert done.log >= 1
    commit = snapshot(table).timeline.completed(done.instant)
    assert commit is not None
    assert commit.action is Action.COMMIT
    assert user_rows(reopen(table._storage)) == before
    sound(table)
    # All that is left to do is nothing: joined logs do not count again.
    assert schedule_compaction(table._target(), by_shape, "hybrid", force=True) is None


@pytest.mark.parametrize("version", [9, 10])
def test_joined_logs_are_joined_again_and_then_merged_with_the_base_file(version: int):
    table = history(version)
    compact(table, "log")
    table.upsert(batch(("a", 5, 5, "p"), ("c", 5, 5, "p")))
    table.delete([{"id": "e", "dt": "p"}])
    before = user_rows(table)
    done = compact(table, "log")
    assert user_rows(reopen(table._storage)) == before
    assert schedule_compaction(table._target(), None, "log", force=True) is None
    compact(table)
    assert user_rows(reopen(table._storage)) == before
    assert not any(slice_.log_files for slice_ in snapshot(table).slices)
    assert user_rows(table, as_of=done.instant) == before
    sound(table)


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("mode", ["full", "log"])
def test_logs_of_the_same_changed_columns_are_joined(version: int, mode: str):
    table = table_of(version)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    for ts in (2, 3):
        rows = pa.table({"id": ["a"], "dt": ["p"], "ts": [ts], "v": [ts]})
        table.update_columns(rows.select(["id", "dt", "ts", "v"]))
    before = rows_of(table)
    compact(table, mode)
    after = rows_of(reopen(table._storage))
    assert {k: r["v"] for k, r in after.items()} == {k: r["v"] for k, r in before.items()}
    assert {k: r[COMMIT_TIME] for k, r in after.items()} == {
        k: r[COMMIT_TIME] for k, r in before.items()
    }


def _wide(version: int) -> Table:
    """Make a table with logs that change different columns, after two of whole rows."""
    schema = pa.schema(
        [("id", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("w", pa.int64())]
    )
    table = table_of(version, schema=schema, partition_by=())

    def rows(ts: int, *names: str) -> pa.Table:
        return pa.table({"id": ["a", "b"], "ts": [ts] * 2, **{name: [ts] * 2 for name in names}})

    table.upsert(rows(1, "v", "w"))
    table.upsert(rows(2, "v", "w"))
    table.upsert(rows(3, "v", "w"))
    for partial in (rows(4, "v"), rows(5, "w")):
        if version == 10:
            table.update_columns(partial)
        else:
            _merge_into(table, partial)
    return table


def _merge_into(table: Table, rows: pa.Table) -> None:
    """Write partial rows to a table of version 9, as MERGE INTO of Apache Hudi does."""

    def stage(spec: WriteSpec, snapshot: Snapshot) -> Iterator[WriteStatus]:
        [slice_] = snapshot.slices
        flagged = rows.append_column(FLAGS, pa.array([0] * rows.num_rows, pa.uint8()))
        [batch] = flagged.append_column(RECORD_KEY, rows.column("id")).to_batches()
        yield write_log(spec, slice_.group, TaskId(0, 0, 0), 1, [batch], slice_)

    execute_write(table._target(), UPDATE_COLUMNS, Source(rows.schema, stage), None)


def test_logs_are_joined_up_to_the_first_that_changes_other_columns():
    table = _wide(9)
    before = table.read().read_all().to_pylist()
    done = compact(table, "log")
    assert (done.log, done.logs_merged) == (1, 2)
    again = reopen(table._storage)
    assert again.read().read_all().to_pylist() == before
    assert before == [{"id": key, "ts": 5, "v": 4, "w": 5} for key in "ab"]
    assert schedule_compaction(table._target(), None, "log", force=True) is None


def test_a_plan_of_another_engine_that_joins_different_columns_is_refused():
    table = _wide(9)
    [slice_] = snapshot(table).slices
    operation = replace(full_operation(slice_), kind=Kind.LOG)
    data = CompactionPlan(Action.LOGCOMPACTION, (operation,)).encode()
    active = ActiveTimeline(table._storage, table.config.timeline_path)
    active.create_requested(Action.LOGCOMPACTION, "20250101000000000", data)
    with pytest.raises(UnsupportedError, match=r"of other columns, or .*; roll the plan back"):
        execute_compaction(table._target(), "20250101000000000")


def test_native_logs_that_cannot_all_be_joined_are_merged_with_their_base_file():
    table = _wide(10)
    before = table.read().read_all().to_pylist()
    assert schedule_compaction(table._target(), None, "log", force=True) is None
    done = compact(table, "hybrid", JOIN)
    assert (done.full, done.log) == (1, 0)
    assert reopen(table._storage).read().read_all().to_pylist() == before


def test_a_compaction_writes_the_newest_schema_of_the_table():
    table = history()
    wider = batch(("f", 7, 7, "p")).append_column("note", pa.array(["new"]))
    table.upsert(wider, evolve=True)
    before = user_rows(table)
    [stat] = stats(table, compact(table).instant)
    file = pq.ParquetFile(io.BytesIO(table._storage.read(stat.path or "")))
    assert "note" in file.schema_arrow.names
    assert user_rows(reopen(table._storage)) == before


def _sum(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
    at = newer.schema.get_field_index("v")
    total = pa.array(
        [o + n for o, n in zip(older["v"].to_pylist(), newer["v"].to_pylist(), strict=True)],
        pa.int64(),
    )
    return newer.set_column(at, newer.schema.field(at), total)


def test_a_merger_of_the_users_own_is_asked_and_logs_are_not_joined_without_their_base():
    table = table_of()
    for _ in range(3):
        table.upsert(batch(("a", 1, 1, "p")))
    mine = reopen(table._storage)
    mine._merger = _sum
    assert schedule_compaction(mine._target(), None, "log", force=True) is None
    execute_compaction(mine._target(), plan(mine, "hybrid", JOIN).instant)
    assert user_rows(reopen(table._storage))["p", "a"]["v"] == 3


def test_a_plan_with_joins_is_refused_with_a_merger_of_the_users_own():
    table = history()
    planned = plan(table, "log")
    mine = reopen(table._storage)
    mine._merger = _sum
    with pytest.raises(InvalidError, match="custom merger"):
        execute_compaction(mine._target(), planned.instant)


def test_a_file_group_that_was_replaced_meanwhile_is_skipped():
    table = history()
    planned = plan(table)
    table.delete_partitions(["p"])
    done = execute_compaction(table._target(), planned.instant)
    assert (done.full, done.skipped) == (0, 1)
    assert user_rows(reopen(table._storage)) == {}


@pytest.mark.parametrize("whole_table", [False, True])
def test_a_plan_that_nobody_carries_out_keeps_nobody_from_overwriting_its_file_groups(
    whole_table: bool,
):
    table = history()
    planned = plan(table)
    table.insert_overwrite(batch(("z", 9, 9, "p")), whole_table=whole_table)
    done = execute_compaction(table._target(), planned.instant)
    assert (done.full, done.skipped) == (0, 1)
    assert set(user_rows(reopen(table._storage))) == {("p", "z")}
    sound(table)


def test_what_is_done_already_or_was_never_planned_is_refused():
    table = history()
    planned = plan(table)
    assert [i.requested for i in pending_compactions(snapshot(table))] == [
        planned.instant.requested
    ]
    execute_compaction(table._target(), planned.instant)
    assert pending_compactions(snapshot(table)) == ()
    with pytest.raises(ConflictError, match="completed at"):
        execute_compaction(table._target(), planned.instant.requested)
    with pytest.raises(InvalidError, match="there is no such plan; pending are: none"):
        execute_compaction(table._target(), "20240101000000000")


class Silent(FaultyStorage):
    """A storage that does not answer when one file is opened."""

    def __init__(self, inner: Storage, path: str) -> None:
        super().__init__(inner)
        self.path = path

    def open_read(self, path: str) -> pa.NativeFile:
        """Open a file, unless it is that one."""
        if path == self.path:
            raise UnavailableError(path)
        return super().open_read(path)


@pytest.mark.parametrize("mode", ["full", "log"])
def test_after_a_failure_the_plan_stays_and_runs_the_next_time(mode: str):
    table = history()
    before = user_rows(table)
    planned = plan(table, mode)
    [operation] = planned.plan.operations
    names = {entry.path for entry in table._storage.list("p")}
    storage = Silent(table._storage, operation.logs[-1].path)
    with pytest.raises(UnavailableError):
        execute_compaction(reopen(storage, table._clock)._target(), planned.instant)
    assert {entry.path for entry in table._storage.list("p")} == names
    assert [i.requested for i in pending_compactions(snapshot(table))] == [
        planned.instant.requested
    ]
    execute_compaction(table._target(), planned.instant)
    assert user_rows(reopen(table._storage)) == before
    sound(table)


class Overtaken(LocalExecutor):
    """Writes all files; then the process stands still while another carries the plan out."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__(1)
        self.meanwhile = meanwhile
        self.paths: list[str] = []

    def run(self, task: Any, items: Any, label: str) -> Iterator[Any]:
        """Run the tasks, then `meanwhile`."""
        results = list(super().run(task, items, label))
        self.paths += [stat.path for status in results for stat in status.stats]
        self.meanwhile()
        yield from results


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("mode", ["full", "log"])
def test_one_that_was_taken_for_dead_has_no_file_name_of_the_one_that_took_over(
    mode: str, version: int
):
    table = history(version)
    before = user_rows(table)
    planned = plan(table, mode)
    later = ManualClock(table._clock.now_ms() + 600_000, step_ms=1)
    other = reopen(table._storage, later)
    slow = Overtaken(lambda: execute_compaction(other._target(), planned.instant))
    with pytest.raises(ConflictError):
        execute_compaction(replace(table._target(), executor=slow), planned.instant)
    # It may close its files at any time, and deletes them when it sees that all is over.
    counting = {stat.path for stat in stats(table, planned.instant.requested)}
    assert slow.paths
    assert counting.isdisjoint(slow.paths)
    for path in slow.paths:
        table._storage.delete(path)
    assert user_rows(reopen(table._storage)) == before
    sound(table)


def test_a_pending_write_keeps_newer_logs_from_being_joined():
    table = history(properties={"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"})
    logs = [log.name.instant for log in snapshot(table).slices[0].log_files]
    active = ActiveTimeline(table._storage, table.config.timeline_path)
    between = str(int(logs[2]) - 1)
    active.create_requested(Action.DELTACOMMIT, between)
    table._storage.put(f".hoodie/.heartbeat/{between}", b"")
    found = schedule_compaction(table._target(), None, "log", force=True)
    assert found is not None
    assert [log.name.instant for log in found.plan.operations[0].logs] == logs[:2]


def test_a_write_that_turns_up_between_joined_logs_stops_the_compaction():
    table = history()
    logs = [log.name.instant for log in snapshot(table).slices[0].log_files]
    planned = plan(table, "log")
    active = ActiveTimeline(table._storage, table.config.timeline_path)
    late = str(int(logs[1]) + 1)
    # A writer that takes no lock.
    active.create_requested(Action.DELTACOMMIT, late)
    after = str(int(planned.instant.requested) + 5)
    active.complete(Action.DELTACOMMIT, late, after, CommitMetadata().encode())
    with pytest.raises(ConflictError, match=f"write {late} started before"):
        execute_compaction(table._target(), planned.instant)


def test_a_table_that_hudi_wrote_is_compacted_in_every_mode():
    wanted = [
        {name: value for name, value in row.items() if not name.startswith("_hoodie")}
        for row in expected_rows("mor9_bucket_parquet")
    ]
    for mode in ("full", "log", "hybrid"):
        storage = copy_of(files("mor9_bucket_parquet"))
        table = reopen(storage, ManualClock(1_900_000_000_000, step_ms=1))
        compact(table, mode, JOIN)
        again = reopen(storage)
        found = again.read(columns=list(wanted[0])).read_all().to_pylist()
        assert sorted(found, key=lambda row: row["id"]) == wanted, mode
