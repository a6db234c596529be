"""Every way in which verify finds a table broken, and the way out that it advises, walked to its end."""

import base64
import io
import json
import struct
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.errors import CorruptError
from lakebed.format.index.bloom import FOOTER_BLOOM
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.format.timeline.heartbeat import heartbeat_path
from lakebed.format.timeline.lock_file import LOCK_FILE_PATH
from lakebed.index.secondary.entries import find_entries, sort_entries, write_entries
from lakebed.index.secondary.manifest import Manifest
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.verify.findings import Code
from lakebed.services.verify.plan import plan_repair
from lakebed.services.verify.repair import repair
from lakebed.services.verify.verify import verify
from lakebed.storage.objects import memory_storage
from lakebed.timeline.active import ActiveTimeline
from support.tables import batch, make, reopen, user_rows

ROWS = batch(*((f"k{n:03}", n, 1, f"p{n % 2}") for n in range(40)))
PART = batch(*((f"k{n:03}", n, 1, "p0") for n in range(0, 40, 2)))
PROPERTIES = ".hoodie/hoodie.properties"
TIMELINE = ".hoodie/timeline"
LATE = "20231114222000000"  # after what the tables here hold
GONE = "20200101000000000"  # before it
BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


class World:
    """A table of 40 rows in two partitions, which a way of breaking it damages."""

    def __init__(self, **changes):
        self.storage = memory_storage()
        self.clock = ManualClock(step_ms=1)
        settings = {"table_type": "COPY_ON_WRITE", "buckets": 1, "properties": BY_HAND, **changes}
        self.table = make(self.storage, self.clock, **settings)
        self.table.bulk_insert(ROWS)
        self.table.upsert(ROWS)
        self.whole = {}

    def path(self, partition="p0"):
        """Return the base file that a snapshot reads of a partition."""
        files = reopen(self.storage).files().to_pylist()
        return next(f["path"] for f in files if f["partition"] == partition)

    def spoil(self, path, data):
        """Change a file; a copy of it stays, for who brings it back."""
        self.whole[path] = self.storage.read(path)
        self.storage.put(path, data(self.whole[path]) if callable(data) else data)

    def lose(self, path):
        self.whole[path] = self.storage.read(path)
        self.storage.delete(path)

    def rewrite(self, change=lambda rows: rows, footer=None, path=None):
        """Write a base file anew with other rows, or another footer."""
        path = path or self.path()
        file = pq.ParquetFile(io.BytesIO(self.storage.read(path)))
        rows = change(file.read())
        marks = {**file.metadata.metadata, **(footer or {})}
        marks.pop(b"ARROW:schema", None)
        out = io.BytesIO()
        with pq.ParquetWriter(out, rows.schema, store_schema=False) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata(marks)
        # As long as it was: who changed the file knew how to hide it.
        self.storage.put(path, out.getvalue())
        self.resize(path, len(out.getvalue()))

    def commits(self):
        names = [entry.path for entry in self.storage.list(TIMELINE)]
        return sorted(path for path in names if path.endswith("commit"))

    def resize(self, path, size, rows=None):
        """Make the commit say the size that a file has by now, and its rows."""
        for commit in self.commits():
            metadata = CommitMetadata.parse(self.storage.read(commit), commit)
            for stat in metadata.write_stats():
                if stat.path == path:
                    object.__setattr__(stat, "file_size_in_bytes", size)
                    object.__setattr__(stat, "total_write_bytes", size)
                    if rows is not None:
                        object.__setattr__(stat, "num_writes", rows)
                    self.storage.put(commit, metadata.encode())

    def verify(self):
        clock = ManualClock(self.clock.now_ms() + 60_000)
        return verify(self.storage, clock, LocalExecutor(1))

    def opened(self):
        return reopen(self.storage, self.clock)


def bring_back(world):
    for path, data in world.whole.items():
        world.storage.put(path, data)


def mend(world, **how):
    repair(world.storage, world.clock, plan_repair(world.verify(), **how))


