"""Repair mends what can be mended, and never touches what a commit names."""

import os
import pickle

import pyarrow as pa
import pytest

from lakebed.commit.lock import table_lock
from lakebed.errors import LockedError
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.heartbeat import Beat, heartbeat_path
from lakebed.format.timeline.lock_file import LOCK_FILE_PATH, DiskLockFile
from lakebed.model.clock import ManualClock, SystemClock
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.services.verify.findings import (
    Code,
    Coverage,
    Finding,
    Mend,
    Severity,
    make_report,
)
from lakebed.services.verify.plan import RepairPlan, Step, plan_repair
from lakebed.services.verify.repair import repair
from lakebed.services.verify.verify import verify
from lakebed.storage.objects import memory_storage
from lakebed.storage.open import open_storage
from lakebed.timeline.active import ActiveTimeline
from support.crash_points import Work
from support.tables import (
    batch,
    check_no_leftovers,
    contents,
    copy_of,
    make,
    reopen,
    user_rows,
    without_locks,
)

ROWS = batch(*((f"k{n:03}", n, 1, f"p{n % 2}") for n in range(20)))
PENDING = "20231114222000000"
GONE = "20200101000000000"
LATE = "20991231000000000"
LATER_MS = 1_700_000_060_000
PROPERTIES = ".hoodie/hoodie.properties"


def loaded(storage=None):
    storage = memory_storage() if storage is None else storage
    table = make(storage, table_type="MERGE_ON_READ")
    table.bulk_insert(ROWS)
    table.upsert(ROWS.slice(0, 5))
    return storage


def mend(storage, **how):
    """Verify, plan, repair; give what was done."""
    report = verify(storage, ManualClock(LATER_MS), LocalExecutor(1), quick=True)
    return repair(storage, ManualClock(LATER_MS, 1), plan_repair(report), **how)


def check(storage):
    return verify(storage, ManualClock(LATER_MS), LocalExecutor(1))


def base_path(storage):
    return next(e.path for e in storage.list("p0") if e.path.endswith(".parquet"))


def damage(storage):
    """Leave behind all that can be swept."""
    path = base_path(storage)
    name = parse_data_name(path.rpartition("/")[2])
    storage.put(path.replace(name.write_token, "77-1-0"), storage.read(path))
    storage.put(path.replace(name.instant, LATE), storage.read(path))
    storage.put(f"p1/.{name.file_id}_{LATE}.log.1_9-9-9", b"")
    storage.put(heartbeat_path(GONE), b"")
    storage.put(f".hoodie/.temp/lakebed/{GONE}-x.arrow", b"1")
    storage.put(f".hoodie/.temp/{GONE}/p0/a.marker.CREATE", b"")
    storage.put(f"{PROPERTIES}.backup", storage.read(PROPERTIES))
    storage.delete("p1/.hoodie_partition_metadata")
    active = ActiveTimeline(storage)
    active.create_requested(Action.DELTACOMMIT, PENDING)
    active.transition_to_inflight(Action.DELTACOMMIT, PENDING)
    storage.put(f"p0/{name.file_id}_5-5-5_{PENDING}.parquet", b"half")


def test_a_sound_table_is_left_as_it_is():
    storage = loaded()
    before = contents(storage)
    done = mend(storage)
    assert (done.done, done.skipped) == ((), ())
    assert contents(storage) == before


def test_everything_that_can_be_mended_is_mended_and_the_rows_stay():
    storage = loaded()
    rows, whole = user_rows(reopen(storage)), without_locks(contents(storage))
    damage(storage)
    assert not check(storage).is_sound
    done = mend(storage)
    assert {step.mend for step in done.done} == {
        Mend.DELETE_FILE,
        Mend.DELETE_HEARTBEAT,
        Mend.DELETE_TEMP,
        Mend.DELETE_BACKUP,
        Mend.WRITE_PARTITION_METADATA,
        Mend.ROLL_BACK,
    }
    assert done.skipped == ()
    assert check(storage).findings == ()
    assert user_rows(reopen(storage)) == rows
    assert without_locks(contents(storage)) == whole
    check_no_leftovers(storage)


