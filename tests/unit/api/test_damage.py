"""Damage stays where it is: what needs a lost file fails by name, all else reads and writes on."""

import io
import warnings

import pyarrow.parquet as pq
import pytest

from lakebed.errors import CorruptError, DamageWarning, InvalidError
from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from lakebed.table.files.copies import archived_names
from support.tables import batch, contents, make, reopen, user_rows

A = batch(*((f"a{n}", n, 1, "A") for n in range(20)))
B = batch(*((f"b{n}", n, 1, "B") for n in range(20)))
KINDS = [
    {"table_type": "MERGE_ON_READ"},
    {"table_type": "COPY_ON_WRITE"},
    {"table_type": "MERGE_ON_READ", "index": "simple"},
    {"table_type": "MERGE_ON_READ", "table_version": 10},
]
BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def loaded(**changes):
    """Return a table of two partitions, each with a load and an upsert of some rows."""
    settings = {"table_type": "MERGE_ON_READ", "ordering": ("ts",), "buckets": 2, **changes}
    table = make(memory_storage(), ManualClock(step_ms=1), properties=BY_HAND, **settings)
    for rows in (A, B):
        table.bulk_insert(rows)
    for rows in (A, B):
        some = rows.slice(0, 8).to_pylist()
        table.upsert(batch(*((row["id"], 100, 2, row["dt"]) for row in some)))
    return table


def data_of(storage, partition, *, base=None):
    """List the data files of a partition: all, base files or logs."""
    found = []
    for entry in storage.list(partition):
        name = parse_data_name(entry.path.rpartition("/")[2])
        if name is not None and base in (None, isinstance(name, BaseFileName)):
            found.append(entry.path)
    return sorted(found)


def newest_base(table, partition):
    """Return the base file of a slice that a snapshot reads."""
    files = table.files().to_pylist()
    return next(f["path"] for f in files if f["partition"] == partition and f["level"] == "L1")


def in_partition(rows, partition):
    return {key: row for key, row in rows.items() if key[0] == partition}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("way", ["missing", "cut"])
def test_other_partitions_read_and_write_while_one_has_lost_a_file(kind, way):
    table = loaded(**kind)
    storage, rows = table._storage, user_rows(table)
    victim = newest_base(table, "A")
    data = storage.read(victim)
    storage.delete(victim)
    if way == "cut":
        storage.put(victim, data[:-12])
    instant = parse_data_name(victim.rpartition("/")[2]).instant
    hurt = reopen(storage, table._clock)
    with pytest.raises(CorruptError) as raised:
        hurt.read()
    for told in (victim, instant, "were written to it", "on_damage='skip'", "verify()"):
        assert told in str(raised.value)
    assert hurt.read(where="dt = 'B'").read_all().num_rows == 20
    assert hurt.lookup([{"id": "b3", "dt": "B"}]).num_rows == 1
    hurt.upsert(batch(("b3", 7, 7, "B"), ("new", 1, 1, "B")))
    hurt.delete([{"id": "b4", "dt": "B"}])
    hurt.delete(where="dt = 'B' and v = 7")
    before = contents(storage)
    with pytest.raises(CorruptError, match=victim):
        hurt.upsert(batch(*((row["id"], 5, 5, "A") for row in A.to_pylist())))
    left = {p for p in contents(storage) if not p.startswith(".hoodie/")}
    assert left == {p for p in before if not p.startswith(".hoodie/")}
    # Brought back from a copy, all is as it was.
    storage.put(victim, data)
    assert in_partition(user_rows(hurt), "A") == in_partition(rows, "A")


def test_a_lookup_finds_a_file_that_was_brought_back():
    table = loaded(**KINDS[0])
    storage, victim = table._storage, newest_base(table, "A")
    keys = [{"id": row["id"], "dt": "A"} for row in A.to_pylist()]
    data = storage.read(victim)
    storage.delete(victim)
    hurt = reopen(storage, table._clock)
    with pytest.raises(CorruptError, match=victim):
        hurt.lookup(keys)
    assert hurt.lookup([{"id": "b3", "dt": "B"}]).num_rows == 1
    storage.put(victim, data)
    assert hurt.lookup(keys).num_rows == A.num_rows


def test_other_file_groups_of_the_same_partition_read_and_write():
    table = loaded()
    victim = newest_base(table, "A")
    table._storage.delete(victim)
    hurt = reopen(table._storage, table._clock)
    lost, whole = [], []
    for row in A.to_pylist():
        key = {"id": row["id"], "dt": "A"}
        try:
            assert hurt.lookup([key]).num_rows == 1
            hurt.upsert(batch((row["id"], 9, 9, "A")))
            whole.append(row["id"])
        except CorruptError:
            lost.append(row["id"])
            with pytest.raises(CorruptError):
                hurt.upsert(batch((row["id"], 9, 9, "A")))
    assert lost
    assert whole
    assert hurt.read(where=f"dt = 'A' and id = '{whole[0]}'").read_all()["v"].to_pylist() == [9]