def drop(world):
    mend(world, drop_lost=True)


def keep(world):
    mend(world, drop_lost=True, keep_readable=True)


def overwrite(world):
    world.opened().insert_overwrite(PART)


def take_away(world):
    for path in list(world.whole):
        world.storage.delete(path)


def write(world):
    world.opened().upsert(ROWS)


def roll_back(world):
    world.opened().rollback(world.commits()[-1].rpartition("/")[2].partition("_")[0])


def drop_plan(world):
    world.opened().rollback(LATE, delete_plan=True)


def clean(world):
    world.opened().clean(
        options={"hoodie.clean.commits.retained": "1", "lakebed.clean.min.age.seconds": "0"}
    )


def rename(world):
    [(good, data)] = world.whole.items()
    requested = good.rpartition("/")[2].partition("_")[0]
    world.storage.delete(f"{TIMELINE}/{requested}_{GONE}.commit")
    world.storage.put(good, data)


def _keys(change):
    def changed(rows):
        at = rows.schema.get_field_index("_hoodie_record_key")
        keys = change(rows.column(at).to_pylist())
        return rows.set_column(at, rows.schema.field(at), pa.array(keys))

    return changed


def _backwards(world):
    good = world.commits()[-1]
    world.lose(good)
    requested = good.rpartition("/")[2].partition("_")[0]
    world.storage.put(f"{TIMELINE}/{requested}_{GONE}.commit", world.whole[good])


def _copies(world):
    path = world.path()
    name, data = parse_data_name(path.rpartition("/")[2]), world.storage.read(path)
    for token in ("1-0-0", "2-0-0"):
        copy = f"p0/9{name.file_id[1:]}_{token}_{GONE}.parquet"
        world.storage.put(copy, data)
        world.whole[copy] = data


def _second_group(world):
    path = world.path()
    name = parse_data_name(path.rpartition("/")[2])
    other = path.replace(name.file_id, f"{name.file_id[:9]}ffff-ffff-ffff-ffffffffffff-0")
    world.storage.put(other, world.storage.read(path))
    commit = world.commits()[-1]
    metadata = CommitMetadata.parse(world.storage.read(commit), commit)
    [stat] = metadata.partition_to_write_stats["p0"]
    stats = {**metadata.partition_to_write_stats, "p0": (stat, type(stat)(path=other, file_id="x"))}
    changed = replace(metadata, partition_to_write_stats=stats)
    world.storage.put(commit, changed.encode())


def _log_on_copy_on_write(world):
    text = world.storage.read(PROPERTIES).replace(b"MERGE_ON_READ", b"COPY_ON_WRITE")
    world.storage.put(PROPERTIES, text)


def _archive_names_nothing(world):
    folder = f"{TIMELINE}/history"
    content = {"files": [{"fileName": f"{GONE}_{GONE}_0.parquet", "fileLen": 5}]}
    world.storage.put(f"{folder}/_version_", b"1")
    world.storage.put(f"{folder}/manifest_1", json.dumps(content).encode())
    world.whole = {f"{folder}/_version_": b"1", f"{folder}/manifest_1": b'{"files": []}'}


def _pending(world):
    active = ActiveTimeline(world.storage)
    active.create_requested(Action.COMMIT, LATE)
    active.transition_to_inflight(Action.COMMIT, LATE)
    world.storage.put(f"p0/00000000-9-9_5-5-5_{LATE}.parquet", b"half")


def _as_text(rows):
    return rows.set_column(rows.schema.get_field_index("v"), "v", pa.array(["x"] * len(rows)))


def _elsewhere(rows):
    at = rows.schema.get_field_index("_hoodie_partition_path")
    return rows.set_column(at, rows.schema.field(at), pa.array(["p7"] * len(rows)))


def _no_table(world):
    more = b"hoodie.table.metadata.partitions=files\n"
    world.storage.put(PROPERTIES, world.storage.read(PROPERTIES) + more)


