"""A table keeps its rows through every change of version and layout, or the change is refused."""

import itertools
from typing import Any

import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.commit.hold import hold_table
from lakebed.errors import ConflictError, InvalidError, UnsupportedError
from lakebed.format.names.data_names import InlineLogName, NativeLogName, parse_data_name
from lakebed.format.names.instant_name import Action
from lakebed.model.clock import ManualClock
from lakebed.services.compaction.schedule import schedule_compaction
from lakebed.services.savepoint.execute import delete_savepoint, savepoint
from lakebed.services.upgrade.execute import downgrade, upgrade
from lakebed.services.upgrade.plan import SliceFacts, choose_groups, plan_conversion
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import load_config
from lakebed.table.config.table_config import Layout, TableConfig
from lakebed.table.files.file_group import FileGroupId
from support.fixtures import files
from support.tables import batch, check_files, contents, copy_of, make, reopen, settle, user_rows
from unit.services.rollback.histories import (
    FIRST,
    FOURTH,
    SECOND,
    THIRD,
    clock,
    data_files,
    target_of,
    timeline_of,
)


def written(table_type: str, version: int, layout: str, **changes: Any) -> Table:
    table = make(
        None,
        clock(),
        ordering=("ts",),
        table_type=table_type,
        table_version=version,
        layout=layout,
        **changes,
    )
    table.bulk_insert(FIRST)
    table.upsert(SECOND)
    table.delete(where="id = 'c'")
    return table


def native(storage: Storage) -> list[str]:
    names = [path.rpartition("/")[2] for path in data_files(storage)]
    return [name for name in names if isinstance(parse_data_name(name), NativeLogName)]


def unlocked(storage: Storage) -> dict[str, bytes]:
    return {p: data for p, data in contents(storage).items() if "/.locks/" not in p}


HOLDERS = list(itertools.product((8, 9, 10), ("default", "lsm_tree")))
MOVES = [
    (start, end) for start, end in itertools.product(HOLDERS, HOLDERS) if end[0] >= min(start[0], 9)
]


@pytest.mark.parametrize(
    ("table_type", "start", "end"),
    [("MERGE_ON_READ", *move) for move in MOVES]
    + [("COPY_ON_WRITE", *move) for move in MOVES[::5]],
)
def test_rows_stay_the_same_and_can_be_written_on(
    table_type: str, start: tuple[int, str], end: tuple[int, str]
):
    table = written(table_type, *start)
    expected = user_rows(table)
    move = upgrade if end[0] >= start[0] else downgrade
    said = move(target_of(table), *end, dry_run=True)
    assert load_config(table._storage).version == start[0]
    done = move(target_of(table), *end)
    assert (said.dry_run, done.dry_run) == (True, False)
    assert said.file_groups_compacted == done.file_groups_compacted
    assert said.properties == done.properties
    config = load_config(table._storage)
    assert (config.version, config.layout) == end
    again = reopen(table._storage, clock())
    assert user_rows(again) == expected
    assert bool(done.properties) == (start != end)
    if end[0] < 10:
        assert native(table._storage) == []
    again.upsert(THIRD)
    assert {("p", "b"): 3, ("r", "f"): 3}.items() <= {
        key: row["v"] for key, row in user_rows(again).items()
    }.items()
    check_files(again)
    assert ".hoodie/hoodie.properties.backup" not in contents(table._storage)


