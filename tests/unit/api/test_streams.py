"""Batches of streams in process: each is committed once, and only if it has rows."""

import json
import os
import pathlib
import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.api.opening import open_as
from lakebed.api.streams.function import _StreamTable
from lakebed.api.streams.saving import BatchSaving, StreamSave
from lakebed.commit.stream_batches import HUDI_KEY, STREAM_KEY, StreamBatch, last_batch
from lakebed.errors import InvalidError, OptionError, UnsupportedError
from lakebed.model.executor import TaskId
from lakebed.model.options.stream import Limits, StreamReadOptions
from lakebed.table.changes.commit_range import RangeCommit
from lakebed.table.changes.position import CommitFeed, Position, advance, check_stream
from lakebed.table.config.properties_file import load_config
from lakebed.table.config.table_config import TableConfig
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.write.spec.intake import Intake
from lakebed.write.spec.operation import INSERT

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.operation": "insert",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
}
ARCHIVES = {
    "hoodie.clean.commits.retained": "1",
    "lakebed.clean.min.age.seconds": "0",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    return str(tmp_path / "table")


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(ids, pa.int64())})


def plan(path: str, stream: str, **more: str) -> BatchSaving:
    options = {**OPTIONS, "path": path, "lakebed.stream.id": stream, **more}
    saving = StreamSave(options, rows_of().schema).plan()
    found = pickle.loads(pickle.dumps(saving))
    assert isinstance(found, BatchSaving)
    return found


def write(path: str, stream: str, number: int, *ids: int, **more: str) -> Any:
    """Write a batch as the processes of Spark do: plan, two tasks, commit."""
    saving = plan(path, stream, **more)
    half = len(ids) // 2
    staged = [
        saving.stage(rows_of(*part).to_batches(), TaskId(task, 1, task))
        for task, part in enumerate((ids[:half], ids[half:]))
    ]
    return saving.finish_batch(staged, number)


def ids(path: str) -> list[int]:
    return sorted(lakebed.open_table(None, path).to_arrow().column("id").to_pylist())


def snapshot_of(path: str) -> Snapshot:
    storage = lakebed.open_table(None, path)._storage
    return load_snapshot(storage, load_config(storage))


def staged_files(path: str) -> list[str]:
    folder = pathlib.Path(path, ".hoodie/.temp/lakebed/deferred")
    return sorted(os.listdir(folder)) if folder.exists() else []


def test_a_batch_that_is_repeated_is_not_written_again(path):
    assert write(path, "q", 0, 1, 2) is not None
    # The repeated batch has other rows here, to show that none of them are written.
    assert write(path, "q", 0, 3, 4) is None
    assert write(path, "q", 1, 5) is not None
    assert ids(path) == [1, 2, 5]
    assert staged_files(path) == []


def test_streams_into_one_table_do_not_confuse_each_other(path):
    write(path, "one", 0, 1)
    write(path, "two", 0, 2)
    lakebed.open_table(None, path).insert(rows_of(3))
    write(path, "one", 1, 4)
    assert write(path, "two", 0, 9) is None
    assert write(path, "one", 1, 9) is None
    assert ids(path) == [1, 2, 3, 4]


def test_a_batch_is_recognized_after_its_commit_was_archived(path):
    write(path, "q", 7, 1)
    write(path, "other", 70, 2)
    table = lakebed.open_table(None, path)
    table.set_properties(ARCHIVES)
    for key in range(10, 20):
        table.upsert(rows_of(key))
    table.clean()
    table.archive()
    archived = [row for row in table.history().to_pylist() if row["archived"]]
    assert len([row for row in archived if row["action"] == "deltacommit"]) >= 3
    assert last_batch(snapshot_of(path), "q") == 7
    assert write(path, "q", 7, 99) is None
    assert write(path, "new", 7, 98) is not None
    assert 99 not in ids(path)


def test_an_older_batch_is_an_error_because_its_rows_may_be_new(path):
    write(path, "q", 5, 1)
    with pytest.raises(InvalidError, match=r"batch 3 of stream 'q', expected a batch after 5"):
        write(path, "q", 3, 2)
    assert ids(path) == [1]


def test_a_batch_without_rows_makes_no_commit(path):
    write(path, "q", 0, 1)
    before = lakebed.open_table(None, path).history().num_rows
    assert write(path, "q", 1) is None
    assert lakebed.open_table(None, path).history().num_rows == before
    assert write(path, "q", 2, 2) is not None
    assert ids(path) == [1, 2]


