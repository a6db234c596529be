"""Verify and repair look at each column group of a file group, and at the keys they hold together."""

import io
import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.api.table import Table
from lakebed.errors import CorruptError
from lakebed.format.names.data_names import parse_data_name
from lakebed.groups.definition import INSTANTS_PROPERTY
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.compaction.merge import CompactionTask
from lakebed.services.verify.findings import Code, Mend, Severity
from lakebed.services.verify.plan import plan_repair
from lakebed.services.verify.repair import repair
from lakebed.services.verify.verify import verify
from lakebed.storage.objects import memory_storage
from lakebed.table.config.properties_file import load_config
from support.tables import contents, make, one_thread, reopen

PROPERTIES = ".hoodie/hoodie.properties"
NUMBERS = ("id", "ts", "scored_at", "a")
SCHEMA = pa.schema(
    [("name", pa.string()), ("score", pa.float64()), *((name, pa.int64()) for name in NUMBERS)]
)
GROUPS = {"risk": "score;scored_at", "ab": ["a"]}
NAMES = ["", "ab", "risk"]
SHORT = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "lakebed.clean.min.age.seconds": "0",
}
BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
ROWS = [
    {"id": i, "ts": 5, "name": f"n{i}", "score": i / 2, "scored_at": 5, "a": i} for i in range(20)
]


def rows(*held):
    """Return rows of the columns that the first has."""
    return pa.Table.from_pylist(
        list(held), schema=pa.schema([SCHEMA.field(name) for name in held[0]])
    )


def loaded(**properties):
    """Return a table with a load, partial writes of each group, new keys in each, and deletes."""
    table = make(
        memory_storage(),
        ManualClock(step_ms=1),
        SCHEMA,
        table_type="MERGE_ON_READ",
        table_version=10,
        partition_by=(),
        ordering=("ts",),
        column_groups=GROUPS,
        properties={**BY_HAND, **properties},
    )
    table.bulk_insert(rows(*ROWS))
    table.update_columns(rows({"id": 1, "ts": 6, "name": "one"}, {"id": 100, "ts": 6, "name": "x"}))
    table.upsert(
        rows({"id": 2, "score": 9.0, "scored_at": 6}, {"id": 101, "score": 1.0, "scored_at": 1})
    )
    table.update_columns(rows({"id": 3, "ts": 6, "a": 33}, {"id": 102, "ts": 6, "a": 102}))
    table.delete([{"id": 4}, {"id": 5}])
    return table


def archive(table):
    """Archive most of the commits; return compactions of the group "ab" alone, oldest first.

    The first is of one bucket, and all others of the other.
    """
    table.compact()
    found = []
    for ts in range(10, 16):
        table.update_columns(rows({"id": 6 if ts == 10 else 7, "ts": ts, "a": ts}))
        found += [done.instant for done in table.compact()]
    table.clean(options=SHORT)
    assert table.archive(options=SHORT) is not None
    return found


def late_delete(table):
    """Delete 100, new in the default group, by an ordering that wins in "risk" and loses there."""
    gone = {"id": 100, "ts": 2, "name": "", "score": 0.0, "scored_at": 9, "a": 0}
    marked = rows(gone).append_column("_hoodie_is_deleted", pa.array([True]))
    table.upsert(marked)


def check(table, *, quick=False):
    return verify(table._storage, ManualClock(1_700_000_060_000), LocalExecutor(1), quick=quick)


def told(report):
    return [str(finding) for finding in report]


def by_id(table):
    held = reopen(table._storage, table._clock).read().read_all().to_pylist()
    return {row["id"]: row for row in held}


def paths(table, group, kind=".parquet"):
    """Return the files of one column group, base files first."""
    found = []
    for entry in table._storage.list():
        name = parse_data_name(entry.path.rpartition("/")[2])
        if name is not None and name.column_group == group and not entry.path.startswith(".hoodie"):
            found.append((type(name).__name__, entry.path))
    return [path for _, path in sorted(found) if path.endswith(kind)]


def bases(table, group):
    """Return the base files that were loaded."""
    return paths(table, group)[:2]