def test_a_file_group_of_which_nothing_is_left_gets_no_twin():
    table = loaded()
    victim = newest_base(table, "A")
    file_id = parse_data_name(victim.rpartition("/")[2]).file_id
    for path in data_of(table._storage, "A"):
        if file_id in path:
            table._storage.delete(path)
    hurt = reopen(table._storage, table._clock)
    with pytest.raises(CorruptError, match=file_id):
        hurt.upsert(batch(*((row["id"], 5, 5, "A") for row in A.to_pylist())))
    with pytest.raises(CorruptError, match=file_id):
        hurt.read(where="dt = 'A'")


def test_a_global_index_cannot_look_a_key_up_in_what_is_lost():
    table = loaded(index="global_simple")
    table._storage.delete(newest_base(table, "A"))
    hurt = reopen(table._storage, table._clock)
    with pytest.raises(CorruptError, match="it is missing"):
        hurt.upsert(batch(("b3", 7, 7, "B")))
    hurt.insert(batch(("c1", 7, 7, "C")))
    assert hurt.read(where="dt = 'C'").read_all().num_rows == 1


def test_read_optimized_needs_base_files_only():
    table = loaded(table_version=10)
    for log in data_of(table._storage, "A", base=False):
        table._storage.delete(log)
    hurt = reopen(table._storage, table._clock)
    assert hurt.read(mode="read_optimized").read_all().num_rows == 40
    with pytest.raises(CorruptError, match="it is missing"):
        hurt.read()
    table._storage.delete(newest_base(table, "B"))
    with pytest.raises(CorruptError, match="it is missing"):
        reopen(table._storage).read(mode="read_optimized")


def _flip(data):
    """Return bytes with a bit flipped in the last page of the column `v` of the Parquet file in them."""
    begin, end = data.index(b"PAR1"), data.rindex(b"PAR1") + 4
    file = pq.ParquetFile(io.BytesIO(data[begin:end]))
    chunk = file.metadata.row_group(0).column(file.schema_arrow.get_field_index("v"))
    at = begin + (chunk.dictionary_page_offset or chunk.data_page_offset)
    at += chunk.total_compressed_size - 1
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "spoil",
    [None, lambda data: data[:-12], _flip, lambda data: bytes(len(data))],
    ids=["missing", "cut", "flipped", "zeros"],
)
@pytest.mark.parametrize("base", [True, False], ids=["base", "log"])
def test_a_read_that_skips_damage_leaves_out_whole_slices_and_says_which(spoil, base):
    table = loaded()
    storage, rows = table._storage, user_rows(table)
    victim = data_of(storage, "A", base=base)[0]
    file_id = parse_data_name(victim.rpartition("/")[2]).file_id
    data = storage.read(victim)
    storage.delete(victim)
    if spoil is not None:
        storage.put(victim, spoil(data))
    hurt = reopen(storage, table._clock)
    with pytest.warns(DamageWarning, match=file_id) as told:
        found = hurt.read(on_damage="skip").read_all()
    assert victim in str(told[0].message)
    assert "1 damaged file slice" in str(told[0].message)
    there = {(row["dt"], row["id"]): row for row in found.to_pylist()}
    groups = {f["file_id"]: f["path"] for f in table.files().to_pylist() if f["partition"] == "A"}
    assert len(groups) == 2
    # All rows of the other file group and of the other partition, as they were.
    assert len(in_partition(there, "B")) == 20
    assert 0 < len(in_partition(there, "A")) < 20
    assert all(rows[key] == row for key, row in there.items())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hurt.read(where="dt = 'B'", on_damage="skip").read_all().num_rows == 20


def test_skipping_is_for_snapshots_and_has_two_words():
    table = loaded()
    with pytest.raises(InvalidError, match="on_damage='warn': expected one of fail, skip"):
        table.read(on_damage="warn")
    with pytest.raises(InvalidError, match="cannot be combined with since"):
        table.read(since="earliest", on_damage="skip")


@pytest.mark.parametrize("mode", ["full", "hybrid", "log"])
@pytest.mark.parametrize("spoil", [None, lambda data: bytes(len(data))], ids=["missing", "zeros"])
@pytest.mark.parametrize("planned", [False, True], ids=["before", "after the plan"])
def test_a_compaction_does_the_healthy_file_groups(mode, spoil, planned):
    table = loaded()
    storage = table._storage
    for rows in (A, B):
        table.upsert(
            batch(*((row["id"], 50, 3, row["dt"]) for row in rows.slice(0, 8).to_pylist()))
        )
    rows = user_rows(table)
    if planned:
        table.schedule_compaction(mode)
    victim = data_of(storage, "A", base=False)[0]
    data = storage.read(victim)
    storage.delete(victim)
    if spoil is not None:
        storage.put(victim, spoil(data))
    hurt = reopen(storage, table._clock)
    [done] = hurt.compact(mode)
    assert done.full + done.log == 3
    if planned:
        assert len(done.damaged) == 1
        assert victim in str(done)
    with pytest.warns(DamageWarning):
        found = hurt.read(on_damage="skip").read_all().num_rows
    assert 20 < found < 40
    # Nothing is compacted away that the lost file belongs to.
    storage.put(victim, data)
    assert user_rows(reopen(storage)) == rows


