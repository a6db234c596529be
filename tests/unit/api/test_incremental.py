"""Reads of a range of time: which commits count, what their rows are, what is refused."""

import itertools
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakebed.api.table import Table
from lakebed.errors import CorruptError, InvalidError, SchemaError, UnsupportedError
from lakebed.format.logs.cdc import ENABLED, LOGGING_MODE, LoggingMode
from lakebed.format.names.instant_name import Action, InstantName, State
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.instant import parse_instant
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import update_properties
from lakebed.table.snapshot import load_snapshot
from support.fixtures import files
from support.machine_services import ARCHIVES, BY_HAND
from support.tables import SCHEMA, batch, copy_of, make, reopen

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
OLD = "hoodie.clean.commits.retained"
AT_ONCE = {"lakebed.clean.min.age.seconds": "0", OLD: "1"}


def new(table_type: str, **changes: Any) -> Table:
    """Make a table of one file group and one partition, without services by themselves."""
    arguments = {"ordering": ("ts",), "buckets": 1, "properties": BY_HAND}
    return make(table_type=table_type, **{**arguments, **changes})


def write(table: Table, *rows: tuple[str, int, int]) -> str:
    """Upsert (id, v, ts) and give the commit's completion time."""
    table.upsert(batch(*((*row, "p") for row in rows)))
    return last(table)


def last(table: Table) -> str:
    """Return the greatest completion time."""
    return max(table.history()["completion_time"].to_pylist())


def seen(table: Table, **arguments: Any) -> list[tuple[str, int]]:
    """Read incrementally; give key and value of each row in order."""
    rows = table.read(["id", "v"], **arguments).read_all().to_pylist()
    return sorted((row["id"], row["v"]) for row in rows)


def changes(table: Table, **arguments: Any) -> list[tuple[str, Any, Any]]:
    """Read change data; give op and the values before and after, commit by commit, in order."""
    rows = table.read(["id", "v"], mode="cdc", **arguments).read_all().to_pylist()
    rows.sort(key=lambda row: (row["ts_ms"], row["op"], str(row["before"]), str(row["after"])))
    return [
        (row["op"], *(side and (side["id"], side["v"]) for side in (row["before"], row["after"])))
        for row in rows
    ]


def delete(table: Table, *keys: str) -> str:
    table.delete([{"id": key, "dt": "p"} for key in keys])
    return last(table)


@pytest.fixture(params=[COW, MOR])
def table(request: pytest.FixtureRequest) -> Table:
    """Return an empty table of each type."""
    return new(request.param)


def test_a_range_begins_after_since_and_ends_with_until(table: Table):
    one = write(table, ("a", 1, 1), ("b", 1, 1))
    two = write(table, ("a", 2, 2))
    three = write(table, ("c", 3, 1))
    assert seen(table, since=one) == [("a", 2), ("c", 3)]
    assert seen(table, since=one, until=two) == [("a", 2)]
    assert seen(table, until=one) == [("a", 1), ("b", 1)]
    assert seen(table, since=two, until=two) == []
    assert seen(table, since=three) == []
    assert seen(table, since="earliest") == [("a", 2), ("b", 1), ("c", 3)]
    assert changes(table, since=one) == [("u", ("a", 1), ("a", 2)), ("i", None, ("c", 3))]
    assert changes(table, since=two, until=two) == []


def test_a_moment_comes_as_text_or_as_a_datetime(table: Table):
    one = write(table, ("a", 1, 1))
    write(table, ("b", 2, 1))
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=parse_instant(one, "UTC"))
    assert seen(table, since=moment) == [("b", 2)]
    text = moment.isoformat(sep=" ", timespec="milliseconds")
    assert seen(table, since=text) == [("b", 2)]
    assert seen(table, until=text) == [("a", 1)]
    assert seen(table, since="2000-01-01") == [("a", 1), ("b", 2)]


def test_deletes_are_no_rows_but_changes(table: Table):
    one = write(table, ("a", 1, 1), ("b", 1, 1))
    delete(table, "a", "never there")
    assert seen(table, since=one) == []
    assert changes(table, since=one) == [("d", ("a", 1), None)]