EMPTY_BLOOM = base64.b64encode(struct.pack(">iibi", -1, 7, 1, 959) + bytes(120))
SIMPLE = {"index": "simple", "buckets": 2}
GROUPED = {"table_type": "MERGE_ON_READ", "table_version": 10, "column_groups": {"v": "v"}}
TWICE = {**SIMPLE, "properties": {**BY_HAND, "hoodie.parquet.small.file.limit": "0"}}


# What is broken, how, and the way out that the advice names by one of its words.
def _indexed(world):
    """Create an index; return the path of its manifest."""
    world.opened().create_index("by_v", ["v"])
    return next(e.path for e in world.storage.list(".hoodie/lakebed/index") if "manifest" in e.path)


def _forget_entries(world):
    path = _indexed(world)
    manifest = Manifest.parse(world.storage.read(path), path)
    world.storage.put(path, replace(manifest, base=()).encode())


def _add_entry(world):
    path = _indexed(world)
    manifest = Manifest.parse(world.storage.read(path), path)
    (run,) = manifest.base
    held = sort_entries(find_entries(world.storage, run.path, [(b"", None)]))
    more = held.set_column(
        0, held.schema.field(0), pa.array([b"\xfe"] * held.num_rows, pa.binary())
    )
    changed = write_entries(world.storage, run.path, [held, more.slice(0, 1)])
    world.storage.put(path, replace(manifest, base=(changed,)).encode())


def _write_indexed(world):
    _indexed(world)
    write(world)


def _without_definition(world):
    defines = b"hoodie.columngroup.v="
    lines = world.storage.read(PROPERTIES).splitlines(keepends=True)
    world.spoil(PROPERTIES, b"".join(line for line in lines if not line.startswith(defines)))


def _without_key(world):
    """Take a key from the base file of a column group, as if its compaction had left it out."""
    world.opened().compact()
    path = next(
        f["path"]
        for f in world.opened().files().to_pylist()
        if f["level"] == "L1" and f["path"].startswith("p0/") and f["path"].endswith("_v.parquet")
    )
    world.rewrite(lambda rows: pa.concat_tables([rows[:5], rows[6:]]), path=path)
    world.resize(path, len(world.storage.read(path)), rows=19)


def _mend_index(world):
    mend(world)
    # A later write leaves stale entries, which is no damage.
    world.opened().drop_index("by_v")


def _compact_index(world):
    world.opened().compact_index("by_v")
    assert list(world.verify()) == []
    world.opened().drop_index("by_v")