def test_cleaning_archiving_clustering_and_rollback_go_on_beside_damage():
    table = loaded(index="simple", table_type="COPY_ON_WRITE")
    storage = table._storage
    table.insert(batch(("b77", 1, 1, "B")))
    table.insert(batch(("b78", 1, 1, "B")))
    victim = newest_base(table, "A")
    storage.put(victim, bytes(storage.head(victim).size))
    lost = newest_base(table, "A")
    hurt = reopen(storage, table._clock)
    hurt.rollback(hurt.upsert(batch(("b79", 1, 1, "B"))).instant)
    small = {"hoodie.clustering.plan.strategy.small.file.limit": "1000000"}
    hurt.cluster(options=small)
    storage.delete(lost)
    hurt = reopen(storage, table._clock)
    for number in range(6):
        hurt.upsert(batch((f"b{number}", 9, 9, "B")))
    fast = {"hoodie.clean.commits.retained": "1", "lakebed.clean.min.age.seconds": "0"}
    assert hurt.clean(options=fast)
    assert hurt.archive(
        options={**fast, "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    )
    assert hurt.read(where="dt = 'B'").read_all().num_rows == 22
    with pytest.raises(CorruptError, match=lost):
        reopen(storage).read()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("way", ["overwrite", "overwrite all", "drop"])
def test_overwriting_or_dropping_the_damaged_part_leads_out(kind, way):
    table = loaded(**kind)
    for path in data_of(table._storage, "A")[:2]:
        table._storage.delete(path)
    hurt = reopen(table._storage, table._clock)
    if way == "drop":
        hurt.delete_partitions(["A"])
        wanted = 20
    else:
        rows = A if way == "overwrite" else batch(("z", 1, 1, "A"))
        hurt.insert_overwrite(rows, whole_table=way == "overwrite all")
        wanted = 40 if way == "overwrite" else 1
    assert hurt.read().read_all().num_rows == wanted
    hurt.upsert(A)
    assert hurt.verify().is_sound


def test_a_savepoint_leads_back_to_before_the_damaged_file_and_a_rollback_too():
    table = loaded()
    storage, rows = table._storage, user_rows(table)
    saved = table.savepoint()
    late = table.upsert(batch(*((row["id"], 5, 9, "A") for row in A.to_pylist())))
    for path in data_of(storage, "A"):
        if late.instant in path:
            storage.delete(path)
    hurt = reopen(storage, table._clock)
    with pytest.raises(CorruptError):
        hurt.read()
    with pytest.raises(InvalidError, match="no longer exists"):
        hurt.savepoint()
    hurt.rollback(late.instant)
    assert user_rows(hurt) == rows
    late = hurt.upsert(batch(*((row["id"], 5, 9, "A") for row in A.to_pylist())))
    for path in data_of(storage, "A"):
        if late.instant in path:
            storage.delete(path)
    hurt = reopen(storage, table._clock)
    hurt.restore(saved.instant)
    assert user_rows(hurt) == rows


def test_damage_elsewhere_does_not_keep_a_commit_from_being_rolled_back():
    table = loaded()
    rows = user_rows(table)
    late = table.upsert(batch(("b1", 5, 9, "B")))
    table._storage.delete(newest_base(table, "A"))
    hurt = reopen(table._storage, table._clock)
    hurt.rollback(late.instant)
    found = hurt.read(where="dt = 'B'").read_all().to_pylist()
    assert {("B", row["id"]): row for row in found} == in_partition(rows, "B")


@pytest.mark.parametrize("archived", [False, True])
def test_a_copy_of_a_base_file_is_ignored_and_noted(archived):
    table = loaded()
    storage, rows = table._storage, user_rows(table)
    if archived:
        options = {
            "hoodie.keep.min.commits": "2",
            "hoodie.keep.max.commits": "3",
            "hoodie.clean.commits.retained": "1",
            "lakebed.clean.min.age.seconds": "0",
            "hoodie.compact.inline.max.delta.commits": "1",
        }
        assert table.archive(options=options)
    path = newest_base(table, "A")
    name = parse_data_name(path.rpartition("/")[2])
    assert (
        archived_names(storage, table.config.history_path, name.instant) is None
    ) is not archived
    copy = path.replace(name.write_token, "77-7-7")
    storage.put(copy, storage.read(path))
    again = reopen(storage, table._clock)
    assert user_rows(again) == rows
    again.upsert(batch(("a1", 100, 9, "A")))
    assert len(user_rows(again)) == 40
    fast = {"hoodie.clean.commits.retained": "1", "lakebed.clean.min.age.seconds": "0"}
    report = again.verify()
    assert report.errors == 0
    [finding] = [f for f in report if f.path == copy]
    assert finding.mend is not None
    assert report.warnings == (0 if archived else 1)
    again.compact()
    again.clean(options=fast)
    again.repair()
    assert again.verify().is_sound
    assert copy not in contents(storage)
    assert len(user_rows(again)) == 40