def test_a_late_row_changes_nothing(table: Table):
    one = write(table, ("a", 1, 5))
    write(table, ("a", 2, 4), ("b", 2, 4))
    assert changes(table, since=one) == [("i", None, ("b", 2))]
    assert seen(table, since=one) == [("b", 2)]


def test_an_update_that_changes_no_value_is_an_update(table: Table):
    one = write(table, ("a", 1, 1))
    write(table, ("a", 1, 1))
    assert changes(table, since=one) == [("u", ("a", 1), ("a", 1))]


def test_what_is_overwritten_is_deleted_and_what_comes_instead_inserted(table: Table):
    one = write(table, ("a", 1, 1), ("b", 1, 1))
    table.insert_overwrite(batch(("a", 9, 0, "p")))
    two = last(table)
    table.delete_partitions(["p"])
    assert changes(table, since=one, until=two) == [
        ("d", ("a", 1), None),
        ("d", ("b", 1), None),
        ("i", None, ("a", 9)),
    ]
    assert changes(table, since=two) == [("d", ("a", 9), None)]
    assert seen(table, since=one, until=two) == [("a", 9)]
    assert seen(table, since=one) == []


def test_services_change_nothing():
    table = new(MOR)
    one = write(table, ("a", 1, 1), ("b", 1, 5))
    two = write(table, ("a", 2, 2), ("b", 2, 4))
    table.compact("full")
    three = last(table)
    assert three > two
    assert seen(table, since=two) == []
    assert changes(table, since=two) == []
    assert changes(table, since=one) == [("u", ("a", 1), ("a", 2))]
    # The compaction has settled that the row of b lost.
    assert seen(table, since=one) == [("a", 2)]
    write(table, ("b", 3, 3))
    assert seen(table, since=two) == []
    assert changes(table, since=two) == []


def test_under_the_default_layout_a_late_row_is_shown_until_a_compaction_as_in_hudi():
    table = new(MOR, layout="default")
    one = write(table, ("a", 1, 1), ("b", 1, 5))
    two = write(table, ("a", 2, 2), ("b", 2, 4))
    assert seen(table, since=one) == [("a", 2), ("b", 2)]
    table.compact("full")
    assert seen(table, since=one) == [("a", 2)]
    write(table, ("b", 3, 3))
    # Rows of no commit of the range do not take part, as in Hudi 1.2.0.
    assert seen(table, since=two) == [("b", 3)]


LOG_COMPACTED = {"k1": "n1b", "k2": "n2y", "k3": "n3", "k4": "n4z", "k5": "n5", "k7": "n7"}


def log_compacted() -> tuple[Table, list[str]]:
    """Return a table in which Hudi joined logs twice, and the completion times of its commits.

    The seven commits: six rows; k1, k7 and a late k2; k0 deleted; the first two logs joined; k4; k2; the
    joined log and the two logs after it joined again.
    """
    table = reopen(copy_of(files("mor9_logcompact")))
    return table, sorted(table.history()["completion_time"].to_pylist())


def named(table: Table, **arguments: Any) -> dict[str, str]:
    rows = table.read(["id", "name"], **arguments).read_all().to_pylist()
    found = {row["id"]: row["name"] for row in rows}
    assert len(found) == len(rows), "a key occurs twice"
    return found


def test_a_log_compaction_of_hudis_writes_no_rows():
    table, ends = log_compacted()
    ranges = [named(table, since=a, until=b) for a, b in itertools.pairwise(["000", *ends])]
    assert ranges[1:] == [
        {"k1": "n1b", "k2": "old", "k7": "n7"},
        {},
        {},
        {"k4": "n4z"},
        {"k2": "n2y"},
        {},
    ]
    assert named(table, since="000") == LOG_COMPACTED
    changed = table.read(["id"], mode="cdc", since="000").read_all()["ts_ms"].to_pylist()
    history = table.history().to_pylist()
    joins = {row["instant"] for row in history if row["operation"] == "LOG_COMPACT"}
    assert len(joins) == 2
    assert not joins & set(changed)


