from lakebed.format.names.data_names import BaseFileName, InlineLogName
from lakebed.model.options.services import CompactionMode, CompactionOptions
from lakebed.services.compaction.plan import (
    LogRun,
    bound_io,
    choose_kind,
    choose_slices,
    count_joinable,
    full_operation,
    log_operation,
)
from lakebed.services.compaction.plan_file import Kind
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice, LogFile

MB = 1 << 20
OPTIONS = CompactionOptions()


def instant(number: int) -> str:
    return f"202401010000{number:05d}"


def slice_of(base: int | None, *logs: int, file_id: str = "f-0") -> FileSlice:
    """Return a slice of a base file and logs of so many bytes, written at 0, 1, 2, ..."""
    file = None if base is None else BaseFile("p", BaseFileName(file_id, "0-0-0", instant(0)), base)
    held = [
        LogFile("p", InlineLogName(file_id, instant(n + 1), 1, "0-0-0"), size)
        for n, size in enumerate(logs)
    ]
    return FileSlice(FileGroupId("p", file_id), instant(0), file, tuple(held))


def runs(*told: int | tuple[int, str]) -> list[LogRun]:
    """Return a run of whole rows for a number, one of some columns for a number and these."""
    found = []
    for one in told:
        number, columns = one if isinstance(one, tuple) else (one, "")
        only = frozenset(columns) if columns else None
        found.append(LogRun(instant(number), f"log{number}", only))
    return found


def test_slices_without_logs_and_file_groups_in_other_plans_are_left_out():
    plain, busy, free = slice_of(9), slice_of(9, 1, file_id="b-0"), slice_of(9, 1)
    assert choose_slices([plain, busy, free], {busy.group}, OPTIONS) == [free]


def test_slices_below_the_thresholds_of_log_size_and_number_are_left_out():
    small, large = slice_of(9, 3, 3), slice_of(9, 10)
    assert choose_slices([small, large], (), CompactionOptions(log_size_threshold=7)) == [large]
    assert choose_slices([small, large], (), CompactionOptions(log_count_threshold=2)) == [small]


def test_full_takes_every_slice_and_log_those_with_enough_logs():
    assert choose_kind(slice_of(100, 1), CompactionMode.FULL, OPTIONS) is Kind.FULL
    assert choose_kind(slice_of(100, *[1] * 4), CompactionMode.LOG, OPTIONS) is None
    assert choose_kind(slice_of(100, *[1] * 5), CompactionMode.LOG, OPTIONS) is Kind.LOG
    assert choose_kind(slice_of(None, *[1] * 5), CompactionMode.LOG, OPTIONS) is Kind.LOG


def test_hybrid_joins_many_small_logs_on_a_large_base_file():
    assert choose_kind(slice_of(1000, *[10] * 8), CompactionMode.HYBRID, OPTIONS) is Kind.LOG


def test_hybrid_leaves_few_small_logs_alone():
    assert choose_kind(slice_of(1000, 10, 10), CompactionMode.HYBRID, OPTIONS) is None


def test_hybrid_makes_a_new_base_file_where_logs_are_large_next_to_it_or_there_is_none():
    assert choose_kind(slice_of(1000, 250), CompactionMode.HYBRID, OPTIONS) is Kind.FULL
    assert choose_kind(slice_of(1000, *[50] * 5), CompactionMode.HYBRID, OPTIONS) is Kind.FULL
    assert choose_kind(slice_of(None, 1), CompactionMode.HYBRID, OPTIONS) is Kind.FULL


def test_logs_of_whole_rows_are_joined_up_to_the_first_that_changes_columns():
    assert count_joinable(runs(1, 2, (3, "ab"), 4)) == 2
    assert count_joinable(runs((1, "ab"), (2, "ab"), (3, "a"))) == 2


def test_deletes_go_with_rows_before_them_and_with_whole_rows_behind_them():
    deletes = LogRun(instant(2), "log2", is_rows=False)
    assert count_joinable([*runs(1), deletes, *runs(3, (4, "ab"))]) == 3
    assert count_joinable([*runs((1, "ab")), deletes, *runs((3, "ab"))]) == 2


def test_where_logs_are_folded_first_nothing_joins_what_came_back_after_a_delete():
    deletes = LogRun(instant(2), "log2", is_rows=False)
    again = LogRun(instant(4), "log4", is_rows=False)
    history = [*runs(1), deletes, *runs(3), again]
    assert count_joinable(history) == 4
    assert count_joinable(history, logs_first=True) == 3


def test_an_instant_is_taken_whole_or_not_at_all():
    assert count_joinable(runs(1, 2, 2, (2, "a"), 3)) == 1


def test_logs_behind_a_pending_write_are_not_taken():
    assert count_joinable(runs(1, 2, 3), instant(3)) == 2
    assert count_joinable(runs(1, 2, 3), instant(1)) == 0


def test_a_log_operation_has_the_logs_that_it_takes_first():
    options = CompactionOptions(blocks_threshold=2)
    found = log_operation(slice_of(9, 1, 2, 3), runs(1, 2, 3), options, before=instant(3))
    assert found is not None
    assert (found.kind, found.taken, len(found.slice_.log_files)) == (Kind.LOG, 2, 3)
    assert [log.name.instant for log in found.logs] == [instant(1), instant(2)]
    assert found.log_bytes == 6


def test_logs_that_were_joined_before_come_along_with_the_log_that_stands_for_them():
    # 4 stands for 1 and 2 and replays before 3, which changes other columns.
    options = CompactionOptions(blocks_threshold=2)
    found = log_operation(slice_of(9, 1, 1, 1, 1, 1), runs(4, 5, (3, "a")), options)
    assert found is not None
    assert [log.name.instant[-1] for log in found.logs] == ["1", "2", "4", "5"]
    assert [log.name.instant[-1] for log in found.slice_.log_files[found.taken :]] == ["3"]


def test_one_instant_or_too_few_logs_are_not_worth_joining():
    options = CompactionOptions(blocks_threshold=2)
    assert log_operation(slice_of(9, 1), runs(1, 1), options) is None
    assert log_operation(slice_of(9, 1, 1), runs(1, 2), OPTIONS) is None


def test_where_the_joined_log_replays_last_all_are_taken_or_none():
    options = CompactionOptions(blocks_threshold=2)
    mixed = runs(1, 2, (3, "a"))
    assert log_operation(slice_of(9, 1, 1, 1), mixed, options, all_of_them=True) is None
    assert log_operation(slice_of(9, 1, 1), runs(1, 2), options, all_of_them=True) is not None


def test_the_largest_logs_come_first_until_the_io_of_a_plan_is_used_up():
    small = full_operation(slice_of(10 * MB, MB, file_id="s-0"))
    large = full_operation(slice_of(10 * MB, 3 * MB, file_id="l-0"))
    middle = full_operation(slice_of(10 * MB, 2 * MB, file_id="m-0"))
    assert bound_io([small, large, middle], CompactionOptions(target_io_mb=24)) == (large, middle)
    assert bound_io([small, large], CompactionOptions(target_io_mb=0)) == ()


def test_metrics_are_those_that_hudi_writes():
    assert full_operation(slice_of(10 * MB, MB, 2 * MB)).metrics == {
        "TOTAL_LOG_FILES": 2.0,
        "TOTAL_LOG_FILES_SIZE": 3.0 * MB,
        "TOTAL_IO_READ_MB": 13.0,
        "TOTAL_IO_WRITE_MB": 10.0,
        "TOTAL_IO_MB": 23.0,
    }
    assert full_operation(slice_of(None, MB)).metrics["TOTAL_IO_WRITE_MB"] == 120.0