def rewrite(storage, path, change):
    """Write a file anew with other rows and the same footer."""
    file = pq.ParquetFile(io.BytesIO(storage.read(path)))
    changed = change(file.read())
    marks = {k: v for k, v in file.metadata.metadata.items() if k != b"ARROW:schema"}
    out = io.BytesIO()
    with pq.ParquetWriter(out, changed.schema, store_schema=False) as writer:
        writer.write_table(changed)
        writer.add_key_value_metadata(marks)
    storage.put(path, out.getvalue())


def define(table, change):
    """Change the lines of the table's properties."""
    storage = table._storage
    lines = storage.read(PROPERTIES).decode().splitlines()
    storage.put(PROPERTIES, "".join(f"{line}\n" for line in change(lines)).encode())


def without(*names):
    starts = tuple(f"hoodie.columngroup.{name}=" for name in names)
    return lambda lines: [line for line in lines if not line.startswith(starts)]


def limited(**instants):
    line = f"{INSTANTS_PROPERTY}={json.dumps(instants)}"
    return lambda lines: [*lines, line]


class Forgetful(LocalExecutor):
    """Runs compactions that add no keys of other column groups."""

    def run(self, task, items, what):
        found = [replace(i, further=()) if isinstance(i, CompactionTask) else i for i in items]
        return super().run(task, found, what)


def compact_forgetfully(table):
    engines = one_thread()
    engines.main.executor = Forgetful(1)
    Table(table._storage, load_config(table._storage), engines, table._clock).compact()


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("state", ["logs", "compacted", "planned", "logs on top", "late delete"])
def test_a_table_of_ours_is_sound(state, quick):
    table = loaded()
    if state == "planned":
        table.schedule_compaction()
    elif state != "logs":
        if state == "late delete":
            late_delete(table)
        table.compact()
    if state in ("planned", "logs on top"):
        table.update_columns(rows({"id": 7, "ts": 7, "a": 7}, {"id": 103, "ts": 7, "a": 103}))
        table.delete([{"id": 8}])
    report = check(table, quick=quick)
    assert [line for line in told(report) if "is requested" not in line] == []
    assert report.checked["column group"] == 3
    assert report.checked["file group"] == 6
    assert report.checked.get("compared base file", 0) == (0 if quick else 6)
    assert (report.checked["key"] > 0) is not quick


def test_files_of_a_group_that_was_never_defined_are_named_and_the_others_are_checked():
    table = loaded()
    define(table, without("risk"))
    with pytest.raises(CorruptError, match="no column group 'risk'"):
        by_id(table)
    report = check(table)
    assert {f.code for f in report} == {Code.COLUMN_GROUP}
    assert {f.severity for f in report} == {Severity.ERROR}
    assert all("'risk'" in line for line in told(report))
    assert report.checked["file group"] == 4
    ours = bases(table, "ab")[0]
    table._storage.put(ours, table._storage.read(ours)[:-9])
    assert Code.FILE_UNREADABLE in {f.code for f in check(table, quick=True)}


@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("gone", [False, True])
def test_files_of_a_dropped_group_may_stay_or_go(gone, archived):
    table = loaded()
    until = table.history().to_pylist()[0]["instant"]
    if archived:
        until = archive(table)[-1]
    define(table, limited(risk=[None, until]))
    if gone:
        for path in paths(table, "risk"):
            table._storage.delete(path)
    report = check(table)
    assert told(report) == []
    assert report.checked["column group"] == 2
    if gone:
        define(table, limited(risk=[None, "20991231000000000"]))
        assert {f.code for f in check(table)} == {Code.FILE_MISSING}


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("group", NAMES)
def test_a_lost_file_of_one_group_is_named(group, cut):
    table = loaded()
    path = bases(table, group)[0]
    data = table._storage.read(path)
    table._storage.delete(path)
    if cut:
        table._storage.put(path, data[:-9])
    errors = [f for f in check(table, quick=True) if f.severity is Severity.ERROR]
    assert {f.path for f in errors} == {path}
    assert (Code.FILE_SIZE if cut else Code.FILE_MISSING) in {f.code for f in errors}


def test_a_file_has_the_columns_of_its_group_only():
    table = loaded()
    path = bases(table, "risk")[0]
    rewrite(
        table._storage, path, lambda held: held.append_column("a", pa.array([0] * held.num_rows))
    )
    [finding] = [f for f in check(table, quick=True) if f.code is Code.FILE_SCHEMA]
    assert finding.path == path
    assert "columns of other column groups: a" in finding.message
    # Before a group took the column, it belonged to another.
    last = table.history().to_pylist()[0]["instant"]
    define(table, limited(ab=[last, None]))
    assert Code.FILE_SCHEMA not in {f.code for f in check(table, quick=True)}


