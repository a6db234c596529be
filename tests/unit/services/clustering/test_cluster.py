"""Clustering of whole tables: what it writes, what it leaves alone, who is in whose way."""

import io
import itertools
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.api.table import Table
from lakebed.errors import (
    ConflictError,
    CorruptError,
    InvalidError,
    OptionError,
    UnsupportedError,
)
from lakebed.format.names.instant_name import Action
from lakebed.format.names.meta_columns import FILE_NAME, RECORD_KEY
from lakebed.format.timeline.plans import PlanKind, encode_plan
from lakebed.merge.passes import MAX_FAN_IN
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.model.options.services import ClusteringOptions
from lakebed.services.clustering.execute import Clustering, cluster
from lakebed.storage.local import LocalStorage
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.timeline.active import load_timeline
from support.tables import (
    SCHEMA,
    Rows,
    batch,
    check_files,
    check_no_leftovers,
    make,
    reopen,
    rows_of,
    user_rows,
)

APART = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
TOGETHER = {**APART, "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
ODD = "q=1 é%"


def table_of(**changes: Any) -> Table:
    told = {"table_type": "MERGE_ON_READ", "index": "simple", "ordering": ("ts",)}
    return make(**{**told, "properties": APART, **changes})


def history(**changes: Any) -> Table:
    """Make two partitions of three small file groups, with updates, deletes and a late row on top."""
    table = table_of(**changes)
    for keys in ("adg", "beh", "cfi"):
        table.bulk_insert(
            batch(*((key, 1, 5, "p") for key in keys), *((key.upper(), 1, 5, ODD) for key in keys))
        )
    table.upsert(batch(("a", 2, 6, "p"), ("b", 2, 1, "p"), ("C", 2, 7, ODD)))
    table.delete([{"id": "d", "dt": "p"}, {"id": "A", "dt": ODD}])
    return table


def snapshot(table: Table) -> Snapshot:
    return load_snapshot(table._storage, table.config)


def without_files(rows: Rows) -> Rows:
    return {key: {k: v for k, v in row.items() if k != FILE_NAME} for key, row in rows.items()}


def keys_by_file(table: Table, partition: str) -> list[list[str]]:
    """Return the keys of each base file, files in order of their first key."""
    found = []
    for slice_ in snapshot(table).slices:
        if slice_.group.partition == partition and slice_.base_file is not None:
            data = io.BytesIO(table._storage.read(slice_.base_file.path))
            found.append(pq.read_table(data, columns=[RECORD_KEY]).column(0).to_pylist())
    return sorted(found)


def done(found: Clustering | None) -> Clustering:
    assert found is not None
    return found


def sound(table: Table) -> None:
    check_files(reopen(table._storage))
    check_no_leftovers(table._storage)


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


def cluster_meanwhile(table: Table, act: Callable[[], object]) -> Clustering | None:
    return cluster(replace(table._target(), executor=Meanwhile(act)))


@pytest.mark.parametrize("index", ["simple", "global_simple"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [9, 10])
def test_rows_stay_and_file_groups_become_one_per_partition(
    index: str, table_type: str, version: int
):
    table = history(index=index, table_type=table_type, table_version=version)
    before = rows_of(table)
    found = done(table.cluster())
    assert (found.partitions, found.replaced, found.written, found.rows) == (2, 6, 2, len(before))
    assert str(found).startswith(
        f"clustering {found.instant}: 6 file groups of 2 partitions became 2"
    )
    again = reopen(table._storage)
    # The commit time and sequence number of each row too.
    assert without_files(rows_of(again)) == without_files(before)
    assert keys_by_file(again, "p") == [list("abcefghi")]
    sound(table)
    assert table.verify().findings == ()


def test_a_clustering_is_a_replacecommit_that_ends_the_old_file_groups():
    table = history()
    old = {s.group.file_id for s in snapshot(table).slices}
    found = done(table.cluster())
    now = snapshot(table)
    commit = now.timeline.completed(found.instant)
    assert commit is not None
    assert (commit.action, commit.plan_action) == (Action.REPLACECOMMIT, Action.CLUSTERING)
    metadata = now.commits.read(commit)
    assert metadata.operation_type == "CLUSTER"
    replaced = metadata.partition_to_replace_file_ids or {}
    assert {id_ for ids in replaced.values() for id_ in ids} == old
    assert set(replaced) == {"p", ODD}


def test_clustering_again_does_nothing():
    table = history()
    done(table.cluster())
    before = load_timeline(table._storage)
    assert table.cluster() is None
    assert load_timeline(table._storage) == before


def scattered(rows: int, files: int, **changes: Any) -> Table:
    table = table_of(table_type="COPY_ON_WRITE", **changes)
    keys = [f"k{n * 7919 % rows:06d}" for n in range(rows)]
    for part in range(files):
        table.bulk_insert(
            batch(*((key, hash(key) * 31 % 2**50, 1, "p") for key in keys[part::files]))
        )
    return table


def test_files_have_about_the_target_size_and_disjoint_key_ranges():
    table = scattered(40_000, 5)
    target = 100_000
    found = done(cluster(table._target(), ClusteringOptions(target_bytes=target)))
    sizes = [s.base_file.size_bytes for s in snapshot(table).slices if s.base_file is not None]
    assert len(sizes) == found.written >= 3
    assert all(target / 2 < size <= target * 1.2 for size in sizes), sizes
    keys = keys_by_file(table, "p")
    assert [key for file in keys for key in file] == sorted(f"k{n:06d}" for n in range(40_000))
    assert all(low[-1] < high[0] for low, high in itertools.pairwise(keys))
    sound(table)


def test_many_small_files_do_not_become_many_small_files():
    # Of a file of a few rows the footer is the most.
    table = scattered(300, 30)
    size = sum(s.base_file.size_bytes for s in snapshot(table).slices if s.base_file)
    found = done(cluster(table._target(), ClusteringOptions(target_bytes=size // 2)))
    assert found.written == 1


def test_more_slices_than_may_be_open_are_merged_in_passes():
    table = scattered(200, MAX_FAN_IN + 2)
    before = user_rows(table)
    done(table.cluster())
    assert user_rows(reopen(table._storage)) == before
    assert len(keys_by_file(table, "p")) == 1


def test_a_key_in_two_file_groups_is_refused_with_its_files_and_nothing_stays():
    table = table_of()
    for v in (1, 2):
        table.insert(batch(("a", v, v, "p"), (f"x{v}", v, v, "p")))
    old = sorted(s.base_file.path for s in snapshot(table).slices if s.base_file is not None)
    with pytest.raises(CorruptError, match="partition 'p': record key 'a' is in ") as told:
        table.cluster()
    assert all(repr(path) in str(told.value) for path in old)
    assert not load_timeline(table._storage).pending()
    check_no_leftovers(table._storage)


def rewrite(table: Table, path: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Put another writer's file, which does not say that it is sorted, in place of a base file."""
    rows = change(pq.read_table(io.BytesIO(table._storage.read(path))))
    written = io.BytesIO()
    # No shorter than the commit says.
    pq.write_table(rows.replace_schema_metadata({"padding": "x" * 9000}), written)
    table._storage.put(path, written.getvalue())


def test_a_key_twice_in_one_file_of_another_writer_is_left_out():
    table = history(table_type="COPY_ON_WRITE", ordering=())
    path = next(s.base_file.path for s in snapshot(table).slices if s.base_file is not None)
    rewrite(table, path, lambda rows: pa.concat_tables([rows, rows]))
    clustered = done(table.cluster())
    assert re.search(f"record key '.*' is twice in '{path}'", str(clustered))
    assert clustered.partitions == 1
    with pytest.raises(CorruptError, match=f"record key '.*' is twice in '{path}'"):
        table.cluster()
    assert not load_timeline(table._storage).pending()


def test_unsorted_files_are_sorted():
    table = table_of(table_type="COPY_ON_WRITE")
    table.bulk_insert(batch(*((key, 1, 1, "p") for key in "abcd")))
    [slice_] = snapshot(table).slices
    assert slice_.base_file is not None
    rewrite(table, slice_.base_file.path, lambda rows: rows.take([2, 0, 3, 1]))
    before = user_rows(table)
    done(table.cluster())
    assert keys_by_file(table, "p") == [list("abcd")]
    assert user_rows(reopen(table._storage)) == before


def test_rows_that_are_all_deleted_leave_no_file_group():
    table = history()
    table.delete(where="dt = 'p'")
    found = done(table.cluster(partitions=["p"]))
    assert (found.replaced, found.written, found.rows) == (3, 0, 0)
    assert {s.group.partition for s in snapshot(table).slices} == {ODD}
    table.upsert(batch(("a", 9, 9, "p")))
    assert user_rows(table)["p", "a"]["v"] == 9


@pytest.mark.parametrize("named", [[ODD], [{"dt": ODD}], {"dt": ODD}, ODD])
def test_only_the_named_partitions_are_clustered(named: Any):
    table = history()
    assert table.cluster(partitions=["nowhere"]) is None
    assert done(table.cluster(partitions=named)).replaced == 3
    assert len(keys_by_file(table, "p")) == 3
    assert len(keys_by_file(table, ODD)) == 1


def test_before_and_after_it_every_moment_reads_the_same():
    table = history()
    moments = [row["instant"] for row in table.history().to_pylist()]
    before = [rows_of(table, as_of=moment) for moment in moments]
    found = done(table.cluster())
    again = reopen(table._storage)
    assert [rows_of(again, as_of=moment) for moment in moments] == before
    assert user_rows(again, as_of=found.instant) == user_rows(again)


def test_writes_go_on_after_it_and_fill_its_small_files():
    table = history(
        index="global_simple", properties={**APART, "hoodie.parquet.small.file.limit": "9999999"}
    )
    rows = user_rows(table)
    done(table.cluster())
    table.upsert(batch(("a", 7, 9, ODD), ("new", 7, 9, "p"), ("b", 7, 9, "p")))
    rows.pop(("p", "a"))
    for row in batch(("a", 7, 9, ODD), ("new", 7, 9, "p"), ("b", 7, 9, "p")).to_pylist():
        rows[row["dt"], row["id"]] = row
    assert user_rows(reopen(table._storage)) == rows
    sound(table)


def test_a_clustering_can_be_rolled_back_and_the_old_file_groups_count_again():
    table = history()
    before, groups = rows_of(table), snapshot(table).groups
    table.rollback(done(table.cluster()).instant)
    assert rows_of(reopen(table._storage)) == before
    assert snapshot(table).groups == groups
    assert done(table.cluster()).replaced == 6


def test_a_restore_goes_behind_it():
    table = history()
    before = rows_of(table)
    saved = table.savepoint()
    done(table.cluster())
    table.upsert(batch(("a", 9, 9, "p")))
    table.restore(saved.instant)
    assert rows_of(reopen(table._storage)) == before


def test_cleaning_removes_the_old_file_groups():
    table = history()
    done(table.cluster())
    before = user_rows(table)
    for n in range(3):
        table.upsert(batch((f"later{n}", 1, 1, "elsewhere")))
    table.clean(
        options={"hoodie.clean.commits.retained": "1", "lakebed.clean.min.age.seconds": "0"}
    )
    assert {
        k: v for k, v in user_rows(reopen(table._storage)).items() if k[0] != "elsewhere"
    } == before
    names = {
        e.path for e in table._storage.list() if e.path.startswith("p/") and "parquet" in e.path
    }
    assert len(names) == 1


@pytest.mark.parametrize("properties", [APART, TOGETHER], ids=["one writer", "several"])
def test_a_writer_that_changes_its_file_groups_meanwhile_is_refused(properties: dict[str, str]):
    table = history(properties=properties)
    other = reopen(table._storage, table._clock)
    told = []

    def write() -> None:
        with pytest.raises(ConflictError, match=r"is in the clustering \d+, which is pending"):
            other.upsert(batch(("a", 9, 9, "p")))
        told.append(other.upsert(batch(("new", 9, 9, "elsewhere"))))

    rows = user_rows(table)
    done(cluster_meanwhile(table, write))
    assert len(told) == 1
    other.upsert(batch(("a", 9, 9, "p")))
    rows["p", "a"] = {"id": "a", "v": 9, "ts": 9, "dt": "p"}
    rows["elsewhere", "new"] = {"id": "new", "v": 9, "ts": 9, "dt": "elsewhere"}
    assert user_rows(reopen(table._storage)) == rows
    sound(table)


def test_a_writer_that_began_before_is_refused_if_it_changes_a_row_and_not_if_it_adds_one():
    table = history(properties=TOGETHER)
    other = reopen(table._storage, table._clock)

    def rows(*given: tuple[str, int, int, str]) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            done(other.cluster(partitions=["p"] if given[0][0] == "a" else [ODD]))
            yield from batch(*given).to_batches()

        return pa.RecordBatchReader.from_batches(SCHEMA, batches())

    before = user_rows(table)
    with pytest.raises(ConflictError, match="changed file group"):
        table.upsert(rows(("a", 9, 9, "p")))
    assert user_rows(reopen(table._storage)) == before
    table.upsert(rows(("NEW", 9, 9, ODD)))
    assert set(user_rows(reopen(table._storage))) == {*before, (ODD, "NEW")}
    sound(table)


def test_two_at_once_share_the_file_groups_between_them():
    table = history()
    other = reopen(table._storage, table._clock)
    found: list[Clustering | None] = []

    def second() -> None:
        found.append(other.cluster())
        other.bulk_insert(batch(("n", 1, 1, "r")))
        other.bulk_insert(batch(("m", 1, 1, "r")))
        found.append(other.cluster())

    first = done(cluster_meanwhile(table, second))
    assert found[0] is None
    assert first.replaced == 6
    assert done(found[1]).replaced == 2
    assert len(keys_by_file(table, "r")) == len(keys_by_file(table, "p")) == 1
    sound(table)


def test_file_groups_of_a_pending_compaction_are_left_out():
    table = history()
    assert table.schedule_compaction() is not None
    planned = {s.group for s in snapshot(table).slices if s.needs_merge}
    found = table.cluster()
    assert 0 < len(planned) < 6
    assert found is None or found.replaced == 6 - len(planned)
    before = user_rows(table)
    table.compact()
    assert user_rows(reopen(table._storage)) == before


def test_a_pending_clustering_keeps_compaction_away():
    table = history()
    other = reopen(table._storage, table._clock)
    done(cluster_meanwhile(table, other.schedule_compaction))
    assert not load_timeline(table._storage).pending()
    sound(table)


def test_a_failure_takes_the_whole_plan_back():
    table = history()
    before = rows_of(table)

    def fail() -> None:
        raise CorruptError("a task failed")

    with pytest.raises(CorruptError, match="a task failed"):
        cluster_meanwhile(table, fail)
    assert load_timeline(table._storage).instants[-1].action is not Action.CLUSTERING
    sound(table)
    assert rows_of(reopen(table._storage)) == before


def test_a_plan_of_another_engine_is_left_alone_by_writers():
    table = history()
    slices = [{"fileId": snapshot(table).slices[0].group.file_id, "partitionPath": "p"}]
    plan = {"inputGroups": [{"slices": slices}], "extraMetadata": {}}
    data = encode_plan(
        PlanKind.REQUESTED_REPLACE, {"operationType": "CLUSTER", "clusteringPlan": plan}
    )
    table._commits.active.create_requested(Action.CLUSTERING, "20400101000000000", data)
    table.upsert(batch(("new", 1, 1, "elsewhere")))
    assert [i.requested for i in load_timeline(table._storage).pending()] == ["20400101000000000"]
    assert done(table.cluster()).replaced == 5


def test_consistent_hashing_is_refused_by_name():
    table = make(table_type="MERGE_ON_READ", index="consistent_hashing", buckets=2)
    with pytest.raises(UnsupportedError, match=r"consistent hashing.*does not resize"):
        table.cluster()


def test_a_bucket_index_is_refused_by_name():
    table = table_of(index="bucket")
    table.upsert(batch(("a", 1, 1, "p")))
    with pytest.raises(InvalidError, match="'t' has a bucket index: each bucket is one sorted"):
        table.cluster()


def test_sort_columns_are_refused_and_an_empty_table_has_nothing_to_cluster():
    table = table_of()
    assert table.cluster() is None
    with pytest.raises(OptionError, match="always clustered by record key"):
        table.cluster(options={"hoodie.clustering.plan.strategy.sort.columns": "v"})


class PicklingExecutor:
    """Hands tasks over as Spark does: as bytes, and each of them twice."""

    def run(
        self, task: Callable[[Any, TaskId], Any], items: Sequence[Any], label: str
    ) -> Iterator[Any]:
        del label
        for number, item in enumerate(items):
            sent = pickle.dumps((task, item))
            for attempt in range(2):
                there, work = pickle.loads(sent)
                result = pickle.dumps(there(work, TaskId(number, 7, attempt)))
            yield pickle.loads(result)


def test_tasks_of_another_process_that_run_twice_leave_one_result(tmp_path: Path):
    table = history(storage=LocalStorage(tmp_path))
    before = user_rows(table)
    done(cluster(replace(table._target(), executor=PicklingExecutor())))
    assert user_rows(reopen(table._storage)) == before
    sound(table)