def test_rows_that_hudi_joined_count_by_their_own_commits_after_a_full_compaction_too():
    table, ends = log_compacted()
    table.compact("full")
    assert named(table, since="000") == LOG_COMPACTED
    # All that was joined was written in the range: the base file can be read.
    assert named(table, since=ends[0]) == {"k1": "n1b", "k2": "n2y", "k4": "n4z", "k7": "n7"}
    for since, rows in zip(
        ends[2:],
        ({"k2": "n2y", "k4": "n4z"}, {"k2": "n2y", "k4": "n4z"}, {"k2": "n2y"}, {}, {}),
        strict=True,
    ):
        assert named(table, since=since) == rows


def test_rows_that_hudi_joined_are_not_counted_where_what_they_were_joined_from_is_gone():
    table, ends = log_compacted()
    table.compact("full")
    [joined] = [
        row["instant"] for row in table.history().to_pylist() if row["completion_time"] == ends[5]
    ]
    for entry in list(table._storage.list("2024-01-01")):
        if joined in entry.path:
            table._storage.delete(entry.path)
    assert named(table, since="000") == LOG_COMPACTED
    with pytest.raises(InvalidError, match=f"{joined}.* no longer exists"):
        named(table, since=ends[4])
    assert named(table, since=ends[5]) == {}


def test_clustering_changes_nothing():
    apart = {**BY_HAND, "hoodie.parquet.small.file.limit": "0"}
    table = new(COW, index="simple", properties=apart)
    one = write(table, ("a", 1, 1))
    write(table, ("b", 2, 1))
    before = changes(table)
    assert table.cluster() is not None
    assert changes(table) == before
    assert seen(table, since=one) == [("b", 2)]
    assert changes(table, since=one) == [("i", None, ("b", 2))]


def test_changed_columns_come_in_whole_rows():
    table = new(MOR)
    one = write(table, ("a", 1, 1), ("b", 1, 1))
    table.update_columns(pa.table({"id": ["a"], "dt": ["p"], "ts": [2]}))
    assert table.read(since=one).read_all().to_pylist() == [{"id": "a", "v": 1, "ts": 2, "dt": "p"}]
    assert changes(table, since=one) == [("u", ("a", 1), ("a", 1))]


def test_a_late_update_of_other_columns_changes_nothing():
    table = new(MOR)
    one = write(table, ("a", 1, 1), ("b", 1, 1))
    table.update_columns(pa.table({"id": ["a"], "dt": ["p"], "ts": [5]}))
    two = last(table)
    table.update_columns(pa.table({"id": ["a"], "dt": ["p"], "ts": [3], "v": [3]}))
    assert ("a", 1) in seen(table)
    assert changes(table, since=two) == []
    assert changes(table, since=one, until=two) == [("u", ("a", 1), ("a", 1))]


@pytest.mark.parametrize("logged", [True, False])
@pytest.mark.parametrize("table_type", [COW, MOR])
def test_a_row_that_a_late_one_fills_was_changed_by_it(table_type: str, logged: bool):
    payload = "org.apache.hudi.common.model.PartialUpdateAvroPayload"
    properties = {**BY_HAND, "hoodie.compaction.payload.class": payload}
    table = new(table_type, properties=properties | ({ENABLED: "true"} if logged else {}))
    rows = [{"id": key, "v": v, "ts": 5, "dt": "p"} for key, v in (("a", None), ("b", 5))]
    table.upsert(pa.Table.from_pylist(rows, SCHEMA))
    one = last(table)
    write(table, ("a", 3, 3), ("b", 3, 3))
    assert seen(table) == [("a", 3), ("b", 5)]
    assert changes(table, since=one) == [("u", ("a", None), ("a", 3))]
    # The row is then one of the late commit, as in Hudi; a row that has nothing to fill is not.
    assert seen(table, since=one) == [("a", 3)]


def test_rows_have_the_columns_of_now(table: Table):
    write(table, ("a", 1, 1))
    grown = SCHEMA.append(pa.field("note", pa.string()))
    table.upsert(pa.table([["a"], [2], [2], ["p"], ["new"]], schema=grown), evolve=True)
    [_, second] = table.read(["note"], mode="cdc").read_all().to_pylist()
    assert (second["before"], second["after"]) == ({"note": None}, {"note": "new"})


