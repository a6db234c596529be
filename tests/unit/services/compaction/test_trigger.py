import pytest

from lakebed.model.options.services import CompactionMode, CompactionOptions, Trigger
from lakebed.services.compaction.trigger import is_due
from lakebed.timeline.timeline import Timeline


def at(second: int) -> str:
    return f"202401010000{second:02d}000"


def delta(second: int) -> list[str]:
    return [f"{at(second)}.deltacommit.requested", f"{at(second)}_{at(second + 1)}.deltacommit"]


def due(
    names: list[str], now: int, mode: CompactionMode = CompactionMode.FULL, **options: object
) -> bool:
    chosen = CompactionOptions(**options)  # type: ignore[arg-type]
    return is_due(Timeline.parse(names), chosen, mode, at(now), "UTC")


THREE = [*delta(1), *delta(3), *delta(5)]
COMPACTED = [f"{at(4)}.compaction.requested", f"{at(4)}_{at(8)}.commit"]
PLANNED = [f"{at(4)}.compaction.requested"]


def test_a_table_without_delta_commits_is_never_due():
    for trigger in Trigger:
        assert not due([], 59, trigger=trigger, max_delta_seconds=0, max_delta_commits=1)


def test_delta_commits_count_from_the_first_on_where_nothing_was_compacted():
    assert due(THREE, 9, max_delta_commits=3)
    assert not due(THREE, 9, max_delta_commits=4)


def test_delta_commits_that_began_after_the_last_completed_compaction_count():
    assert due([*THREE, *COMPACTED], 9, max_delta_commits=1)
    assert not due([*THREE, *COMPACTED], 9, max_delta_commits=2)


def test_a_pending_write_does_not_count():
    assert not due([*THREE, f"{at(7)}.deltacommit.requested"], 9, max_delta_commits=4)


def test_a_planned_compaction_counts_only_for_the_strategy_that_says_so():
    assert due([*THREE, *PLANNED], 9, max_delta_commits=3)
    after = Trigger.NUM_COMMITS_AFTER_LAST_REQUEST
    assert not due([*THREE, *PLANNED], 9, trigger=after, max_delta_commits=2)
    assert due([*THREE, *PLANNED], 9, trigger=after, max_delta_commits=1)


def test_time_counts_from_the_last_compaction_or_the_first_delta_commit():
    elapsed = Trigger.TIME_ELAPSED
    assert due(THREE, 11, trigger=elapsed, max_delta_seconds=10)
    assert not due(THREE, 10, trigger=elapsed, max_delta_seconds=10)
    assert not due([*THREE, *COMPACTED], 13, trigger=elapsed, max_delta_seconds=10)
    assert due([*THREE, *COMPACTED], 14, trigger=elapsed, max_delta_seconds=10)


@pytest.mark.parametrize(
    ("commits", "now", "both", "either"),
    [(3, 11, True, True), (3, 9, False, True), (4, 11, False, True), (4, 9, False, False)],
)
def test_number_and_time_can_be_asked_together(commits: int, now: int, both: bool, either: bool):
    told = {"max_delta_commits": commits, "max_delta_seconds": 10}
    assert due(THREE, now, trigger=Trigger.NUM_AND_TIME, **told) is both
    assert due(THREE, now, trigger=Trigger.NUM_OR_TIME, **told) is either


def test_logs_are_due_by_the_delta_commits_since_either_kind_of_compaction():
    joined = [f"{at(4)}.logcompaction.requested", f"{at(4)}_{at(8)}.deltacommit"]
    assert due(THREE, 9, CompactionMode.LOG, blocks_threshold=3)
    assert not due([*THREE, *joined], 9, CompactionMode.LOG, blocks_threshold=2)
    assert due([*THREE, *joined], 9, CompactionMode.LOG, blocks_threshold=1)
    assert not due([*THREE, *COMPACTED], 9, CompactionMode.LOG, blocks_threshold=2)