WAYS: list[tuple[Code, Callable, Callable, str, dict]] = [
    (Code.PROPERTIES_BAD, lambda w: w.spoil(PROPERTIES, b"x"), bring_back, "from a backup", {}),
    (
        Code.PROPERTIES_CHECKSUM,
        lambda w: w.spoil(PROPERTIES, lambda d: d.replace(b"table.name=t", b"table.name=u")),
        mend,
        "repair",
        {},
    ),
    (
        Code.PROPERTIES_BACKUP,
        lambda w: w.storage.put(f"{PROPERTIES}.backup", w.storage.read(PROPERTIES)),
        mend,
        "repair",
        {},
    ),
    (
        Code.TIMELINE_BAD,
        lambda w: (
            w.storage.put(f"{TIMELINE}/{LATE}.odd.requested", b""),
            w.whole.update({f"{TIMELINE}/{LATE}.odd.requested": b""}),
        ),
        take_away,
        "is removed",
        {},
    ),
    (Code.INSTANT_STATES, _backwards, rename, "rename the file", {}),
    (
        Code.INSTANT_UNREADABLE,
        lambda w: w.storage.put(w.commits()[-1], b"junk"),
        roll_back,
        "roll the commit back",
        {},
    ),
    (
        Code.INSTANT_UNREADABLE,
        lambda w: ActiveTimeline(w.storage).create_requested(Action.COMPACTION, LATE, b"junk"),
        drop_plan,
        "--delete-plan",
        {"table_type": "MERGE_ON_READ"},
    ),
    (Code.INSTANT_PENDING, _pending, mend, "repair", {}),
    (Code.ARCHIVE_BAD, _archive_names_nothing, bring_back, "from a backup", {}),
    (Code.FILE_MISSING, lambda w: w.lose(w.path()), drop, "--drop-lost", {}),
    (Code.FILE_MISSING, lambda w: w.lose(w.path()), bring_back, "from a backup", {}),
    (Code.FILE_MISSING, lambda w: w.lose(w.path()), overwrite, "insert_overwrite", {}),
    (Code.FILE_SIZE, lambda w: w.spoil(w.path(), lambda d: d[:-9]), drop, "--drop-lost", {}),
    (
        Code.FILE_UNREADABLE,
        lambda w: w.spoil(w.path(), lambda d: bytes(len(d))),
        keep,
        "--drop-lost",
        {},
    ),
    (
        Code.FILE_UNREADABLE,
        lambda w: w.spoil(w.path(), lambda d: bytes(len(d))),
        overwrite,
        "insert_overwrite",
        {},
    ),
    (
        Code.FILE_LEFTOVER,
        lambda w: w.storage.put(
            w.path().replace("_0-1-0_", "_7-7-7_").replace("_1-1-0_", "_7-7-7_"), b"x"
        ),
        mend,
        "repair",
        {},
    ),
    (
        Code.UNCOMMITTED_BASE,
        lambda w: w.storage.put(f"p0/00000000-9-9_5-5-5_{LATE}.parquet", b"half"),
        mend,
        "repair",
        {},
    ),
    (Code.FILE_SCHEMA, lambda w: w.rewrite(_as_text), overwrite, "insert_overwrite", {}),
    (Code.ROW_COUNT, lambda w: w.rewrite(lambda rows: rows.slice(1)), keep, "--drop-lost", {}),
    (Code.TWO_BASE_FILES, _copies, take_away, "delete the copy", SIMPLE),
    (Code.TWO_BASE_FILES, _copies, drop, "--drop-lost", SIMPLE),
    (
        Code.LOG_WITHOUT_BASE,
        _log_on_copy_on_write,
        overwrite,
        "insert_overwrite",
        {"table_type": "MERGE_ON_READ", "partition_by": ()},
    ),
    (Code.BUCKET_WRONG, _second_group, overwrite, "insert_overwrite", {}),
    (
        Code.KEY_MISSING,
        lambda w: w.rewrite(_keys(lambda keys: [None, *keys[1:]])),
        overwrite,
        "insert_overwrite",
        {},
    ),
    (
        Code.KEY_ORDER,
        lambda w: w.rewrite(lambda rows: rows.take(pa.array([1, 0, *range(2, len(rows))]))),
        drop,
        "--drop-lost",
        {},
    ),
    (
        Code.KEY_TWICE,
        lambda w: w.rewrite(lambda rows: rows.take(pa.array([0, 0, *range(2, len(rows))]))),
        overwrite,
        "insert_overwrite",
        {},
    ),
    (
        Code.KEY_IN_SEVERAL_GROUPS,
        lambda w: w.opened().insert(batch(("k000", 9, 9, "p0"))),
        lambda w: (w.opened().delete([{"id": "k000", "dt": "p0"}]), write(w)),
        "delete the key and write it again",
        TWICE,
    ),
    (
        Code.KEY_RANGE,
        lambda w: w.rewrite(footer={b"hoodie_min_record_key": b"k005"}),
        overwrite,
        "insert_overwrite",
        {},
    ),
    (
        Code.BLOOM_FILTER,
        lambda w: w.rewrite(footer={FOOTER_BLOOM.encode(): EMPTY_BLOOM}),
        overwrite,
        "insert_overwrite",
        {},
    ),
    (Code.META_COLUMN, lambda w: w.rewrite(_elsewhere), overwrite, "insert_overwrite", {}),
    (Code.COLUMN_GROUP, _without_definition, bring_back, "hoodie.properties", GROUPED),
    (Code.GROUP_KEYS, _without_key, drop, "repair --drop-lost", GROUPED),
    (
        Code.PARTITION_METADATA,
        lambda w: w.storage.delete("p0/.hoodie_partition_metadata"),
        mend,
        "repair",
        {},
    ),
    (Code.LOCK, lambda w: w.storage.put(LOCK_FILE_PATH, b"junk"), mend, "repair", {}),
    (Code.HEARTBEAT_STALE, lambda w: w.storage.put(heartbeat_path(GONE), b""), mend, "repair", {}),
    (
        Code.TEMP_STALE,
        lambda w: w.storage.put(f".hoodie/.temp/lakebed/{GONE}-x.arrow", b""),
        mend,
        "repair",
        {},
    ),
    (
        Code.FILE_INDEX,
        lambda w: w.storage.put(f".hoodie/lakebed/files/{GONE}_{GONE}.parquet", b""),
        mend,
        "repair",
        {},
    ),
    (Code.METADATA_TABLE, _no_table, write, "write to the table with Lakebed", {}),
    (Code.INDEX_UNUSABLE, lambda w: w.storage.delete(_indexed(w)), _mend_index, "repair", {}),
    (Code.INDEX_INCOMPLETE, _forget_entries, _mend_index, "repair", {}),
    (Code.INDEX_SUPERFLUOUS, _add_entry, _mend_index, "repair", {"table_version": 10}),
    (Code.INDEX_STALE, _write_indexed, _compact_index, "compact_index", {}),
]
NO_WAY = {
    Code.FILE_UNSUPPORTED,  # nothing is broken: another release reads it
    Code.TABLE_CHANGED,  # nothing is broken: verify again
}