def rename_completion(storage: Storage, requested: str, completion: str) -> None:
    """Let an instant be completed at another time."""
    for name in list(storage.names(".hoodie/timeline")):
        parsed = InstantName.parse(name)
        if parsed and parsed.requested == requested and parsed.state is State.COMPLETED:
            later = InstantName(requested, Action.DELTACOMMIT, State.COMPLETED, completion)
            data = storage.read(f".hoodie/timeline/{name}")
            storage.put(f".hoodie/timeline/{later.encode()}", data)
            storage.delete(f".hoodie/timeline/{name}")


def test_of_writers_that_overlap_the_one_that_ended_last_changed_the_table_last():
    table = new(MOR, ordering=())
    zero = write(table, ("a", 0, 0), ("b", 0, 0))
    write(table, ("a", 1, 1), ("b", 1, 1))
    slow = max(table.history()["instant"].to_pylist())
    two = write(table, ("a", 2, 2))
    end = str(int(two) + 5)
    rename_completion(table._storage, slow, end)
    table = reopen(table._storage)
    # It began first, so its row of a was never seen.
    assert changes(table, since=zero, until=two) == [("u", ("a", 0), ("a", 2))]
    assert changes(table, since=two) == [("u", ("b", 0), ("b", 1))]
    assert seen(table, since=two, until=end) == [("b", 1)]
    assert seen(table, since=zero) == [("a", 2), ("b", 1)]


def test_changes_whose_files_are_gone_are_refused_by_name(table: Table):
    one = write(table, ("a", 1, 1))
    two = write(table, ("a", 2, 2))
    if table.config.table_type == MOR:
        table.compact("full")
    three = write(table, ("a", 3, 3))
    four = write(table, ("a", 4, 4))
    assert table.clean(options=AT_ONCE) is not None
    assert seen(table, since=one) == [("a", 4)]
    assert seen(table, since="earliest") == [("a", 4)]
    with pytest.raises(InvalidError, match=r"no longer exists.*start later"):
        seen(table, since=one, until=two)
    with pytest.raises(InvalidError, match="no longer exists: it was cleaned"):
        changes(table, since=one)
    assert changes(table, since=three, until=four) == [("u", ("a", 3), ("a", 4))]


def test_archived_commits_count(table: Table):
    ends = [write(table, ("a", n, n), (f"k{n}", n, n)) for n in range(8)]
    if table.config.table_type == COW:
        assert table.clean(options=AT_ONCE) is not None
    assert table.archive(options=ARCHIVES) is not None
    assert table.history()["archived"].to_pylist().count(True) == 6
    keys = [(f"k{n}", n) for n in range(8)]
    assert seen(table, since="earliest") == [("a", 7), *keys]
    assert seen(table, since=ends[1])[1:] == keys[2:]
    if table.config.table_type == COW:
        with pytest.raises(InvalidError, match="no longer exists"):
            changes(table, since=ends[1])
        # What was there before is known from the archive alone.
        with pytest.raises(InvalidError, match="no longer exists"):
            changes(table, since=ends[5], until=ends[6])
    else:
        inserted = [("i", None, (f"k{n}", n)) for n in range(8)]
        first, *updated = [("u", ("a", n - 1), ("a", n)) for n in range(8)]
        assert first
        assert sorted(changes(table)) == sorted(
            [*inserted, ("i", None, ("a", 0)), *updated], key=str
        )
    assert changes(table, since=ends[6]) == [
        ("i", None, ("k7", 7)),
        ("u", ("a", 6), ("a", 7)),
    ]


def test_changes_below_a_compaction_that_is_archived_are_read_from_its_base_file():
    table = new(MOR)
    write(table, ("a", 0, 0))
    two = write(table, ("a", 1, 1))
    table.schedule_compaction()
    table.upsert(batch(("a", 3, 3, "p")))
    table.compact()
    three = max(
        r["completion_time"] for r in table.history().to_pylist() if r["action"] == "deltacommit"
    )
    write(table, ("b", 4, 4))
    assert table.clean(options=AT_ONCE) is not None
    assert table.archive(options=ARCHIVES) is not None
    assert "commit" in table.history().filter(pc.field("archived"))["action"].to_pylist()
    assert changes(table, since=two, until=three) == [("u", ("a", 1), ("a", 3))]