def test_a_commit_records_the_batch_for_us_and_for_hudi(path):
    name = {"hoodie.datasource.write.streaming.checkpoint.identifier": "loader"}
    write(path, "q", 3, 1, **name)
    snapshot = snapshot_of(path)
    extra = snapshot.commits.read(snapshot.timeline.commits[-1]).extra_metadata
    assert json.loads(extra[STREAM_KEY]) == {"id": "q", "batch": 3}
    assert json.loads(extra[HUDI_KEY]) == {"loader": "3"}


def test_rows_that_a_dead_process_staged_are_deleted_with_the_next_batch(path):
    write(path, "q", 0, 1)
    dead = plan(path, "q")
    dead.stage(rows_of(2).to_batches(), TaskId(0, 1, 5))
    other = plan(path, "another")
    staged = other.stage(rows_of(3).to_batches(), TaskId(0, 1, 5))
    assert len(staged_files(path)) == 2
    write(path, "q", 1, 4)
    assert len(staged_files(path)) == 1
    other.finish_batch([staged], 0)
    assert ids(path) == [1, 3, 4]


@pytest.mark.parametrize("mode", ["OPTIMISTIC", "NON_BLOCKING"])
def test_two_processes_with_the_same_batch_commit_it_once(path, mode):
    options = {
        "hoodie.write.concurrency.mode": f"{mode}_CONCURRENCY_CONTROL",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "1",
    }
    write(path, "q", 0, 1, **options)
    batch, zombie = StreamBatch("q", 1), open_as(_StreamTable, None, path)
    source = zombie._engines.for_data(rows_of(2)).source(rows_of(2))

    def overtaken(spec: Any, snapshot: Any) -> Any:
        """Stage the rows after another process has written the same batch, with other rows."""
        current = open_as(_StreamTable, None, path)
        assert current.write_batch(INSERT, rows_of(3), Intake(), batch) is not None
        return source.stage(spec, snapshot)

    late = replace(source, stage=overtaken)
    assert zombie._execute_once(batch, INSERT, late, None) is None
    assert ids(path) == [1, 3]
    history = lakebed.open_table(None, path).history().to_pylist()
    assert len([row for row in history if row["state"] == "completed"]) == 2


def test_a_zombie_whose_rows_are_gone_does_not_fail_if_its_batch_is_there(path):
    write(path, "q", 0, 1)
    zombie, current = plan(path, "q"), plan(path, "q")
    staged = [one.stage(rows_of(2).to_batches(), TaskId(0, 1, 5)) for one in (zombie, current)]
    assert current.finish_batch([staged[1]], 1) is not None
    assert staged_files(path) == []
    assert zombie.finish_batch([staged[0]], 1) is None
    assert ids(path) == [1, 2]


def test_a_commit_whose_answer_was_lost_is_not_repeated(path):
    write(path, "q", 0, 1)
    saving = plan(path, "q")
    staged = [saving.stage(rows_of(2).to_batches(), TaskId(0, 1, 5))]
    assert saving.finish_batch(staged, 1) is not None
    # Spark did not hear of it, and starts the batch again.
    assert write(path, "q", 1, 2) is None
    assert ids(path) == [1, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lakebed.stream.id": ""}, "needs option checkpointLocation"),
        ({"lakebed.stream.id": "", "checkpointLocation": "/no/such"}, "cannot read the id"),
        ({"lakebed.stream.id": "", "checkpointLocation": "hdfs://n/x"}, "lakebed.stream.id"),
        ({"hoodie.datasource.write.operation": "delete_partition"}, "not for a stream"),
    ],
)
def test_what_cannot_be_written_once_is_refused(path, options, words):
    with pytest.raises((InvalidError, UnsupportedError), match=words):
        plan(path, "q", **options)


def test_a_query_is_recognized_by_the_id_in_its_checkpoint(path, tmp_path):
    (tmp_path / "check point").mkdir()
    (tmp_path / "check point" / "metadata").write_text('{"id":"6b"}\n')
    where = {"lakebed.stream.id": "", "checkpointLocation": f"file://{tmp_path}/check point"}
    write(path, "", 0, 1, **where)
    assert last_batch(snapshot_of(path), "6b") == 0
    # A deleted checkpoint is a new query, whose batches begin at 0 again.
    (tmp_path / "check point" / "metadata").write_text('{"id":"7c"}\n')
    write(path, "", 0, 2, **where)
    assert ids(path) == [1, 2]


