"""Cleaning tables: what is gone, what stays readable, and who may do it at the same time."""

from dataclasses import replace

import pytest

from lakebed.commit.rollback import temp_path
from lakebed.errors import InvalidError, UnavailableError
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.heartbeat import heartbeat_path
from lakebed.format.timeline.plans import PlanKind, encode_plan, parse_plan
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.model.options.services import CleanOptions, CleanPolicy
from lakebed.services.clean.execute import Clean, clean
from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from lakebed.timeline.active import ActiveTimeline
from support.faulty import FaultyStorage
from support.tables import batch, contents, make, reopen, user_rows

BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
LAST_TWO = CleanOptions(commits_retained=2, min_age_seconds=0)
ONE_VERSION = CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS, 1, 1, 1, 0)


def write(table, number: int, *partitions: str):
    return table.upsert(batch(*((f"k{number % 3}", number, number, p) for p in partitions or "p")))


def filled(count: int = 6, **changes):
    properties = {**BY_HAND, **changes.pop("properties", {})}
    storage, clock = changes.pop("storage", None), ManualClock(step_ms=1)
    table = make(storage, clock, buckets=1, properties=properties, **changes)
    commits = [write(table, number).instant for number in range(count)]
    return table, commits


def data_files(storage) -> set[str]:
    return {path for path in contents(storage) if parse_data_name(path.rpartition("/")[2])}


def states(table, commits) -> dict:
    return {instant: user_rows(table, instant) for instant in commits}


def cleans(storage):
    return [i for i in ActiveTimeline(storage).load().instants if i.action is Action.CLEAN]


@pytest.mark.parametrize("options", [LAST_TWO, ONE_VERSION], ids=["commits", "versions"])
def test_after_a_clean_retained_moments_read_the_same_and_older_are_refused(options):
    table, commits = filled()
    before = states(table, commits)
    done = clean(table._target(), options)
    assert done is not None
    again = reopen(table._storage)
    refused = []
    for instant in commits:
        try:
            assert user_rows(again, instant) == before[instant]
        except InvalidError:
            refused.append(instant)
    assert refused == [i for i in commits if i < done.earliest_retained]
    assert refused
    assert user_rows(again) == before[commits[-1]]


def test_the_result_says_what_happened_and_so_does_the_timeline():
    table, commits = filled()
    before = data_files(table._storage)
    done = clean(table._target(), LAST_TWO)
    gone = before - data_files(table._storage)
    assert done == Clean(done.instant, done.completion_time, commits[-2], len(gone), 1)
    assert len(gone) == 3
    assert f"deleted 3 files in 1 partitions; the instants from {commits[-2]}" in str(done)
    [instant] = cleans(table._storage)
    assert (instant.requested, instant.completion) == (done.instant, done.completion_time)
    found = parse_plan(PlanKind.CLEAN, ActiveTimeline(table._storage).read(instant), "clean")
    assert {f"p/{name}" for name in found["partitionMetadata"]["p"]["successDeleteFiles"]} == gone
    assert found["earliestCommitToRetain"] == commits[-2]


def test_where_nothing_is_to_clean_no_instant_is_written():
    table, _ = filled(2)
    before = contents(table._storage)
    assert clean(table._target(), CleanOptions()) is None
    assert contents(table._storage) == before
    table, _ = filled()
    assert clean(table._target(), LAST_TWO) is not None
    before = contents(table._storage)
    assert clean(table._target(), LAST_TWO) is None
    assert contents(table._storage) == before


def test_options_come_from_the_tables_properties():
    given = {"hoodie.clean.commits.retained": "2", "lakebed.clean.min.age.seconds": "0"}
    table, commits = filled(properties=given)
    assert clean(table._target()).earliest_retained == commits[-2]


def test_a_table_of_logs_keeps_them_until_a_base_file_is_below_all():
    table, _ = filled(table_type="MERGE_ON_READ", ordering=("ts",))
    assert clean(table._target(), LAST_TWO) is None


def test_a_query_that_began_a_moment_ago_keeps_its_files():
    table, _ = filled()
    reader = table.read()
    assert clean(table._target(), CleanOptions(commits_retained=1)) is None
    assert reader.read_all().num_rows == 3


def test_replaced_file_groups_and_their_partitions_go():
    table, _ = filled(1)
    write(table, 1, "q")
    table.delete_partitions(["q"])
    for number in range(3):
        write(table, number)
    rows = user_rows(table)
    assert any(path.startswith("q/") for path in contents(table._storage))
    clean(table._target(), LAST_TWO)
    assert not any(path.startswith("q/") for path in contents(table._storage))
    assert user_rows(reopen(table._storage)) == rows
    write(table, 9, "q")
    assert len(user_rows(reopen(table._storage))) == len(rows) + 1
    assert "q/.hoodie_partition_metadata" in contents(table._storage)


