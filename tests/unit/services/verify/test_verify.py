"""Verify says what is wrong with a table, and nothing where nothing is wrong."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.errors import NotFoundError
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.format.timeline.heartbeat import Beat, heartbeat_path
from lakebed.format.timeline.lock_file import LOCK_FILE_PATH, LockFile
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.verify.findings import Code, Mend, Severity
from lakebed.services.verify.verify import verify
from lakebed.storage.objects import memory_storage
from lakebed.storage.open import open_storage
from lakebed.timeline.active import ActiveTimeline
from support.fixtures import names, unpack
from support.tables import batch, contents, make

ROWS = batch(*((f"k{n:03}", n, 1, f"p{n % 2}") for n in range(60)))
MORE = batch(*((f"k{n:03}", n + 1, 2, f"p{n % 2}") for n in range(0, 60, 3)))
DAY_MS = 86_400_000
GONE = "20200101000000000"  # before all that the tables here hold
LATE = "20991231000000000"  # after it


def loaded(**changes):
    """Return the storage of a table with a load, an upsert and a delete."""
    storage = memory_storage()
    table = make(storage, **{"table_type": "MERGE_ON_READ", **changes})
    table.bulk_insert(ROWS)
    table.upsert(MORE)
    table.delete([{"id": "k001", "dt": "p1"}])
    return storage


def check(storage, *, quick=False, later_ms=60_000):
    clock = ManualClock(1_700_000_000_000 + later_ms)
    return verify(storage, clock, LocalExecutor(1), quick=quick)


def found(storage, code, **how):
    """Return the one finding of `code`; all others must follow from it."""
    matching = [finding for finding in check(storage, **how) if finding.code is code]
    assert len(matching) == 1, [str(finding) for finding in check(storage, **how)]
    return matching[0]


def data_paths(storage, ending=".parquet"):
    return [
        entry.path
        for entry in storage.list()
        if not entry.path.startswith(".hoodie")
        and parse_data_name(entry.path.rpartition("/")[2])
        and entry.path.endswith(ending)
    ]


def rewrite(storage, path, change, footer=None):
    """Write a base file anew with other rows, or another footer."""
    file = pq.ParquetFile(io.BytesIO(storage.read(path)))
    table = change(file.read())
    marks = {**file.metadata.metadata, **(footer or {})}
    marks.pop(b"ARROW:schema", None)
    out = io.BytesIO()
    with pq.ParquetWriter(out, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(marks)
    storage.put(path, out.getvalue())


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"table_type": "COPY_ON_WRITE"},
        {"index": "simple"},
        {"index": "global_simple"},
        {"layout": "default"},
        {"table_version": 10},
        {"ordering": ("ts",)},
    ],
    ids=str,
)
def test_a_table_of_ours_is_sound_and_the_report_says_what_was_looked_at(changes, quick):
    report = check(loaded(**changes), quick=quick)
    assert [str(finding) for finding in report] == []
    assert report.is_sound
    assert report.checked["commit"] == 3
    assert report.checked["footer"] >= 2
    assert (report.checked.get("key", 0) == 0) is quick
    if not quick:
        assert report.checked["key"] >= 60
        everywhere = changes == {"index": "global_simple"}
        assert report.checked.get("cross-checked key", 0) == (59 if everywhere else 0)


def test_verify_changes_nothing():
    storage = loaded()
    before = contents(storage)
    check(storage)
    assert contents(storage) == before


@pytest.mark.parametrize("name", [n for n in names() if n != "mor9_failed"])
def test_tables_of_apache_hudi_have_no_errors(name, tmp_path):
    report = verify(open_storage(str(unpack(name, tmp_path))), ManualClock(), LocalExecutor(1))
    assert [str(f) for f in report if f.severity is Severity.ERROR] == []


def test_the_base_file_of_a_failed_hudi_write_is_a_hazard(tmp_path):
    storage = open_storage(str(unpack("mor9_failed", tmp_path)))
    report = verify(storage, ManualClock(), LocalExecutor(1))
    [error] = [f for f in report if f.severity is Severity.ERROR]
    assert error.code is Code.UNCOMMITTED_BASE
    assert error.mend is Mend.DELETE_FILE
    assert "loses the logs" in error.message


def test_an_empty_table_is_sound():
    storage = memory_storage()
    make(storage)
    report = check(storage)
    assert report.is_sound
    assert "nothing is wrong" in str(report)


def test_no_table_is_an_error_of_the_caller():
    with pytest.raises(NotFoundError, match="no table here"):
        check(memory_storage())


def test_a_file_that_is_missing_is_named_and_the_others_are_still_checked():
    storage = loaded()
    paths = data_paths(storage)
    storage.delete(paths[0])
    finding = found(storage, Code.FILE_MISSING)
    assert finding.path == paths[0]
    assert finding.severity is Severity.ERROR
    assert finding.mend is None
    assert "savepoint" in finding.advice
    assert check(storage).checked["footer"] >= len(paths) - 1


def test_a_file_that_was_cut_is_told_from_one_that_grew():
    storage = loaded()
    path = data_paths(storage)[0]
    whole = storage.read(path)
    storage.put(path, whole[:-10])
    assert found(storage, Code.FILE_SIZE).severity is Severity.ERROR
    assert found(storage, Code.FILE_UNREADABLE).path == path
    storage.put(path, whole + b"x")
    assert found(storage, Code.FILE_SIZE).severity is Severity.WARNING


def test_a_torn_log_is_found():
    storage = loaded()
    log = next(
        e.path for e in storage.list() if ".log." in e.path and not e.path.startswith(".hoodie")
    )
    data = storage.read(log)
    storage.put(log, data[: len(data) // 2])
    codes = {finding.code for finding in check(storage, quick=True)}
    assert {Code.FILE_SIZE, Code.FILE_UNREADABLE} <= codes


def test_a_copy_that_no_commit_names_is_data_to_hudi_only():
    storage = loaded()
    path = data_paths(storage)[0]
    copy = path.replace("_1-1-0_", "_77-1-0_", 1)
    assert copy != path
    storage.put(copy, storage.read(path))
    finding = found(storage, Code.FILE_LEFTOVER)
    assert finding.path == copy
    assert finding.severity is Severity.WARNING
    assert finding.mend is Mend.DELETE_FILE
    assert "Apache Hudi" in finding.message


def test_a_base_file_of_an_instant_that_is_gone_is_an_error_and_its_log_a_note():
    storage = loaded()
    path = data_paths(storage)[0]
    name = parse_data_name(path.rpartition("/")[2])
    storage.put(path.replace(name.instant, LATE), storage.read(path))
    assert found(storage, Code.UNCOMMITTED_BASE).severity is Severity.ERROR
    storage.put(f"p0/.{name.file_id}_{LATE}.log.1_9-9-9", b"")
    assert found(storage, Code.FILE_LEFTOVER).severity is Severity.NOTE


@pytest.mark.parametrize("ending", [".parquet", "log"])
def test_a_flipped_bit_in_any_column_is_found_by_a_full_verification(ending):
    storage = loaded(partition_by=(), buckets=1)
    path = next(p for p in data_paths(storage, "") if p.endswith(".parquet") == (ending != "log"))
    whole = storage.read(path)
    # The column `v` is not a key, and no log of this table orders by it.
    begin = whole.index(b"PAR1") if ending == "log" else 0
    inner = pq.ParquetFile(io.BytesIO(_parquet_in(whole, begin)))
    chunk = inner.metadata.row_group(0).column(inner.schema_arrow.get_field_index("v"))
    at = begin + (chunk.dictionary_page_offset or chunk.data_page_offset)
    at += chunk.total_compressed_size - 1
    storage.put(path, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert check(storage, quick=True).is_sound
    finding = found(storage, Code.FILE_UNREADABLE)
    assert finding.path == path
    assert finding.severity is Severity.ERROR


def _parquet_in(data, begin):
    end = data.rindex(b"PAR1") + 4
    return data[begin:end]


def test_keys_out_of_order_are_found_only_by_a_full_verification():
    storage = loaded(table_type="COPY_ON_WRITE", partition_by=(), buckets=1)
    path = data_paths(storage)[-1]
    rewrite(storage, path, lambda rows: rows.take(pa.array([1, 0, *range(2, rows.num_rows)])))
    assert not [f for f in check(storage, quick=True) if f.code is Code.KEY_ORDER]
    finding = found(storage, Code.KEY_ORDER)
    assert finding.key == "k000"
    assert finding.path == path


def test_order_is_checked_across_batches_and_row_groups():
    storage = memory_storage()
    table = make(storage, table_type="COPY_ON_WRITE", partition_by=(), buckets=1)
    table.bulk_insert(batch(*((f"k{n:06}", n, 1, "p") for n in range(20_000))))
    [path] = data_paths(storage)
    last = 19_999
    rewrite(storage, path, lambda rows: rows.take(pa.array([*range(last), 5_000], pa.int64())))
    assert found(storage, Code.KEY_ORDER).key == "k005000"


def test_a_key_twice_in_a_file_is_found():
    storage = loaded(table_type="COPY_ON_WRITE", partition_by=(), buckets=1)
    path = data_paths(storage)[-1]
    rewrite(storage, path, lambda rows: rows.take(pa.array([0, 0, *range(1, rows.num_rows)])))
    finding = found(storage, Code.KEY_TWICE)
    assert (finding.key, finding.severity) == ("k000", Severity.ERROR)
    assert found(storage, Code.ROW_COUNT).severity is Severity.ERROR


def test_a_key_twice_in_a_file_without_order_is_found_wherever_it_lies():
    storage = loaded(table_type="COPY_ON_WRITE", partition_by=(), buckets=1)
    path = data_paths(storage)[-1]
    rewrite(
        storage,
        path,
        lambda rows: rows.take(pa.array([3, *range(1, rows.num_rows)])),
        {b"hudi.log.is_ordered": b"false"},
    )
    finding = found(storage, Code.KEY_TWICE)
    assert finding.severity is Severity.WARNING
    assert not [f for f in check(storage) if f.code is Code.KEY_ORDER]


def test_rows_without_a_key_are_found():
    storage = loaded(table_type="COPY_ON_WRITE", partition_by=(), buckets=1)

    def forget(rows):
        at = rows.schema.get_field_index("_hoodie_record_key")
        keys = [None, *rows.column(at).to_pylist()[1:]]
        return rows.set_column(at, rows.schema.field(at), pa.array(keys))

    rewrite(storage, data_paths(storage)[-1], forget)
    finding = found(storage, Code.KEY_MISSING)
    assert finding.severity is Severity.ERROR
    assert ": 1 rows have no record key" in finding.message


def test_a_key_in_the_wrong_bucket_is_found():
    storage = loaded(table_type="COPY_ON_WRITE", partition_by=(), buckets=2)
    path = data_paths(storage)[-1]

    def rename(rows):
        at = rows.schema.get_field_index("_hoodie_record_key")
        keys = [f"{key}y" for key in rows.column(at).to_pylist()]
        return rows.set_column(at, rows.schema.field(at), pa.array(keys))

    rewrite(storage, path, rename)
    finding = found(storage, Code.BUCKET_WRONG)
    assert finding.key.endswith("y")
    assert "bucket" in finding.message
    assert {f.path for f in check(storage) if f.code is Code.KEY_RANGE} == {path}


def test_two_file_groups_for_one_bucket_are_found():
    storage = loaded(table_type="COPY_ON_WRITE", partition_by=(), buckets=1)
    path = data_paths(storage)[-1]
    name = parse_data_name(path)
    other = path.replace(name.file_id[9:], "ffff-0")
    storage.put(other, storage.read(path))

    def name_it(metadata):
        [stat] = metadata.write_stats()
        return CommitMetadata(
            partition_to_write_stats={"": (stat, type(stat)(path=other, file_id="x"))},
            extra_metadata=metadata.extra_metadata,
            operation_type=metadata.operation_type,
        )

    [last, *_] = sorted(
        (e.path for e in storage.list(".hoodie/timeline") if e.path.endswith(".commit")),
        reverse=True,
    )
    storage.put(last, name_it(CommitMetadata.parse(storage.read(last), last)).encode())
    assert "2 file groups for bucket 0" in found(storage, Code.BUCKET_WRONG, quick=True).message


@pytest.mark.parametrize(
    ("index", "partition_by", "times"),
    [("simple", (), 1), ("global_simple", ("dt",), 1), ("simple", ("dt",), 0)],
)
def test_a_key_in_two_file_groups_is_found_where_the_index_says_it_is_one_row(
    index, partition_by, times
):
    storage = memory_storage()
    table = make(storage, index=index, partition_by=partition_by, table_type="COPY_ON_WRITE",
                 properties={"hoodie.parquet.small.file.limit": "0"})  # fmt: skip
    table.insert(batch(("a", 1, 1, "p0"), ("b", 1, 1, "p0")))
    table.insert(batch(("b", 2, 2, "p1"), ("c", 2, 2, "p1")))
    findings = [f for f in check(storage) if f.code is Code.KEY_IN_SEVERAL_GROUPS]
    assert len(findings) == times
    if times:
        assert findings[0].key == "b"
        assert "1 keys are" in findings[0].message


def test_rows_that_name_another_file_or_partition_are_found():
    storage = loaded(table_type="COPY_ON_WRITE")
    path = next(path for path in data_paths(storage) if path.startswith("p0/"))
    other = path.replace("p0/", "p1/")
    storage.put(path, storage.read(next(p for p in data_paths(storage) if p.startswith("p1/"))))
    assert other
    messages = [f.message for f in check(storage) if f.code is Code.META_COLUMN]
    assert any("_hoodie_partition_path" in message for message in messages)
    assert any("_hoodie_file_name" in message for message in messages)


def test_a_footer_with_a_range_that_is_too_narrow_hides_rows():
    storage = loaded(table_type="COPY_ON_WRITE", partition_by=(), buckets=1)
    path = data_paths(storage)[-1]
    rewrite(storage, path, lambda rows: rows, {b"hoodie_min_record_key": b"k005"})
    assert "'k005'" in found(storage, Code.KEY_RANGE).message
    assert not [f for f in check(storage, quick=True) if f.code is Code.KEY_RANGE]


def test_the_first_keys_of_row_groups_are_compared():
    storage = loaded(table_type="COPY_ON_WRITE", partition_by=(), buckets=1)
    path = data_paths(storage)[-1]
    rewrite(storage, path, lambda rows: rows, {b"lakebed.row_group_keys": b'["k007"]'})
    assert "row group 0" in found(storage, Code.KEY_RANGE).message


def test_a_column_of_another_type_is_found_from_the_footer():
    storage = loaded(table_type="COPY_ON_WRITE", partition_by=(), buckets=1)
    path = data_paths(storage)[-1]

    def as_text(rows):
        at = rows.schema.get_field_index("v")
        return rows.set_column(at, "v", pa.array(["x"] * rows.num_rows))

    rewrite(storage, path, as_text)
    assert "'v'" in found(storage, Code.FILE_SCHEMA, quick=True).message


def test_a_row_count_that_differs_from_the_commit_is_found_from_the_footer():
    storage = loaded(table_type="COPY_ON_WRITE", partition_by=(), buckets=1)
    rewrite(storage, data_paths(storage)[-1], lambda rows: rows.slice(1))
    assert found(storage, Code.ROW_COUNT, quick=True).severity is Severity.ERROR


def test_a_log_on_a_copy_on_write_table_is_found():
    storage = loaded()
    text = storage.read(".hoodie/hoodie.properties").replace(b"MERGE_ON_READ", b"COPY_ON_WRITE")
    storage.put(".hoodie/hoodie.properties", text)
    assert Code.LOG_WITHOUT_BASE in {f.code for f in check(storage, quick=True)}


def test_a_missing_partition_file_hides_the_partition_from_hudi():
    storage = loaded()
    storage.delete("p0/.hoodie_partition_metadata")
    finding = found(storage, Code.PARTITION_METADATA)
    assert (finding.severity, finding.mend) == (Severity.ERROR, Mend.WRITE_PARTITION_METADATA)
    storage.put("p0/.hoodie_partition_metadata", b"commitTime=1\npartitionDepth=7\n")
    assert "a depth of 7" in found(storage, Code.PARTITION_METADATA).message
    storage.put("p0/.hoodie_partition_metadata", b"nonsense")
    assert found(storage, Code.PARTITION_METADATA).severity is Severity.WARNING


def test_a_dead_write_is_told_from_one_with_a_heartbeat():
    storage = loaded()
    active = ActiveTimeline(storage)
    requested = "20231114222000000"
    active.create_requested(Action.DELTACOMMIT, requested)
    active.transition_to_inflight(Action.DELTACOMMIT, requested)
    note = found(storage, Code.INSTANT_PENDING)
    assert (note.severity, note.mend) == (Severity.NOTE, Mend.ROLL_BACK)
    old = found(storage, Code.INSTANT_PENDING, later_ms=2 * DAY_MS)
    assert old.severity is Severity.WARNING
    assert "has no heartbeat" in old.message
    now = 1_700_000_000_000 + 60_000
    beat = Beat("owner", "elsewhere", now, holds_lock=False)
    storage.put(heartbeat_path(requested), beat.encode())
    alive = found(storage, Code.INSTANT_PENDING)
    assert alive.mend is None
    assert "heartbeat" in alive.message


def test_a_plan_that_cannot_be_read_is_found():
    storage = loaded()
    ActiveTimeline(storage).create_requested(Action.COMPACTION, "20231114222000000", b"junk")
    assert found(storage, Code.INSTANT_UNREADABLE).instant == "20231114222000000"


def test_a_commit_that_cannot_be_read_does_not_make_its_files_leftovers():
    storage = loaded()
    path = next(e.path for e in storage.list(".hoodie/timeline") if e.path.endswith(".deltacommit"))
    storage.put(path, b"junk")
    report = check(storage)
    assert found(storage, Code.INSTANT_UNREADABLE).severity is Severity.ERROR
    assert not [f for f in report if f.mend is Mend.DELETE_FILE]


def test_names_that_contradict_each_other_are_found():
    storage = loaded()
    path = next(e.path for e in storage.list(".hoodie/timeline") if e.path.endswith(".deltacommit"))
    storage.put(path.replace("_2", "_3"), storage.read(path))
    assert "one completion time" in found(storage, Code.TIMELINE_BAD).message


def test_a_name_that_no_timeline_has_is_found_and_the_rest_is_checked():
    storage = loaded()
    storage.put(".hoodie/timeline/20231114222000000.nonsense.requested", b"")
    assert "nonsense" in found(storage, Code.TIMELINE_BAD).message
    assert check(storage).checked["commit"] == 3


def test_an_inflight_file_without_its_requested_one_is_found():
    storage = loaded()
    storage.put(".hoodie/timeline/20231114222000000.deltacommit.inflight", b"")
    assert found(storage, Code.INSTANT_STATES).severity is Severity.WARNING


def test_a_completion_that_is_not_after_its_beginning_is_found():
    storage = loaded()
    path = next(e.path for e in storage.list(".hoodie/timeline") if e.path.endswith(".deltacommit"))
    requested = path.rpartition("/")[2].partition("_")[0]
    data = storage.read(path)
    storage.delete(path)
    storage.put(f".hoodie/timeline/{requested}_{GONE}.deltacommit", data)
    assert found(storage, Code.INSTANT_STATES).severity is Severity.ERROR


def test_a_manifest_of_the_archive_that_names_a_missing_file_is_found():
    storage = loaded()
    folder = ".hoodie/timeline/history"
    storage.put(f"{folder}/_version_", b"1")
    name = f"{GONE}_{GONE}_0.parquet"
    content = {"files": [{"fileName": name, "fileLen": 5}]}
    storage.put(f"{folder}/manifest_1", json.dumps(content).encode())
    assert name in found(storage, Code.ARCHIVE_BAD).message


def test_locks_heartbeats_and_temporary_files_that_are_left_are_notes():
    storage = loaded()
    storage.put(heartbeat_path(GONE), b"")
    storage.put(f".hoodie/.temp/lakebed/{GONE}-x.arrow", b"1")
    storage.put(f".hoodie/.temp/{GONE}/p0/a.marker.CREATE", b"")
    storage.put(LOCK_FILE_PATH, LockFile("me", 5).encode())
    report = check(storage)
    assert {f.code for f in report} == {Code.HEARTBEAT_STALE, Code.TEMP_STALE, Code.LOCK}
    assert report.is_sound
    storage.put(LOCK_FILE_PATH, b"junk")
    assert found(storage, Code.LOCK).severity is Severity.ERROR


def test_a_lock_that_is_held_is_said_with_its_owner():
    storage = loaded()
    storage.put(LOCK_FILE_PATH, LockFile("somebody", 1_700_000_100_000).encode())
    assert "somebody holds the table's lock, for another 40 s" in found(storage, Code.LOCK).message


def test_a_wrong_checksum_of_the_properties_does_not_stop_the_verification():
    storage = loaded()
    path = ".hoodie/hoodie.properties"
    whole = storage.read(path)
    storage.put(path, whole.replace(b"hoodie.table.name=t", b"hoodie.table.name=u"))
    finding = found(storage, Code.PROPERTIES_CHECKSUM)
    assert finding.mend is Mend.WRITE_CHECKSUM
    assert check(storage).checked["commit"] == 3


def test_properties_that_were_cut_are_read_from_their_backup():
    storage = loaded()
    path = ".hoodie/hoodie.properties"
    whole = storage.read(path)
    storage.put(path, whole[:40])
    assert found(storage, Code.PROPERTIES_BAD).severity is Severity.ERROR
    assert "commit" not in check(storage).checked
    storage.put(f"{path}.backup", whole)
    assert found(storage, Code.PROPERTIES_BACKUP).mend is Mend.RESTORE_PROPERTIES
    storage.put(path, whole)
    assert found(storage, Code.PROPERTIES_BACKUP).mend is Mend.DELETE_BACKUP


def test_a_metadata_table_that_missed_a_commit_is_stale():
    storage = loaded()
    path = ".hoodie/hoodie.properties"
    storage.put(path, storage.read(path) + b"hoodie.table.metadata.partitions=files\n")
    assert "no metadata table" in found(storage, Code.METADATA_TABLE).message
    folder = ".hoodie/metadata/.hoodie/timeline"
    storage.put(f"{folder}/00000000000000000_{GONE}.deltacommit", b"")
    assert "lacks 3 commits" in found(storage, Code.METADATA_TABLE).message
    for entry in list(storage.list(".hoodie/timeline")):
        storage.put(f"{folder}/{entry.path.rpartition('/')[2]}", b"")
    assert Code.METADATA_TABLE not in {f.code for f in check(storage)}


def test_progress_is_told_for_every_slice():
    storage = loaded()
    told = []
    verify(
        storage,
        ManualClock(),
        LocalExecutor(1),
        progress=lambda what, done, total: told.append((what, done, total)),
    )
    total = told[0][2]
    assert told == [("file slices", n, total) for n in range(1, total + 1)]


class Busy:
    """A storage on which another process acts whenever the partition `p0` is listed."""

    def __init__(self, storage, act):
        self._storage, self._act = storage, act

    def __getattr__(self, name):
        return getattr(self._storage, name)

    def list(self, prefix=""):
        found = list(self._storage.list(prefix))
        if prefix == "p0":
            self._act()
        return iter(found)


def test_a_commit_that_comes_meanwhile_leaves_nothing_over_and_nothing_missing():
    storage = memory_storage()
    table = make(storage, table_type="COPY_ON_WRITE")
    table.bulk_insert(ROWS)
    pending = [MORE, ROWS]

    def commit():
        if pending:
            table.upsert(pending.pop())

    report = check(Busy(storage, commit))
    assert [str(finding) for finding in report] == []
    assert report.checked["commit"] == 3


def test_a_table_that_changes_while_keys_are_read_is_said_beside_the_findings():
    storage = loaded()
    storage.delete("p0/.hoodie_partition_metadata")
    active = ActiveTimeline(storage)
    report = verify(
        storage,
        ManualClock(1_700_000_060_000),
        LocalExecutor(1),
        progress=lambda what, done, total: (
            done == 1 and active.create_requested(Action.DELTACOMMIT, LATE)
        ),
    )
    assert {f.code for f in report} == {Code.PARTITION_METADATA, Code.TABLE_CHANGED}