def test_a_log_that_a_cleaning_half_way_took_is_missed_although_its_commit_is_archived():
    table = new(MOR)
    ends = [write(table, ("a", n, n)) for n in range(8)]
    assert table.archive(options=ARCHIVES) is not None
    archived = table.history().filter(pc.field("archived"))["instant"].to_pylist()
    assert changes(table, since=ends[5], until=ends[6]) == [("u", ("a", 5), ("a", 6))]
    [path] = [f["path"] for f in table.files().to_pylist() if f["instant"] == archived[0]]
    table._storage.delete(path)
    with pytest.raises(InvalidError, match=re.escape(f"{path} no longer exists")):
        changes(reopen(table._storage), since=ends[5], until=ends[6])


def logged(mode: LoggingMode, version: int) -> tuple[Table, str]:
    """Make a table that logs changes, and tell when its first commit was completed."""
    own = {**BY_HAND, ENABLED: "true", LOGGING_MODE: mode}
    table = new(COW, properties=own, table_version=version)
    one = write(table, ("a", 1, 1), ("b", 1, 1), ("c", 1, 5))
    write(table, ("a", 2, 2), ("c", 2, 4), ("d", 2, 2))
    delete(table, "b")
    return table, one


LOGGED = [("i", None, ("d", 2)), ("u", ("a", 1), ("a", 2)), ("d", ("b", 1), None)]


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("mode", list(LoggingMode))
def test_changes_are_the_same_however_they_are_logged(mode: LoggingMode, version: int):
    table, one = logged(mode, version)
    storage = table._storage
    assert changes(table, since=one) == LOGGED
    first = min(table.history()["instant"].to_pylist())
    paths = [entry.path for entry in storage.list("p")]
    assert len([path for path in paths if "cdc" in path]) == 2
    for path in paths:
        if path.endswith(f"_{first}.parquet"):
            storage.delete(path)
    table = reopen(storage)
    if mode is LoggingMode.OP_KEY_ONLY:
        with pytest.raises(InvalidError, match="no longer exists"):
            changes(table, since=one)
    else:
        assert changes(table, since=one) == LOGGED
    for path in paths:
        if "cdc" in path:
            storage.delete(path)
    with pytest.raises(InvalidError, match="no longer exists"):
        changes(reopen(storage), since=one)


@pytest.mark.parametrize("version", [9, 10])
def test_change_data_that_is_gone_is_made_good_by_the_base_files(version: int):
    table, one = logged(LoggingMode.DATA_BEFORE_AFTER, version)
    for entry in list(table._storage.list("p")):
        if "cdc" in entry.path:
            table._storage.delete(entry.path)
    assert changes(reopen(table._storage), since=one) == LOGGED