def test_a_partition_with_somebody_elses_file_stays_one():
    table, _ = filled(1)
    write(table, 1, "q")
    table.delete_partitions(["q"])
    table._storage.put("q/notes.txt", b"mine")
    for number in range(3):
        write(table, number)
    clean(table._target(), LAST_TWO)
    left = {path for path in contents(table._storage) if path.startswith("q/")}
    assert left == {"q/notes.txt", "q/.hoodie_partition_metadata"}


def test_no_partition_goes_while_somebody_may_write_to_it():
    table, _ = filled(1)
    write(table, 1, "q")
    table.delete_partitions(["q"])
    last = [write(table, number).instant for number in range(3)][-1]
    plan = encode_plan(PlanKind.COMPACTION_PLAN, {})
    planned = f"{int(last) + 500}"
    ActiveTimeline(table._storage).create_requested(Action.COMPACTION, planned, plan)
    clean(table._target(), LAST_TWO)
    left = {path for path in contents(table._storage) if path.startswith("q/")}
    assert left == {"q/.hoodie_partition_metadata"}


def savepoint(table, instant: str, *names: str) -> None:
    plan = encode_plan(
        PlanKind.SAVEPOINT,
        {
            "savepointedBy": "me",
            "savepointedAt": 1,
            "comments": "",
            "partitionMetadata": {"p": {"partitionPath": "p", "savepointDataFile": list(names)}},
        },
    )
    done = f"{instant[:-1]}9"
    table._storage.put(f".hoodie/timeline/{instant}_{done}.savepoint", plan)


def test_the_files_of_a_savepoint_stay():
    table, commits = filled()
    kept = {path for path in data_files(table._storage) if commits[1] in path}
    savepoint(table, commits[1])
    clean(table._target(), LAST_TWO)
    assert kept <= data_files(table._storage)
    assert len(data_files(table._storage)) == 4


def test_files_that_a_savepoint_names_stay_whatever_its_time():
    table, commits = filled()
    [kept] = [path for path in data_files(table._storage) if commits[0] in path]
    savepoint(table, commits[-1], kept.rpartition("/")[2])
    clean(table._target(), LAST_TWO)
    assert kept in data_files(table._storage)


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (Action.COMPACTION, PlanKind.COMPACTION_PLAN),
        (Action.LOGCOMPACTION, PlanKind.COMPACTION_PLAN),
        (Action.CLUSTERING, PlanKind.REQUESTED_REPLACE),
    ],
)
def test_what_a_pending_plan_reads_stays(action, kind):
    table, commits = filled()
    [path] = [path for path in data_files(table._storage) if commits[0] in path]
    name = path.rpartition("/")[2]
    slice_ = {"dataFilePath": name, "fileId": "f", "partitionPath": "p"}
    if kind is PlanKind.COMPACTION_PLAN:
        values = {"operations": [{**slice_, "baseInstantTime": commits[0]}]}
    else:
        values = {"clusteringPlan": {"inputGroups": [{"slices": [slice_]}]}}
    planned = f"{int(commits[-1]) + 500}"
    ActiveTimeline(table._storage).create_requested(action, planned, encode_plan(kind, values))
    clean(table._target(), LAST_TWO)
    assert path in data_files(table._storage)
    assert len(data_files(table._storage)) < 6


def test_leftovers_of_tasks_and_of_rolled_back_writes_go():
    table, commits = filled(3)
    rolled_back = f"{int(commits[0]) + 1}"
    assert rolled_back not in commits
    left = {
        f"p/late-0_7-7-7_{commits[1]}.parquet",
        f"p/late-0_7-7-7_{rolled_back}.parquet",
        f"q/late-0_7-7-7_{rolled_back}.parquet",
    }
    live = f"p/late-0_7-7-7_{int(commits[-1]) + 10**6}.parquet"
    for path in (*left, live):
        table._storage.put(path, b"x")
    rows = user_rows(table)
    done = clean(table._target(), CleanOptions())
    assert done.deleted_files == 3
    assert done.earliest_retained == commits[0]
    assert not left & contents(table._storage).keys()
    assert live in contents(table._storage)
    assert user_rows(reopen(table._storage)) == rows


