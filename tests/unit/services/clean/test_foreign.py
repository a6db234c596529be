"""Cleans that another engine began: left alone while it may be at them, finished after that."""

import pytest

from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.plans import PlanKind, encode_plan
from lakebed.model.clock import ManualClock
from lakebed.model.options.services import CleanOptions
from lakebed.services.clean.execute import clean
from lakebed.services.clean.plan_file import parse_clean_plan
from lakebed.timeline.active import ActiveTimeline
from support.tables import batch, make, reopen, user_rows

BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
LAST_TWO = CleanOptions(commits_retained=2, min_age_seconds=0)
EXPIRY_SECONDS = 121


def written():
    """Return a table that needs cleaning, and its clock."""
    clock = ManualClock(step_ms=1)
    table = make(None, clock, buckets=1, table_type="COPY_ON_WRITE", properties=BY_HAND)
    commits = [table.upsert(batch(("k", n, n, "p"))).instant for n in range(6)]
    return table, clock, commits


def hudis_plan(table, commits) -> bytes:
    """Spell a plan as Hudi does that deletes the first version."""
    first = next(e.path for e in table._storage.list("p") if commits[0] in e.path)
    info = {"filePath": f"{table._storage.url}/{first}", "isBootstrapBaseFile": False}
    return encode_plan(
        PlanKind.CLEANER_PLAN,
        {
            "earliestInstantToRetain": {
                "timestamp": commits[1],
                "action": "commit",
                "state": "COMPLETED",
            },
            "lastCompletedCommitTimestamp": commits[-1],
            "policy": "KEEP_LATEST_COMMITS",
            "filesToBeDeletedPerPartition": {},
            "version": 2,
            "filePathsToBeDeletedPerPartition": {"p": [info]},
            "partitionsToBeDeleted": [],
            "extraMetadata": {},
        },
    )


def begin(table, commits, plan: bytes) -> str:
    """Put a clean of Hudi's on the timeline, in flight."""
    active, requested = ActiveTimeline(table._storage), f"{int(commits[-1]) + 500}"
    active.create_requested(Action.CLEAN, requested, plan)
    active.transition_to_inflight(Action.CLEAN, requested, plan)
    return requested


def only_clean(table):
    (found,) = ActiveTimeline(table._storage).load().select(Action.CLEAN)
    return found


@pytest.mark.parametrize("how_much", [1.0, 0.5, 0.0], ids=["whole", "half a file", "nothing yet"])
def test_a_young_clean_of_another_engine_is_left_to_it(how_much):
    table, _, commits = written()
    plan = hudis_plan(table, commits)
    requested = begin(table, commits, plan[: int(len(plan) * how_much)])
    before = {entry.path for entry in table._storage.list("p")}
    assert clean(table._target(), LAST_TWO) is None
    assert (only_clean(table).requested, only_clean(table).is_completed) == (requested, False)
    assert {entry.path for entry in table._storage.list("p")} == before


def test_an_old_clean_of_another_engine_is_finished():
    table, clock, commits = written()
    requested = begin(table, commits, hudis_plan(table, commits))
    clock.sleep(EXPIRY_SECONDS)
    done = clean(table._target(), LAST_TWO)
    assert done is not None
    assert done.resumed == (requested,)
    assert not any(commits[0] in entry.path for entry in table._storage.list("p"))


def test_a_plan_of_ours_says_that_it_is_and_one_of_hudis_does_not():
    table, _, commits = written()
    assert not parse_clean_plan(hudis_plan(table, commits), "plan").ours
    done = clean(table._target(), LAST_TWO)
    assert done is not None
    data = ActiveTimeline(table._storage).read(only_clean(table), State.REQUESTED)
    assert parse_clean_plan(data, "plan").ours


def test_a_clean_that_two_engines_completed_does_no_harm():
    table, clock, _ = written()
    done = clean(table._target(), LAST_TWO)
    assert done is not None
    folder = ".hoodie/timeline"
    first = f"{folder}/{done.instant}_{done.completion_time}.clean"
    later = f"{folder}/{done.instant}_{int(done.completion_time) + 1}.clean"
    table._storage.put(later, table._storage.read(first))
    again = reopen(table._storage)
    assert only_clean(again).completion == done.completion_time
    want = user_rows(table)
    assert user_rows(again) == want
    again.upsert(batch(("other", 1, 1, "p")))
    assert again.verify().is_sound
    clock.sleep(EXPIRY_SECONDS)
    short = {
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "lakebed.clean.min.age.seconds": "0",
    }
    assert again.archive(options=short) is not None
    assert len(user_rows(reopen(table._storage))) == len(want) + 1