def test_properties_with_a_wrong_checksum_are_mended():
    storage = loaded()
    text = storage.read(PROPERTIES).replace(b"hoodie.table.name=t", b"hoodie.table.name=u")
    storage.put(PROPERTIES, text)
    assert [step.mend for step in mend(storage).done] == [Mend.WRITE_CHECKSUM]
    assert check(storage).findings == ()
    assert reopen(storage).name == "u"


@pytest.mark.parametrize("rest", [None, b"hoodie.table.name"])
def test_properties_come_back_from_their_backup(rest):
    storage = loaded()
    whole = storage.read(PROPERTIES)
    storage.put(f"{PROPERTIES}.backup", whole)
    storage.delete(PROPERTIES)
    if rest is not None:
        storage.put(PROPERTIES, rest)
    assert [step.mend for step in mend(storage).done] == [Mend.RESTORE_PROPERTIES]
    assert check(storage).findings == ()
    assert f"{PROPERTIES}.backup" not in contents(storage)


def test_a_lock_file_that_nobody_can_read_is_deleted():
    storage = loaded()
    storage.put(LOCK_FILE_PATH, b"junk")
    assert [step.mend for step in mend(storage).done] == [Mend.DELETE_LOCK]
    assert check(storage).findings == ()


def test_a_plan_that_is_out_of_date_does_no_harm():
    storage = loaded()
    path = base_path(storage)
    name = parse_data_name(path.rpartition("/")[2])
    log = next(e.path for e in storage.list("p0") if ".log." in e.path)
    ActiveTimeline(storage).create_requested(Action.DELTACOMMIT, PENDING)
    storage.put(heartbeat_path(PENDING), Beat("o", "elsewhere", LATER_MS, False).encode())
    mine = f"p0/{name.file_id}_5-5-5_{PENDING}.parquet"
    storage.put(mine, b"half")
    storage.put(f".hoodie/.temp/lakebed/{PENDING}-x.arrow", b"1")
    before = contents(storage)
    steps = (
        Step(Mend.ROLL_BACK, "", PENDING),
        Step(Mend.ROLL_BACK, "", name.instant),
        Step(Mend.DELETE_FILE, path, name.instant),
        Step(Mend.DELETE_FILE, log, ""),
        Step(Mend.DELETE_FILE, mine, PENDING),
        Step(Mend.DELETE_FILE, PROPERTIES, ""),
        Step(Mend.DELETE_HEARTBEAT, heartbeat_path(PENDING), PENDING),
        Step(Mend.DELETE_TEMP, "", PENDING),
    )
    done = repair(storage, ManualClock(LATER_MS, 1), RepairPlan("", steps, ()))
    assert done.done == ()
    assert [skipped.reason for skipped in done.skipped] == [
        "its writer is alive",
        "it is no longer pending",
        "a commit lists it",
        "a commit lists it",
        f"the instant {PENDING} is pending",
        "its name is not that of a data file",
        f"the instant {PENDING} is pending",
        f"the instant {PENDING} is pending",
    ]
    assert contents(storage) == before


def test_files_of_archived_instants_are_never_deleted():
    storage = loaded()
    path = base_path(storage)
    old = path.replace(parse_data_name(path.rpartition("/")[2]).instant, GONE)
    storage.put(old, storage.read(path))
    done = repair(
        storage,
        ManualClock(LATER_MS, 1),
        RepairPlan("", (Step(Mend.DELETE_FILE, old, GONE),), ()),
    )
    assert "archived" in done.skipped[0].reason
    assert old in contents(storage)


def test_a_table_that_is_held_is_not_repaired():
    storage = loaded()
    storage.put(heartbeat_path(GONE), b"")
    with (
        table_lock(storage).hold(ManualClock(LATER_MS), 1),
        pytest.raises(LockedError, match="held the table"),
    ):
        mend(storage, wait_seconds=1)
    assert heartbeat_path(GONE) in contents(storage)