def test_signs_of_writes_that_are_over_go_and_those_of_others_stay():
    table, commits = filled(3)
    gone, later = f"{int(commits[0]) + 1}", f"{int(commits[-1]) + 10**6}"
    over = [
        heartbeat_path(commits[0]),
        heartbeat_path(gone),
        f".hoodie/.temp/{commits[0]}/p/x.parquet.marker.CREATE",
        f".hoodie/.temp/{gone}/MARKERS.type",
        temp_path(gone, "0-0"),
    ]
    stay = [heartbeat_path(later), f".hoodie/.temp/{later}/MARKERS.type", ".hoodie/.temp/notes/x"]
    planned = f"{int(commits[-1]) + 500}"
    plan = encode_plan(PlanKind.COMPACTION_PLAN, {})
    ActiveTimeline(table._storage).create_requested(Action.COMPACTION, planned, plan)
    stay += [heartbeat_path(planned), f".hoodie/.temp/{planned}/MARKERS0"]
    for path in (*over, *stay):
        table._storage.put(path, b"")
    assert clean(table._target(), CleanOptions()) is None
    paths = contents(table._storage).keys()
    assert not set(over) & paths
    assert set(stay) <= paths


def test_on_disk_the_checksums_beside_files_of_hudi_go_too(tmp_path):
    table, _ = filled(storage=LocalStorage(str(tmp_path)))
    for path in data_files(table._storage):
        folder, _, name = path.rpartition("/")
        table._storage.put(f"{folder}/.{name}.crc", b"crc")
    clean(table._target(), LAST_TWO)
    names = {path.rpartition("/")[2] for path in contents(table._storage)}
    sidecars = {name for name in names if name.endswith(".parquet.crc")}
    assert len(sidecars) == 3
    assert all(name[1:].removesuffix(".crc") in names for name in sidecars)


class Unlucky(LocalExecutor):
    """Fails before the first task, as when storage does not answer."""

    def run(self, task, items, label):
        raise UnavailableError(f"{label}: no answer")


def half_done(table) -> str:
    """Leave a clean pending; give its instant."""
    target = table._target()
    unlucky = replace(target, executor=Unlucky(1))
    with pytest.raises(UnavailableError):
        clean(unlucky, LAST_TWO)
    [instant] = cleans(table._storage)
    assert not instant.is_completed
    return instant.requested


def test_a_clean_that_was_left_half_done_is_finished_first():
    table, _ = filled()
    first = half_done(table)
    assert len(data_files(table._storage)) == 6
    done = clean(table._target(), LAST_TWO)
    assert (done.instant, done.resumed, done.deleted_files) == (first, (first,), 3)
    table, _ = filled()
    first = half_done(table)
    write(table, 7)
    done = clean(table._target(), LAST_TWO)
    assert done.resumed == (first,)
    assert done.instant > first
    assert len(data_files(table._storage)) == 3
    assert [i.is_completed for i in cleans(table._storage)] == [True, True]


def test_a_clean_without_a_plan_is_dropped():
    table, commits = filled()
    ActiveTimeline(table._storage).create_requested(Action.CLEAN, f"{int(commits[-1]) + 500}")
    # As long as it is young another engine may be about to write it.
    table._target().clock.sleep(121)
    done = clean(table._target(), LAST_TWO)
    assert done.resumed == ()
    assert [i.requested for i in cleans(table._storage)] == [done.instant]


class Meddler(LocalExecutor):
    """Lets another cleaner do all the work before its own."""

    def __init__(self, table):
        super().__init__(1)
        self.table = table
        self.other = None

    def run(self, task, items, label):
        self.other = clean(reopen(self.table._storage)._target(), LAST_TWO)
        return super().run(task, items, label)


def test_two_cleaners_on_one_plan_complete_it_once():
    table, _ = filled()
    target = table._target()
    meddler = Meddler(table)
    ours = replace(target, executor=meddler)
    done = clean(ours, LAST_TWO)
    assert meddler.other.resumed == (done.instant,)
    assert meddler.other.completion_time == done.completion_time
    assert len(cleans(table._storage)) == 1
    assert user_rows(reopen(table._storage)) == user_rows(table)


def test_a_clean_reads_no_data_file():
    table, _ = filled()
    watched = FaultyStorage(table._storage)
    clean(reopen(watched)._target(), LAST_TWO)
    reads = [op for op in watched.ops if op.startswith(("read", "open_read"))]
    assert not [op for op in reads if parse_data_name(op.rpartition("/")[2])]


def test_an_empty_table_has_nothing_to_clean():
    assert clean(make(memory_storage())._target(), LAST_TWO) is None