def test_a_downgrade_compacts_what_has_native_logs_and_leaves_none_of_them():
    table = written("MERGE_ON_READ", 10, "lsm_tree")
    assert len(native(table._storage)) >= 2
    said = downgrade(target_of(table), 9, dry_run=True)
    assert said.files_cleaned == len(native(table._storage))
    done = downgrade(target_of(table), 9)
    assert done.file_groups_compacted == said.file_groups_compacted > 0
    assert done.files_cleaned >= said.files_cleaned
    assert "would" in str(said)
    assert "would" not in str(done)
    assert str(done).startswith("version 10 to 9, layout lsm_tree to lsm_tree: ")
    table = reopen(table._storage, clock())
    table.upsert(FOURTH)
    names = [path.rpartition("/")[2] for path in data_files(table._storage)]
    assert any(isinstance(parse_data_name(name), InlineLogName) for name in names)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_downgrade_keeps_ordered_deletes_and_changes_in_inline_logs(compacted: bool):
    table = make(
        None,
        clock(),
        ordering=("ts",),
        table_type="MERGE_ON_READ",
        table_version=10,
        layout="lsm_tree",
        properties={} if compacted else {"hoodie.table.cdc.enabled": "true"},
    )
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    gone = batch(("a", 5, 5, "p"))
    table.upsert(gone.append_column("_hoodie_is_deleted", pa.array([True])))
    if compacted:
        assert table.compact() is not None
    downgrade(target_of(table), 9)
    assert native(table._storage) == []
    again = reopen(table._storage, clock())
    again.upsert(batch(("a", 3, 3, "p")))
    assert {key for _, key in user_rows(again)} == {"b"}, "the late row comes after its delete"


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize(("start", "end"), [("lsm_tree", "default"), ("default", "lsm_tree")])
def test_another_layout_shows_the_same_rows_after_deletes_and_late_rows(
    version: int, start: str, end: str
):
    table = make(
        None,
        clock(),
        ordering=("ts",),
        table_type="MERGE_ON_READ",
        table_version=version,
        layout=start,
    )
    table.upsert(batch(("a", 9, 9, "p"), ("b", 1, 1, "p")))
    table.delete([{"id": "a", "dt": "p"}])
    table.upsert(batch(("a", 5, 5, "p")))
    expected = user_rows(table)
    table.upgrade(layout=end)
    assert user_rows(reopen(table._storage, clock())) == expected


def test_a_downgrade_by_a_machine_whose_clock_is_days_behind_leaves_no_native_log():
    table = written("MERGE_ON_READ", 10, "lsm_tree")
    behind = ManualClock(table._clock.now_ms() - 3 * 86_400_000, step_ms=1, name="behind")
    reopen(table._storage, behind).downgrade(9)
    assert native(table._storage) == []


def test_an_upgrade_rewrites_nothing_and_mixes_inline_with_native_logs():
    table = written("MERGE_ON_READ", 9, "lsm_tree")
    before = {path: data for path, data in contents(table._storage).items() if path[0] != "."}
    done = upgrade(target_of(table), 10)
    assert (done.file_groups_compacted, done.files_cleaned) == (0, 0)
    after = contents(table._storage)
    assert {path: after[path] for path in before} == before
    expected = user_rows(table)
    table = reopen(table._storage, clock())
    table.upsert(batch(("a", 7, 7, "p")))
    expected["p", "a"] |= {"v": 7, "ts": 7}
    assert user_rows(table) == expected
    assert native(table._storage)
    downgrade(target_of(table), 9)
    assert user_rows(reopen(table._storage)) == expected


def test_a_dry_run_touches_nothing():
    table = written("MERGE_ON_READ", 10, "default")
    before = unlocked(table._storage)
    downgrade(target_of(table), 9, "lsm_tree", dry_run=True)
    upgrade(target_of(table), 10, "lsm_tree", dry_run=True)
    assert unlocked(table._storage) == before


def test_a_table_that_is_there_already_is_left_alone():
    table = written("COPY_ON_WRITE", 9, "lsm_tree")
    before = unlocked(table._storage)
    done = upgrade(target_of(table), 9, "lsm_tree")
    assert str(done) == "version 9, layout lsm_tree: nothing to change"
    assert upgrade(target_of(table)).properties == {}
    assert unlocked(table._storage) == before


def test_pending_compactions_are_finished_and_other_pending_instants_refused():
    table = written("MERGE_ON_READ", 10, "lsm_tree")
    expected = user_rows(table)
    planned = schedule_compaction(target_of(table), force=True)
    assert planned is not None
    with hold_table(table._storage, table._clock) as hold:
        indexing = hold.request(Action.INDEXING).requested
    with pytest.raises(ConflictError, match=f"indexing {indexing} is pending"):
        downgrade(target_of(table), 9)
    assert load_config(table._storage).version == 10
    assert user_rows(reopen(table._storage)) == expected
    table._storage.delete(f".hoodie/timeline/{indexing}.indexing.requested")
    downgrade(target_of(table), 9)
    assert user_rows(reopen(table._storage)) == expected
    assert timeline_of(table).pending() == ()


def test_change_data_in_native_files_is_in_the_way_of_a_downgrade():
    table = make(
        table_type="COPY_ON_WRITE",
        table_version=10,
        layout="default",
        properties={"hoodie.table.cdc.enabled": "true"},
    )
    table.upsert(batch(("a", 1, 1, "p")))
    assert table.downgrade(9, dry_run=True).to_version == 9, "a new file group logs no change"
    table.upsert(batch(("a", 2, 2, "p")))
    with pytest.raises(UnsupportedError, match=r"change data in the native file .*\.cdc\.parquet"):
        table.downgrade(9)
    assert table.config.version == 10