def _reversed(held):
    return held.take(list(range(held.num_rows))[::-1])


def _strange(held):
    """Return rows of which one has a key of the other bucket."""
    at = held.schema.get_field_index("_hoodie_record_key")
    keys = held.column(at).to_pylist()
    other = next(str(i) for i in range(20) if str(i) not in keys)
    changed = sorted([*keys[1:], other])
    return held.set_column(at, "_hoodie_record_key", pa.array(changed, held.schema.field(at).type))


@pytest.mark.parametrize("group", NAMES)
@pytest.mark.parametrize(
    ("change", "code"), [(_reversed, Code.KEY_ORDER), (_strange, Code.BUCKET_WRONG)]
)
def test_keys_are_checked_in_each_group(group, change, code):
    table = loaded()
    path = bases(table, group)[0]
    rewrite(table._storage, path, change)
    assert path in {f.path for f in check(table) if f.code is code}
    assert code not in {f.code for f in check(table, quick=True)}


@pytest.mark.parametrize("group", NAMES)
def test_keys_that_a_base_file_lacks_are_found_and_completed(group):
    table = loaded()
    before = by_id(table)
    compact_forgetfully(table)
    found = {f.path: f for f in check(table) if f.code is Code.GROUP_KEYS}
    lacking = {path for path in found if parse_data_name(path).column_group == group}
    # Each group has one new key of three, and the buckets hold them in one base file or two.
    assert lacking
    assert {f.severity for f in found.values()} == {Severity.ERROR}
    assert {f.key for f in found.values()} <= {"100", "101", "102"}
    assert check(table, quick=True).is_sound
    mended = reopen(table._storage, table._clock)
    assert mended.repair().plan.steps == ()
    plan = mended.repair(dry_run=True, drop_lost=True).plan
    assert {step.mend for step in plan.steps} == {Mend.COMPLETE_KEYS}
    done = mended.repair(drop_lost=True)
    assert (done.done.skipped, done.done.dropped) == ((), ())
    assert told(check(table)) == []
    assert by_id(table) == before
    for name in ("name", "score", "a"):
        assert mended.read(columns=[name]).read_all().num_rows == len(before)


def test_a_tombstone_beside_a_base_file_stands_for_its_key():
    table = loaded()
    table.compact()
    late_delete(table)
    compact_forgetfully(table)
    [path] = paths(table, "risk", "_risk_0.deletes.parquet")
    assert told(check(table)) == []
    table._storage.delete(path)
    assert [f.key for f in check(table) if f.code is Code.GROUP_KEYS] == ["100"]


def test_keys_are_compared_with_those_that_were_there_when_the_base_file_was_begun():
    table = loaded()
    plan = table.schedule_compaction()
    table.update_columns(rows({"id": 103, "ts": 7, "a": 103}, {"id": 104, "ts": 7, "a": 104}))
    table.compact(instant=plan.instant.requested)
    report = check(table)
    assert told(report) == []
    assert report.checked["compared base file"] == 6


def test_keys_of_a_file_that_cannot_be_read_are_not_compared():
    table = loaded()
    path = bases(table, "ab")[0]
    table._storage.put(path, table._storage.read(path)[:-9])
    notes = [f for f in check(table) if f.severity is Severity.NOTE]
    assert any("not compared with other column groups" in f.message for f in notes)