@pytest.mark.parametrize("version", [9, 10])
def test_change_data_that_was_cut_is_refused(version: int):
    table, one = logged(LoggingMode.DATA_BEFORE_AFTER, version)
    storage = table._storage
    path = next(entry.path for entry in storage.list("p") if "cdc" in entry.path)
    whole = storage.read(path)
    # Whatever is missing, the commit tells: a few hundred lengths, and any near the end.
    for length in {
        *range(1, len(whole), 1 + len(whole) // 300),
        *range(len(whole) - 20, len(whole)),
    }:
        storage.put(path, whole[:length])
        with pytest.raises(CorruptError, match="cdc"):
            changes(table, since=one)
    storage.put(path, b"")
    with pytest.raises(CorruptError, match="cdc"):
        changes(table, since=one)


def test_a_log_that_was_cut_is_no_shorter_range():
    table = new(MOR)
    one = write(table, ("a", 1, 1))
    write(table, ("a", 2, 2))
    [path] = [f["path"] for f in table.files().to_pylist() if f["level"] == "L0"][-1:]
    storage = table._storage
    storage.put(path, storage.read(path)[:-20])
    for mode in ("snapshot", "cdc"):
        with pytest.raises(CorruptError, match="it was truncated, and rows are missing"):
            reopen(storage).read(since=one, mode=mode)


def test_a_key_that_comes_twice_in_a_base_file_is_refused():
    table = new(COW)
    one = write(table, ("a", 1, 1), ("b", 1, 1))
    write(table, ("a", 2, 2))
    [file] = table.files().to_pylist()
    doubled = table.read(
        ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", *SCHEMA.names]
    ).read_all()
    sink = pa.BufferOutputStream()
    padded = doubled.replace_schema_metadata({"so that it is": "long enough" * 500})
    pq.write_table(pa.concat_tables([padded, padded]), sink)
    table._storage.put(file["path"], sink.getvalue().to_pybytes())
    with pytest.raises(UnsupportedError, match="occurs more than once"):
        changes(reopen(table._storage), since=one)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"since": "2024-01-02", "until": "2024-01-01"}, InvalidError, "is after until"),
        ({"since": "yesterday"}, InvalidError, "expected an instant of 14 or 17 digits"),
        ({"since": "000", "as_of": "2024-01-01"}, InvalidError, "as_of cannot be combined"),
        ({"mode": "cdc", "as_of": "2024-01-01"}, InvalidError, "as_of cannot be combined"),
        ({"since": "000", "mode": "read_optimized"}, InvalidError, "base files do not hold"),
        ({"mode": "cdc", "where": "v > 1"}, UnsupportedError, "filter the returned change rows"),
        ({"mode": "cdc", "columns": ["_hoodie_record_key"]}, InvalidError, "have no meta columns"),
        ({"since": "000", "columns": ["nope"]}, SchemaError, "no column 'nope'"),
        (
            {"mode": "incremental"},
            UnsupportedError,
            "expected one of snapshot, read_optimized, cdc",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: dict[str, Any], error: type[Exception], text: str
):
    table = new(COW)
    write(table, ("a", 1, 1))
    with pytest.raises(error, match=text):
        table.read(**arguments)


@pytest.mark.parametrize("kept", ["NONE", "file_name_only", "COMMIT_TIME_ONLY"])
def test_a_table_that_keeps_only_some_meta_columns_is_refused_and_not_without_changes(kept: str):
    table = new(COW, table_version=10)
    write(table, ("a", 1, 1))
    update_properties(table._storage, {"hoodie.meta.fields.mode": kept})
    for mode in ("snapshot", "cdc"):
        with pytest.raises(UnsupportedError, match=f"hoodie.meta.fields.mode={kept.upper()}"):
            reopen(table._storage).read(since="earliest", mode=mode)


def test_what_was_written_while_buckets_were_resized_is_refused_and_later_changes_are_not():
    table = new(MOR)
    one = write(table, ("a", 1, 1))
    two = write(table, ("a", 2, 2))
    storage, active = table._storage, load_snapshot(table._storage, table.config).commits.active
    # Hudi's writers name a log in the bucket to come after the clustering.
    commit = active.load().commits[-1]
    metadata = CommitMetadata.parse(active.read(commit), "a commit")
    [stat] = metadata.write_stats()
    child = f"p/.{'1' * 8}-1111-4111-8111-{'1' * 12}-0_{int(two) + 1}.log.1_0-0-0"
    stats = {"p": (stat, replace(stat, path=child, file_id=child[3:41]))}
    name = commit.name_of(State.COMPLETED).encode()
    changed = replace(metadata, partition_to_write_stats=stats)
    storage.put(f"{table.config.timeline_path}/{name}", changed.encode())
    write(table, ("a", 3, 3))
    later = reopen(storage)
    for mode in ("snapshot", "cdc"):
        with pytest.raises(UnsupportedError, match="while buckets were resized"):
            later.read(since=one, mode=mode)
    assert changes(later, since=two) == [("u", ("a", 2), ("a", 3))]
    assert seen(later, since=two) == [("a", 3)]


def test_a_predicate_leaves_rows_out(table: Table):
    one = write(table, ("a", 1, 1), ("b", 1, 1))
    write(table, ("a", 2, 2), ("b", 3, 2), ("c", 4, 1))
    assert seen(table, since=one, where="v > 2 and id < 'c'") == [("b", 3)]
    assert seen(table, since=one, where="id = 'a'") == [("a", 2)]


def test_an_empty_table_has_no_changes(table: Table):
    assert seen(table, since="000") == []
    assert changes(table) == []