def test_a_savepoint_that_keeps_native_logs_is_in_the_way_of_a_downgrade():
    table = written("MERGE_ON_READ", 10, "lsm_tree")
    made = savepoint(target_of(table))
    for dry_run in (True, False):
        with pytest.raises(InvalidError, match=f"savepoint {made.instant} keeps the native log"):
            downgrade(target_of(table), 9, dry_run=dry_run)
    delete_savepoint(target_of(table), made.instant)
    downgrade(target_of(table), 9)


@pytest.mark.parametrize(
    ("move", "version", "layout", "error", "match"),
    [
        (upgrade, 8, None, InvalidError, "use downgrade"),
        (downgrade, 10, None, InvalidError, "use upgrade"),
        (downgrade, 8, None, UnsupportedError, "tables cannot go below 9"),
        (upgrade, 11, None, UnsupportedError, "expected one of 8, 9, 10"),
        (upgrade, 9, "sideways", InvalidError, "expected default or lsm_tree"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    move: Any, version: int, layout: str | None, error: type[Exception], match: str
):
    table = written("COPY_ON_WRITE", 9, "default")
    before = unlocked(table._storage)
    with pytest.raises(error, match=match):
        move(target_of(table), version, layout)
    assert unlocked(table._storage) == before


def test_a_base_file_that_nothing_says_to_be_sorted_keeps_a_table_from_promising_it():
    storage = copy_of(files("cow9_nomdt"))
    with pytest.raises(UnsupportedError, match=r"\.parquet: in version 10, lsm_tree requires"):
        upgrade(target_of(reopen(storage)), 10, "lsm_tree")
    expected = user_rows(reopen(storage))
    upgrade(target_of(reopen(storage)), 9, "lsm_tree")
    upgrade(target_of(reopen(storage)), 10, "default")
    assert load_config(storage).version == 10
    assert user_rows(reopen(storage)) == expected


def test_version_8_with_indexes_is_left_to_hudi():
    table = written("COPY_ON_WRITE", 8, "default")
    table._storage.put(".hoodie/.index_defs/index.json", b"{}")
    with pytest.raises(UnsupportedError, match="indexes"):
        upgrade(target_of(table), 9)


def config(**properties: str) -> TableConfig:
    return TableConfig.parse({**settle(table_version=8, ordering=("ts",)), **properties}, "here")


def test_version_8_with_a_payload_that_does_more_is_left_to_hudi():
    payload = "org.apache.hudi.common.model.PartialUpdateAvroPayload"
    with pytest.raises(UnsupportedError, match=payload):
        plan_conversion(config(**{"hoodie.compaction.payload.class": payload}), 9, None)


def test_version_9_names_the_ordering_fields_and_the_merge_mode():
    changes = plan_conversion(config(), 10, None).changes
    assert changes["hoodie.table.ordering.fields"] == "ts"
    assert changes["hoodie.record.merge.mode"] == "EVENT_TIME_ORDERING"
    assert changes["hoodie.meta.fields.mode"] == "ALL"
    assert changes["hoodie.table.version"] == "10"


def test_only_what_must_be_is_compacted():
    one, two, three = (FileGroupId("p", name) for name in ("f1", "f2", "f3"))
    facts = [
        SliceFacts(one, logs=2, native_logs=1),
        SliceFacts(two, logs=1, native_logs=0, unsorted=("p/f2.parquet",)),
        SliceFacts(three, logs=0, native_logs=0),
    ]
    start = TableConfig.parse(settle(table_version=10, layout="default"), "here")
    assert choose_groups(plan_conversion(start, 9, None), facts) == (one,)
    # Under another layout logs would be resolved by another rule.
    assert choose_groups(plan_conversion(start, 10, "lsm_tree"), facts) == (one, two)
    assert choose_groups(plan_conversion(start, 10, "default"), facts) == ()
    nine = TableConfig.parse(settle(table_version=9, layout="lsm_tree"), "here")
    assert nine.layout is Layout.LSM_TREE
    assert choose_groups(plan_conversion(nine, 10, None), facts) == (two,)
    assert choose_groups(plan_conversion(nine, 9, "default"), facts) == (one, two)
    bare = [SliceFacts(two, logs=0, native_logs=0, unsorted=("p/f2.parquet",))]
    with pytest.raises(UnsupportedError, match=r"p/f2\.parquet"):
        choose_groups(plan_conversion(start, 10, "lsm_tree"), bare)