@pytest.mark.parametrize("lost", [[""], ["ab"], ["risk"], ["", "risk"], NAMES], ids=str)
@pytest.mark.parametrize("keep", [False, True])
def test_a_damaged_group_is_replaced_and_rows_keep_the_values_of_the_others(lost, keep):
    table = loaded()
    storage, before = table._storage, by_id(table)
    owned = {"": ("ts", "name"), "ab": ("a",), "risk": ("score", "scored_at")}
    hurt = {key: dict(row) for key, row in before.items()}
    buckets = {}
    for group in lost:
        path = bases(table, group)[0]
        buckets = set(pq.read_table(io.BytesIO(storage.read(path))).column("id").to_pylist())
        storage.delete(path)
    there = set(contents(storage))
    mended = reopen(storage, table._clock)
    left = mended.repair(drop_lost=True, keep_readable=keep).done
    [dropped] = left.dropped
    assert dropped.column_groups == tuple(lost)
    assert "column groups" in str(dropped)
    assert there <= set(contents(storage))
    assert told(check(table)) == []
    after = by_id(table)
    for key, row in hurt.items():
        if key in buckets:
            for group in lost:
                row.update(dict.fromkeys(owned[group]))
    # Updates of 1 to 3 are in logs, of which those of a damaged group stay only with `keep`.
    ordinary = set(range(20)) - {4, 5} - ({1, 2, 3} if keep else set())
    assert keep or dropped.rows_kept == 0
    kept = [key for key in ordinary if key not in buckets or len(lost) < 3]
    assert [after[key] for key in kept] == [hurt[key] for key in kept]
    for name in ("name", "score", "a"):
        assert mended.read(columns=[name]).read_all().num_rows == len(after)
    mended.upsert(rows(*ROWS))
    mended.compact()
    assert told(check(table)) == []


def test_what_can_be_read_of_a_damaged_group_stays():
    table = loaded()
    before = by_id(table)
    [path] = paths(table, "ab", "_1.log.parquet")
    table._storage.delete(path)
    [dropped] = (
        reopen(table._storage, table._clock).repair(drop_lost=True, keep_readable=True).done.dropped
    )
    assert 0 < dropped.rows_kept < 20
    after = by_id(table)
    assert {key: {**row, "a": 0} for key, row in after.items() if key < 20} == {
        key: {**row, "a": 0} for key, row in before.items() if key < 20
    }
    assert after[19]["a"] == 19
    assert told(check(table)) == []


def test_a_file_in_no_commit_goes_whatever_its_group():
    table = loaded()
    path = bases(table, "risk")[0]
    stray = path.replace("_1-", "_7-").replace("_2-", "_7-").replace("_0-", "_7-")
    assert stray != path
    table._storage.put(stray, table._storage.read(path))
    [finding] = check(table)
    assert (finding.code, finding.path) == (Code.FILE_LEFTOVER, stray)
    reopen(table._storage, table._clock).repair()
    assert told(check(table)) == []


def test_a_base_file_of_an_archived_instant_that_wrote_another_group_is_no_copy():
    table = loaded()
    instant = archive(table)[0]
    assert not any(name.startswith(instant) for name in table._storage.names(".hoodie/timeline"))
    [path] = [path for path in paths(table, "ab") if f"_{instant}_ab.parquet" in path]
    stray = path.replace("_ab.", "_risk.")
    table._storage.put(stray, table._storage.read(paths(table, "risk")[0]))
    [finding] = [f for f in check(table, quick=True) if f.path == stray]
    assert finding.severity is Severity.WARNING
    assert finding.mend is Mend.DELETE_FILE


def test_a_group_that_a_pending_plan_reads_waits_for_it():
    table = loaded()
    table.compact()
    table.update_columns(rows({"id": 7, "ts": 7, "a": 7}))
    plan = table.schedule_compaction()
    held = table.files().to_pylist()
    [log] = [file["path"] for file in held if file["level"] == "L0"]
    [path] = [
        f["path"]
        for f in held
        if f["level"] == "L1" and f["path"][:8] == log[:8] and "_ab" in f["path"]
    ]
    table._storage.put(path, table._storage.read(path)[:-9])
    [skipped] = reopen(table._storage, table._clock).repair(drop_lost=True).done.skipped
    assert f"compaction {plan.instant.requested} is pending" in skipped.reason


def test_keys_are_not_completed_in_a_file_group_that_was_damaged_since():
    table = loaded()
    compact_forgetfully(table)
    plan = plan_repair(check(table))
    for path in paths(table, "ab"):
        table._storage.delete(path)
    before = contents(table._storage)
    done = repair(table._storage, table._clock, plan)
    assert done.done == ()
    assert all("it is damaged" in skipped.reason for skipped in done.skipped)
    assert paths(table, "ab") == []
    assert {path for path in before if not path.startswith(".hoodie")} == {
        path for path in contents(table._storage) if not path.startswith(".hoodie")
    }