def test_the_lock_of_a_dead_writer_on_a_disk_is_released(tmp_path):
    storage = open_storage(str(tmp_path / "t"))
    table = make(storage, SystemClock())
    table.bulk_insert(ROWS)
    lock = tmp_path / "t" / ".hoodie" / "lock"
    lock.write_text("")
    report = verify(storage, SystemClock(), LocalExecutor(1))
    [finding] = report.findings
    assert (finding.code, finding.severity) == (Code.LOCK, Severity.NOTE)
    os.utime(lock, (1, 1))
    [old] = verify(storage, SystemClock(), LocalExecutor(1)).findings
    assert (old.severity, old.mend) == (Severity.WARNING, None)
    assert "delete the file" in old.advice
    lock.write_bytes(DiskLockFile("owner", "elsewhere", "guard", 5).encode())
    [dead] = verify(storage, SystemClock(), LocalExecutor(1)).findings
    assert dead.mend is Mend.RELEASE_LOCK
    repair(storage, SystemClock(), plan_repair(verify(storage, SystemClock(), LocalExecutor(1))))
    assert verify(storage, SystemClock(), LocalExecutor(1)).findings == ()


def test_a_plan_is_in_order_holds_each_step_once_and_keeps_what_it_cannot_mend():
    def finding(mend, path, severity=Severity.WARNING):
        return Finding(severity, Code.FILE_LEFTOVER, path, path=path, instant="1", mend=mend)

    lost = finding(None, "lost", Severity.ERROR)
    report = make_report(
        "u",
        "quick",
        [
            finding(Mend.DELETE_FILE, "b"),
            finding(Mend.DELETE_FILE, "a"),
            finding(Mend.DELETE_FILE, "a", Severity.NOTE),
            finding(Mend.WRITE_CHECKSUM, "p"),
            finding(None, "just so you know", Severity.NOTE),
            lost,
        ],
        Coverage(),
    )
    plan = plan_repair(report)
    assert [(step.mend, step.path) for step in plan.steps] == [
        (Mend.WRITE_CHECKSUM, "p"),
        (Mend.DELETE_FILE, "a"),
        (Mend.DELETE_FILE, "b"),
    ]
    assert plan.left == (lost,)
    assert str(plan) == "u: 3 steps to do, and 1 finding that repair cannot fix"
    assert str(plan.steps[1]) == "delete a, which is in no commit"
    assert str(plan_repair(make_report("u", "quick", [], Coverage()))) == "u: nothing to repair"


def test_every_mend_has_a_sentence():
    for mend_ in Mend:
        assert str(Step(mend_, "some/path", "17"))


def test_rows_are_read_after_a_repair_of_a_table_with_a_dead_load():
    storage = memory_storage()
    table = make(storage, table_type="COPY_ON_WRITE")
    ActiveTimeline(storage).create_requested(Action.COMMIT, PENDING)
    storage.put(f"p0/00000000-x-0_0-0-0_{PENDING}.parquet", b"half")
    assert len(mend(storage).done) == 1
    table.bulk_insert(ROWS)
    assert table.read().read_all().num_rows == len(ROWS)
    assert isinstance(table.schema, pa.Schema)


@pytest.mark.parametrize("bad_properties", [False, True])
def test_a_repair_that_dies_anywhere_is_done_by_the_next(bad_properties):
    whole = contents(loaded())
    damaged = copy_of(whole)
    damage(damaged)
    if bad_properties:
        damaged.put(PROPERTIES, b"hoodie.table")
    report = verify(damaged, ManualClock(LATER_MS), LocalExecutor(1), quick=True)
    plan = plan_repair(report)
    work = Work.of(contents(damaged), lambda given: repair(given, ManualClock(LATER_MS, 1), plan))
    for storage, what in work.crashes(work.ends()):
        mend(storage)
        assert check(storage).findings == (), what
        kept = {path: data for path, data in contents(storage).items() if path != PROPERTIES}
        data = {path: data for path, data in whole.items() if path != PROPERTIES}
        assert without_locks(kept) == without_locks(data)
        assert all(kept[path] == data[path] for path in without_locks(data))


class PicklingExecutor:
    """Sends task, item and result as bytes, as Spark does."""

    def run(self, task, items, label):
        for number, item in enumerate(items):
            act, given = pickle.loads(pickle.dumps((task, item)))
            yield pickle.loads(pickle.dumps(act(given, TaskId(number, 0, 0))))


@pytest.mark.parametrize("index", ["bucket", "global_simple"])
def test_checks_travel_to_workers(tmp_path, index):
    storage = open_storage(str(tmp_path / "t"))
    make(storage, SystemClock(), index=index).bulk_insert(ROWS)
    here = verify(storage, SystemClock(), LocalExecutor(1))
    assert verify(storage, SystemClock(), PicklingExecutor()) == here
    assert here.checked["key"] == len(ROWS)