@pytest.mark.parametrize(
    ("code", "spoil", "walk", "word", "kind"), WAYS, ids=[f"{w[0]}-{w[3]}" for w in WAYS]
)
def test_the_advice_leads_to_a_healthy_table(code, spoil, walk, word, kind):
    world = World(**kind)
    spoil(world)
    found = [finding for finding in world.verify() if finding.code is code]
    assert found, [str(finding) for finding in world.verify()]
    assert any(word in finding.advice or (word == "repair" and finding.mend) for finding in found)
    walk(world)
    assert world.verify().errors == 0
    write(world)
    assert len(user_rows(world.opened())) == 40
    # What is left of a damaged slice is an older version, until it is cleaned.
    write(world)
    clean(world)
    assert [str(finding) for finding in world.verify()] == []


def test_every_code_of_a_finding_has_a_way_out():
    assert {way[0] for way in WAYS} == set(Code) - NO_WAY


@pytest.mark.parametrize("cut", [0, 1000])
def test_the_error_of_a_commit_that_cannot_be_read_leads_out(cut):
    world = World()
    before = user_rows(world.table)
    last = world.table.upsert(batch(("new", 1, 1, "p0"))).instant
    name = next(n for n in world.storage.names(TIMELINE) if n.startswith(f"{last}_"))
    world.spoil(f"{TIMELINE}/{name}", lambda data: data[:cut])
    hurt = world.opened()
    with pytest.raises(CorruptError, match=rf"{name}: .*rollback\('{last}'\)"):
        user_rows(hurt)
    [finding] = [f for f in hurt.verify(quick=True) if f.code is Code.INSTANT_UNREADABLE]
    assert f"lakebed rollback {last}" in finding.advice
    assert "rollback" not in finding.message
    hurt.rollback(last)
    assert user_rows(hurt) == before


@pytest.mark.parametrize("data", [b"", b"garbage"])
def test_the_error_of_a_plan_that_cannot_be_read_leads_out(data):
    world = World(table_type="MERGE_ON_READ")
    before = user_rows(world.table)
    plan = world.table.schedule_compaction().instant.requested
    world.spoil(f"{TIMELINE}/{plan}.compaction.requested", data)
    hurt = world.opened()
    with pytest.raises(CorruptError, match=rf"{plan}.*rollback\('{plan}', delete_plan=True\)"):
        user_rows(hurt)
    hurt.rollback(plan, delete_plan=True)
    assert user_rows(hurt) == before