def test_foreach_batch_refuses_modes_and_arguments_that_it_does_not_know():
    with pytest.raises(InvalidError, match="expected one of upsert, insert"):
        lakebed.foreach_batch("/data/t", mode="merge")
    with pytest.raises(InvalidError, match="did you mean 'upsert'"):
        lakebed.foreach_batch("/data/t", mode="upsrt")
    with pytest.raises(InvalidError, match="mode='delete'"):
        lakebed.foreach_batch("/data/t", mode="delete", evolve=True)
    with pytest.raises(InvalidError, match="expected a name"):
        lakebed.foreach_batch("/data/t", stream=" ")
    function = lakebed.foreach_batch("/data/t", stream="s")
    assert pickle.loads(pickle.dumps(function)) == function


# Positions.


def commit_at(completion: str, requested: str, snapshot: Snapshot, *, service: bool = False) -> Any:
    metadata = snapshot.commits.read(snapshot.timeline.commits[0])
    return RangeCommit(requested, completion, metadata, service)


def test_a_position_tells_commits_of_one_millisecond_apart(path):
    write(path, "q", 0, 1, 2, 3)
    snapshot = snapshot_of(path)
    first, second = (commit_at("20", name, snapshot) for name in ("11", "12"))
    later = commit_at("30", "05", snapshot)
    commits = [first, second, later]
    one = advance(Position(), commits, Limits(commits=1))
    assert one == Position("20", ("11",))
    assert not one.precedes("20", "11")
    assert one.precedes("20", "12")
    # It started first and completed last.
    assert one.precedes("30", "05")
    assert advance(one, commits[1:], None) == Position("30", ("05",))
    assert advance(one, commits[1:], Limits(commits=1)) == Position("20", ("11", "12"))
    assert Position.parse(json.loads(json.dumps(one.to_json()))) == one


def test_limits_take_whole_commits_and_at_least_one(path):
    write(path, "q", 0, *range(100))
    snapshot = snapshot_of(path)
    commits = [commit_at(f"{n}0", f"{n}0", snapshot) for n in range(1, 6)]

    def taken(**limits: int) -> int:
        return int(advance(Position(), commits, Limits(**limits)).completion[0])

    assert taken() == 5
    assert taken(commits=2) == 2
    assert taken(rows=1) == 1
    assert taken(rows=250) == 2
    assert taken(rows=300, commits=2) == 2
    assert taken(size_bytes=1) == 1
    service = commit_at("05", "05", snapshot, service=True)
    assert advance(Position(), [service], None) == Position()


def test_a_position_of_a_commit_that_was_rolled_back_is_noticed(path):
    write(path, "q", 0, 1)
    write(path, "q", 1, 2)
    feed, snapshot = CommitFeed(), snapshot_of(path)
    position = feed.latest(snapshot)
    assert feed.missing(snapshot, position) == []
    lakebed.open_table(None, path).rollback(position.instants[0])
    assert feed.missing(snapshot_of(path), position) == list(position.instants)
    # The record went with the commit: the batch is written again.
    assert write(path, "q", 1, 2) is not None


def test_the_options_of_a_stream_are_checked():
    with pytest.raises(OptionError, match=r"cdc needs hoodie\.datasource\.query\.type"):
        StreamReadOptions.parse({"path": "x", "hoodie.datasource.query.incremental.format": "cdc"})
    with pytest.raises(OptionError, match="startoffset"):
        StreamReadOptions.parse({"path": "x", "hoodie.datasource.read.begin.instanttime": "0"})
    with pytest.raises(OptionError, match="did you mean maxrowspertrigger"):
        StreamReadOptions.parse({"path": "x", "maxRowPerTrigger": "7"})
    options, _ = StreamReadOptions.parse(
        {"path": "x", "startOffset": "Latest", "maxBytesPerTrigger": "5MB"}
    )
    assert options.starts_latest
    assert options.limits.size_bytes == 5 << 20


def test_a_stream_of_a_table_without_completion_times_is_refused(path):
    write(path, "q", 0, 1, **{"hoodie.datasource.write.table.type": "COPY_ON_WRITE"})
    snapshot = snapshot_of(path)
    check_stream(snapshot.config)
    old = TableConfig.parse(
        {
            **snapshot.config.properties,
            "hoodie.table.version": "6",
            "hoodie.timeline.layout.version": "1",
        },
        "a table of Hudi 0.15",
    )
    with pytest.raises(UnsupportedError, match="does not say when commits completed"):
        check_stream(old)
